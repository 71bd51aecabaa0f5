"""Rows: ranks that die, are late or do wrong."""

from __future__ import annotations

from dpsim.campaign.assumptions.facts import Facts
from dpsim.campaign.assumptions.row import OTHERWISE, Assumption, Says, Section

NO_DEATH = Says("no rank dies", lambda on: not on.mortal)


def _only_some_die(on: Facts) -> bool:
    return 0 < len(on.mortal) < on.world.size


SHARE_NOTHING = "ranks share nothing in Python"

ONLY_SOME = Says("only the named ranks die", _only_some_die, lambda on: on.only_some_die)

RANKS = Section(
    "Ranks that die, are late or do wrong",
    (
        Assumption(
            "kill a rank at any time",
            "option; else no rank dies",
            "`faults` of the kind `kill` (`at`: from which op on; `time`: when, in a run with time), `World.kills`, "
            "`Kill.rank`, `Kill.at`, `Kill.ns`",
            (NO_DEATH,),
        ),
        Assumption("kill more ranks than those that are named", "no: only the named ranks die", "", (ONLY_SOME,)),
        Assumption(
            "serve some peers of a collective or transfer and not others when a rank dies in it",
            "option; else what the dead began goes on on hosts, and on devices what waits for all ends for all or "
            "none. Parts that end early there (a broadcast's receivers, eager sends) may always end for some and "
            "not for others",
            "`faults` of the kind `kill` with `partial: true`, `Kill.partial`",
            (
                Says(
                    "what the dead began goes on on hosts, and on devices what waits for all ends for all or none",
                    lambda on: on.meets and not all(kill.partial for kill in on.world.kills),
                ),
            ),
        ),
        Assumption(
            "lose messages that a dead rank had posted",
            "option; else what the dead posted arrives",
            "`faults` of the kind `kill` with `loses_mail: true`, `Kill.loses_mail`",
            (
                Says(
                    "what the dead posted arrives",
                    lambda on: on.did("post") and not all(kill.loses_mail for kill in on.world.kills),
                ),
            ),
        ),
        Assumption(
            "bring a dead rank back",
            "no",
            "",
            (Says("no dead rank comes back", lambda on: bool(on.mortal)),),
        ),
        Assumption(
            "leave a collective out, make it twice or otherwise",
            "option, on every backend",
            "`faults` of the kinds `skip`, `repeat`, `alter`, `World.faults`",
            nothing="the proof is of the program as it is written",
        ),
        Assumption(
            "kill a process at an op",
            "option, on every backend. In the simulation what it had begun on its host goes on, so what a death "
            "loses there is for `kill` to show. Its device stops at any time after that",
            "`faults` of the kind `die`, `World.faults`",
            (NO_DEATH, ONLY_SOME),
        ),
        Assumption(
            "raise in a process at an op, or hold it up there without end",
            "option, on every backend; else no call does so",
            "`faults` of the kinds `raise`, `hang`, `World.faults`",
            (
                NO_DEATH,
                Says("no call raises or hangs by chance", lambda on: bool(on.mortal) and not on.faulty_call),
            ),
        ),
        Assumption(
            "let a rank learn at any time after it that another one is gone, or never of one that hangs",
            "always, where there is no time; a rank that does not watch learns nothing",
            "`Rank.watch`",
        ),
        Assumption(
            "end what a rank that aborts a communicator had begun there for some peers and not for others, at any "
            "time after the abort",
            "always, for a program that says that it aborts",
            "`Program.aborts`",
        ),
        Assumption(
            'raise an exception in peers of an aborted communicator, or of a dead member (gloo: "Connection closed '
            'by peer")',
            "no: a dead peer raises nothing, and no survivor sees such an exception. A peer stands until it aborts "
            "the communicator itself, on every backend. What an engine does after that exception is not tested",
            "",
            (Says("a dead peer raises nothing", lambda on: on.breaks_off and on.meets),),
        ),
        Assumption(
            "let what was begun go on behind an abort, so that peers get through all the same (gloo)",
            "always both ways, for a program that says that it aborts. What gloo has begun mostly goes on, so it "
            "hardly shows a `HANG:COLLECTIVE:ABORTED` that the simulation finds",
            "`Program.aborts`",
        ),
        Assumption(
            "break off a collective in the midst of its elements, so that a buffer has some of them",
            "no: the buffer has all of them, or what was there before",
            "",
            (Says(OTHERWISE, lambda on: on.breaks_off and on.meets),),
        ),
        Assumption(
            "stop a host anywhere for any time (preemption, a garbage collection)",
            "always, where there is no time; but a host's call and what it reads are one step",
            "`delays` for a run with time",
        ),
        Assumption(
            "run each rank in its own Python process, with other process ids, hashes and addresses",
            "always: each rank of a run that holds runs once more alone in a process, along up to 8 schedules. "
            "Of many worlds only some are looked at, and their summary says how many. Where a program cannot be made "
            "in another process, no",
            "",
            (
                Says(
                    SHARE_NOTHING,
                    lambda on: bool(on.not_alone),
                    lambda on: f"{SHARE_NOTHING}: {on.not_alone}",
                ),
            ),
        ),
        Assumption(
            "run on clocks that differ, or jump",
            "no: nothing in the contract reads a clock; `step` and `sleep` are the only times",
            nothing="no call of the contract reads a clock",
        ),
    ),
)
