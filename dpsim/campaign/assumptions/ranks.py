"""Ranks: rows of the table of assumptions about ranks that die, are late, or make a wrong call."""

from __future__ import annotations

from dpsim.campaign.assumptions.row import OTHERWISE, Assumption, Section, Statement

NO_DEATH = Statement("no rank dies", lambda on: not on.mortal)


ABORT_WAITS = "the abort of a device communicator waits for no peer and no kernel"

SHARE_NOTHING = "ranks share no Python object"

ONLY_SOME = Statement(
    "only the named ranks die", lambda on: 0 < len(on.mortal) < on.world.size, lambda on: on.only_some_die
)

RANKS = Section(
    "Ranks that die, are late or do wrong",
    (
        Assumption(
            "kill a rank at any time",
            "option; else no rank dies",
            "`faults` of the kind `kill` (`at`: from which op on; `time`: when, in a timed run), `World.kills`, "
            "`Kill.rank`, `Kill.at`, `Kill.ns`",
            (NO_DEATH,),
        ),
        Assumption("kill more ranks than those that are named", "no: only the named ranks die", "", (ONLY_SOME,)),
        Assumption(
            "serve some peers of a collective or transfer and not others when a rank dies in it",
            "option. Without it, the ops that a dead rank had begun on its host complete. On its device, an op that "
            "waits for all members completes for all or for none. An op that may complete early (of a broadcast's "
            "receiver, or an eager send) may always complete for some peers only",
            "`faults` of the kind `kill` with `partial: true`, `Kill.partial`",
            (
                Statement(
                    "host ops of a dead rank complete, and device ops that need all members complete for all or none",
                    lambda on: on.meets and not all(kill.partial for kill in on.world.kills),
                ),
            ),
        ),
        Assumption(
            "lose messages that a dead rank had posted",
            "option; without it, all messages that a dead rank had posted arrive",
            "`faults` of the kind `kill` with `loses_mail: true`, `Kill.loses_mail`",
            (
                Statement(
                    "messages that a dead rank posted arrive",
                    lambda on: on.did("post") and not all(kill.loses_mail for kill in on.world.kills),
                ),
            ),
        ),
        Assumption(
            "bring a dead rank back",
            "no",
            "",
            (Statement("no dead rank comes back", lambda on: bool(on.mortal)),),
        ),
        Assumption(
            "leave a collective out, make it twice, make it with other arguments, or make another call before an op",
            "option, on every backend",
            "`faults` of the kinds `skip`, `repeat`, `alter`, `insert`, `World.faults`",
            nothing="the proof is about the program as it is written",
        ),
        Assumption(
            "kill a process at an op",
            "option, on every backend. In the simulation, the ops that the process had begun on its host complete; the "
            "fault `kill` also covers deaths that lose them. Its device stops at any time after the death",
            "`faults` of the kind `die`, `World.faults`",
            (NO_DEATH, ONLY_SOME),
        ),
        Assumption(
            "raise in a process at an op, or hold it up there without end",
            "option, on every backend; without it, no call raises or hangs by itself",
            "`faults` of the kinds `raise`, `hang`, `World.faults`",
            (
                NO_DEATH,
                Statement("no call raises or hangs by chance", lambda on: bool(on.mortal) and not on.faulty_call),
            ),
        ),
        Assumption(
            "notify a rank of the end of another one at any time after it, and never of one that hangs",
            "always, in untimed runs; only a rank that watches the other one is notified",
            "`Rank.watch`",
        ),
        Assumption(
            "complete the ops that a rank had begun before it aborted their communicator for some peers only, at any "
            "time after the abort",
            "always, for a program that declares that it aborts",
            "`Program.aborts`",
        ),
        Assumption(
            'raise an exception in peers of an aborted communicator, or of a dead member (gloo: "Connection closed '
            'by peer")',
            "no: the death of a peer raises no exception in a survivor. On every backend, a survivor waits until it "
            "aborts the communicator itself. So dpsim does not test what an engine does after such an exception",
            "",
            (Statement("the death of a peer raises no exception", lambda on: on.breaks_off and on.meets),),
        ),
        Assumption(
            "complete ops after an abort that were begun before it, so that peers do not hang (gloo)",
            "always both ways, for a program that declares that it aborts. With gloo such ops mostly complete, so gloo "
            "hardly shows a `HANG:COLLECTIVE:ABORTED` that the simulation finds",
            "`Program.aborts`",
        ),
        Assumption(
            "hold an abort up until peers abort, too, or until kernels of another communicator end (NCCL: issues 549, "
            "863 of NVIDIA/nccl)",
            "no: an abort returns at once, and the streams continue",
            "",
            (
                Statement(
                    ABORT_WAITS,
                    lambda on: bool(on.aborts_on_devices),
                    lambda on: f"{ABORT_WAITS}: {', '.join(on.aborts_on_devices)}",
                ),
            ),
        ),
        Assumption(
            "break off a collective in the middle, so that a buffer has only some of its elements",
            "no: the buffer has all new elements, or its old contents",
            "",
            (Statement(OTHERWISE, lambda on: on.breaks_off and on.meets),),
        ),
        Assumption(
            "stop a host anywhere for any time (preemption, a garbage collection)",
            "always, in untimed runs; but a call of a host and its result are one step",
            "`delays` for a timed run",
        ),
        Assumption(
            "run each rank in its own Python process, with other process ids, hashes and addresses",
            "always: each rank runs alone in a process, once for each sequence of results that its awaits returned in "
            "the search. Beyond 256 of them, or of many worlds, only some run so, and the summary prints how many. A "
            "program that another process cannot construct is not tested",
            "",
            (
                Statement(
                    SHARE_NOTHING,
                    lambda on: bool(on.not_alone),
                    lambda on: f"{SHARE_NOTHING}: {on.not_alone}",
                ),
            ),
        ),
    ),
)
