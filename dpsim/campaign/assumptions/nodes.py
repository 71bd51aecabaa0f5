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
            "let a time-out pass before what lies behind a sleep or a planted delay, through any number of messages, "
            "collectives, stores, ports or flags",
            "always, where there is no time: a time-out passes when nothing but sleeps and deaths can happen, and no "
            "sleep under way ends before it. A sleep and a time-out last from the latest end among the sleeps and "
            "time-outs before them, and all else takes no time. The time-out whose time is up first passes first, and "
            "several at one time pass in any order. A time-out of 0 is a poll, which may always be too early",
            "`Rank.sleep`, `delays`",
        ),
        Assumption(
            "let a time-out pass while what it is for is under way, or before it was begun (a peer is slow)",
            "option; else such a time-out passes after all else. The run in time, which is judged before a search, "
            "lets it pass when it is up",
            "`limits.early_timeouts`, `World.early_timeouts`",
            (
                Says("no time-out passes early", lambda on: TIMEOUT in on.runs and not on.world.early_timeouts),
                Says(
                    "few time-outs of a run pass early",
                    lambda on: TIMEOUT in on.runs and bool(on.world.early_timeouts),
                    lambda on: on.few_timeouts,
                ),
            ),
        ),
        Assumption(
            "preempt hosts, deliver messages late, or kill ranks as often as it likes",
            "always; the option of a bound explores part of it, and the verdict is then bounded and names the bound",
            "`limits.preemptions`, `limits.late_deliveries`, `limits.deaths`",
            (),
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
