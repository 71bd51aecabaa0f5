"""Rows: nodes, ports and services, and the time-outs of those who wait."""

from __future__ import annotations

from dpsim.campaign.assumptions.facts import TIMEOUT, Facts
from dpsim.campaign.assumptions.row import Assumption, Says, Section


def _opens(on: Facts) -> bool:
    return ("store", "open") in on.runs


NODES = Section(
    "Nodes, ports, services and time-outs",
    (
        Assumption(
            "give a port to another program, before a group binds it or between its being found and bound",
            "option; else no other program listens",
            "`ports` (`late: true`: at some time), `World.strangers`",
            (
                Says("no other program listens", lambda on: _opens(on) and not on.world.strangers),
                Says("only the named ports are taken", lambda on: _opens(on) and bool(on.world.strangers)),
            ),
        ),
        Assumption("give a port back some time after its process is gone", "always, where there is no time"),
        Assumption(
            "keep a port for a while after it was closed (TIME_WAIT), or share one",
            "no: a rank that closes a port gives it back",
            "",
            (Says("a closed port is free at once", lambda on: ("store", "close") in on.runs),),
        ),
        Assumption(
            "bring values of two processes to a store in either order, and as late as it likes",
            "always, where there is no time",
        ),
        Assumption(
            "let a time-out pass while what it is for is under way, or before it was begun (a peer sleeps or is slow)",
            "no: time-outs are longer than all that goes on. Where there is no time, a time-out passes when nothing "
            "else can happen, the shortest first, and several of one length in any order. How long a `sleep` is "
            "does not matter there. A time-out of 0 is a poll, which may always be too early",
            "`delays` for a run with time: there a time-out passes when it is up",
            (Says("time-outs are longer than all that goes on", lambda on: TIMEOUT in on.runs),),
        ),
        Assumption(
            "split a network, so that some nodes do not reach others",
            "no: `World.nodes` names the ports of each node",
            "",
            (Says("no network splits", lambda on: len(set(on.world.nodes)) > 1),),
        ),
        Assumption(
            "end a child when its parent ends",
            "no: a program has to see to that. Services (`World.services`) and ranks end by themselves, and a rank "
            "that watches one learns of its end (`Rank.watch`)",
            "",
            (Says("services end by themselves", lambda on: bool(on.world.services)),),
        ),
    ),
)
