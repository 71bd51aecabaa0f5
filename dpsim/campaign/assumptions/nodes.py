"""Nodes: rows of the table of assumptions about nodes, ports, services and timeouts."""

from __future__ import annotations

from dpsim.campaign.assumptions.facts import TIMEOUT, Facts
from dpsim.campaign.assumptions.row import Assumption, Section, Statement


def _opens(on: Facts) -> bool:
    return ("store", "open") in on.runs


NODES = Section(
    "Nodes, ports, services and time-outs",
    (
        Assumption(
            "give a port to another program before a group binds it, perhaps after the group found it free",
            "option; without it, no other program listens",
            "`ports` (`late: true`: at some time), `World.strangers`",
            (
                Statement("no other program listens", lambda on: _opens(on) and not on.world.strangers),
                Statement("only the named ports are taken", lambda on: _opens(on) and bool(on.world.strangers)),
            ),
        ),
        Assumption("free a port some time after its process is gone", "always, in untimed runs"),
        Assumption(
            "keep a port for a while after a rank closed it (TIME_WAIT), or share one",
            "no: a port is free as soon as a rank closes it",
            "",
            (Statement("a closed port is free at once", lambda on: ("store", "close") in on.runs),),
        ),
        Assumption(
            "deliver values of two processes to a store in either order, and with any delay",
            "always, in untimed runs",
        ),
        Assumption(
            "let a time-out pass before an event that follows a sleep or a planted delay, directly or through "
            "messages, collectives, stores, ports or flags",
            "always, in untimed runs. A time-out passes only when nothing but sleeps and deaths can happen, and no "
            "running sleep ends before it. Only sleeps and time-outs take time, each from the latest end of those "
            "before it. The time-out that is due first passes first, and several that are due at once pass in any "
            "order. A time-out of 0 is a poll, which may always be too early",
            "`Rank.sleep`, `delays`",
        ),
        Assumption(
            "let a time-out pass while the awaited event is on its way, or before its cause began (a peer is slow)",
            "option. Without it, such a time-out passes only after everything else. The timed run, which dpsim judges "
            "before each search, lets it pass when it is due",
            "`limits.early_timeouts`, `World.early_timeouts`",
            (
                Statement("no time-out passes early", lambda on: TIMEOUT in on.runs and not on.world.early_timeouts),
                Statement(
                    "few time-outs of a run pass early",
                    lambda on: TIMEOUT in on.runs and bool(on.world.early_timeouts),
                    lambda on: on.few_timeouts,
                ),
            ),
        ),
        Assumption(
            "preempt hosts, deliver messages late, or kill ranks any number of times",
            "always. With the option of a bound, exploring tries only a part, and the verdict names the bound",
            "`limits.preemptions`, `limits.late_deliveries`, `limits.deaths`",
            (),
        ),
        Assumption(
            "split a network, so that some nodes do not reach others",
            "no: `World.nodes` names the ports of each node",
            "",
            (Statement("no network splits", lambda on: len(set(on.world.nodes)) > 1),),
        ),
        Assumption(
            "end a child when its parent ends",
            "no: the program has to end its children. No service (`World.services`) or rank ends because another one "
            "ends; a rank that watches another one receives a message at its end (`Rank.watch`)",
            "",
            (Statement("no service ends because a rank ends", lambda on: bool(on.world.services)),),
        ),
    ),
)
