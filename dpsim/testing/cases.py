"""The cases of the conformance suite, one function each; its docstring is the rule that it holds a backend to.

    CONFORMANCE["skipped_host"](Bench(backend, 2, ...))

Faults are planted in the last rank, in the middle of the program. The cases with one are slow on a backend with real
processes: it has to see a hang and to recover from it, which is the point.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dpsim.ops import DECISION_VALUE, KIND, ORDINAL, SITE, STEP, WHERE
from dpsim.program import Arguments, Request
from dpsim.testing.bench import Bench
from dpsim.testing.conformance.mail import SLEEP_NS
from dpsim.testing.conformance.services import SERVICES
from dpsim.testing.lines import calls_of, line_of
from dpsim.testing.programs import ODD, STEPS
from dpsim.world import At, Delay, Fault

Case = Callable[[Bench], None]

CONFORMANCE: dict[str, Case] = {}
"""The cases by name, in the order in which they are run."""

LATE_NS = 40_000_000

NOT_CALLED = "learned", "finished", "ended"
"""Kinds of records that no call of a program writes."""


def _case(check: Case) -> Case:
    CONFORMANCE[check.__name__] = check
    return check


# ---- nothing is planted


@_case
def basics(bench: Bench) -> None:
    """Memory, kernels and reads give what their docstrings say, and what the contract refuses is refused."""
    bench.conforms("basics")


@_case
def collectives(bench: Bench) -> None:
    """Every collective gives what its docstring says, on the host and on the device, in all its forms."""
    bench.conforms("collectives")


@_case
def streams(bench: Bench) -> None:
    """Streams run side by side; events order them; views share memory; `record_stream` keeps it.

    A backend that never reuses freed memory, as gloo, keeps the last rule without doing anything.
    """
    bench.conforms("streams")


@_case
def transfers(bench: Bench) -> None:
    """What is sent arrives, in order, whether it is large or small, alone or in a group."""
    bench.conforms("transfers")


@_case
def graphs(bench: Bench) -> None:
    """A capture keeps what is put on its streams and does not run it; a replay runs it, on the buffers of the capture
    and what they hold then, in the order of the capture; what learns is refused.
    """
    bench.conforms("graphs")


@_case
def mail(bench: Bench) -> None:
    """Messages arrive in order; to stand in an idle get is to have ended well; nothing is left for the next run."""
    for _ in range(2):
        bench.conforms("mail")


@_case
def polling(bench: Bench) -> None:
    """A message is found by a host that only polls. How often it has to is a matter of time, and is not compared."""
    bench.conforms("polling", same=False)


@_case
def sleep(bench: Bench) -> None:
    """A host that sleeps stands still for at least so long."""
    run = bench.conforms("sleep")
    bench.require(run.elapsed_ns >= 3 * SLEEP_NS, f"sleeps of 3 x {SLEEP_NS} ns took {run.elapsed_ns} ns in all")


@_case
def threads(bench: Bench) -> None:
    """Host threads of a rank share all that it has; flags order them; who joins a thread learns what it raised. All
    other parts give in a program with threads what they give in one without.
    """
    bench.conforms("threads")
    for part in ("basics", "collectives", "streams", "transfers", "graphs", "mail", "stores"):
        bench.healthy("conformance_threads", {"parts": (part,), "rounds": 1}, bench.world())


@_case
def stores(bench: Bench) -> None:
    """Who listens on a port is found there until he leaves; keys hold what was set last; time-outs strike."""
    bench.conforms("stores")


@_case
def services(bench: Bench) -> None:
    """Services are actors behind the ranks, with mailboxes and stores and without a device or communicator."""
    for nodes in ((), (*[0] * bench.size, 1, 2)):
        bench.healthy("conformance_services", {}, bench.world(services=SERVICES, nodes=nodes))


@_case
def lazy(bench: Bench) -> None:
    """Communicators that are made at their first use give what others give; a capture refuses to make one."""
    world = bench.world(lazy=True)
    bench.healthy("conformance_lazy", {"rounds": 1}, world)
    bench.healthy("conformance", {"parts": ("transfers",)}, world)


@_case
def lines(bench: Bench) -> None:
    """Every record names the program's line that made the call, `wait_stream` as well, whose two records it shares."""
    for part in ("basics", "collectives", "streams", "transfers", "graphs", "mail", "sleep", "threads", "stores"):
        run = bench.conforms(part, same=False)
        for raw in [raw for journal in run.journals for raw in journal if raw[KIND] not in NOT_CALLED]:
            line, calls = line_of(raw), calls_of(raw)
            named = f"{raw[SITE]}[{raw[ORDINAL]}] ({raw[KIND]}) names {raw[WHERE]!r}: {line or 'no line'}"
            own = raw[WHERE].startswith("dpsim/testing/conformance/") and re.search(rf"\b({calls})\(", line)
            bench.require(bool(own), f"{named}; expected a line of the program that calls {calls}")


@_case
def agreement(bench: Bench) -> None:
    """A protocol decides the same on every backend, in the same steps and by the same ops, on the host as on the
    device.
    """
    for on_host in (True, False):
        args = Arguments(
            topology={"data_parallel_size": bench.size},
            config={"async_scheduling": on_host, "max_num_seqs": 8, "max_num_batched_tokens": 64},
            requests=(Request(0, 9, 3), Request(1_000_000, 70, 4), Request(2_000_000, 5, 6)),
            step_ns=1_000_000,
            form="source-000",
        )
        bench.healthy("dp_batch", args, bench.world())


@_case
def order(bench: Bench) -> None:
    """The ops of a communicator and of a stream run in the order of their issue, whatever is awaited first and however
    far the host runs ahead.
    """
    bench.passes("ahead", "device", "host")


@_case
def groups(bench: Bench) -> None:
    """A rank finds its own communicator by kind; groups of one kind have nothing to do with one another."""
    bench.passes("device", world=bench.world(alone=True))


@_case
def delays(bench: Bench) -> None:
    """A delay changes nothing but time: before the program, before a site, before a collective, on host and device."""
    host = [At(), At("check.sum", ODD), At(communicator="dp_cpu", seq=1)]
    device = [At("check.fill", 0), At("check.read", 2), At(communicator="dp", seq=1)]
    places = host + device
    told = bench.world(delays=[Delay(bench.last, at, LATE_NS) for at in places])
    late = bench.passes("host", "device", world=told)
    bench.same(late, bench.passes("host", "device"))
    # Each is waited for before the next one begins. Half of it, because a device spins by its clock and that varies.
    least = len(places) * LATE_NS // 2
    bench.require(late.elapsed_ns >= least, f"delays of {len(places)} x {LATE_NS} ns took {late.elapsed_ns} ns in all")


@_case
def awaited_twice(bench: Bench) -> None:
    """What a host awaits is awaited exactly once; a second await is a RuntimeError."""
    run = bench.passes("twice")
    for rank, journal in enumerate(run.journals):
        for raw in journal:
            if raw[KIND] == "decision":
                said = f"rank {rank}, step {raw[STEP]}, {raw[SITE]}: {raw[DECISION_VALUE]}"
                bench.require(raw[DECISION_VALUE] == "RuntimeError", said)


@_case
def closed(bench: Bench) -> None:
    """A backend that was closed may be used again."""
    bench.passes("host", "device")
    bench.backend.close()
    bench.backend.close()
    bench.passes("host", "device")


# ---- something is planted


@_case
def skipped_host(bench: Bench) -> None:
    """A rank that leaves out a host collective goes on with its own array and pairs up with its peers' earlier call.
    The run is not finished, the peers are blocked, and the next world runs.
    """
    skip = Fault("skip", bench.last, At("check.sum", ODD))
    run = bench.finds("HANG:COLLECTIVE:MISSING_RANK", "check.sum", skip, "host")
    for rank in range(bench.last):
        bench.require(run.ends[rank] == "blocked", f"rank {rank} waits for a call that never comes: {run.ends[rank]}")


@_case
def skipped_device(bench: Bench) -> None:
    """A rank that leaves out a device collective leaves its buffer as it is and pairs up with its peers' earlier call.
    The run is not finished, the peers are blocked, and the next world runs.
    """
    skip = Fault("skip", bench.last, At(communicator="dp", seq=ODD))
    run = bench.finds("HANG:COLLECTIVE:MISSING_RANK", "check.combine", skip, "device")
    bench.require(run.ends[0] == "blocked", f"rank 0 waits for a call that never comes: {run.ends[0]}")


@_case
def skipped_captured(bench: Bench) -> None:
    """A device collective that a rank leaves out of a capture is missing in each replay: the peers hang in theirs. That
    is told as for an eager one, and the next world runs.
    """
    skip = Fault("skip", bench.last, At("check.captured", 2 * ODD))  # each step captures it and replays it
    run = bench.finds("HANG:COLLECTIVE:MISSING_RANK", "check.captured", skip, "captured")
    bench.require(run.ends[0] == "blocked", f"rank 0 waits for a call that never comes: {run.ends[0]}")


@_case
def repeated(bench: Bench) -> None:
    """A collective made twice pairs up with its peers' next one; in the end the rank waits alone."""
    repeat = Fault("repeat", bench.last, At("check.sum", ODD))
    run = bench.finds("HANG:COLLECTIVE:EXTRA_CALL", "check.sum", repeat, "host")
    bench.require(run.ends[bench.last] == "blocked", f"rank {bench.last} waits alone: {run.ends[bench.last]}")


@_case
def altered_count(bench: Bench) -> None:
    """A collective of another size is journaled as it was called, whatever comes of it; the next world runs."""
    alter = Fault("alter", bench.last, At("check.combine", ODD), {"count": 2})
    bench.finds("MISMATCH:COLLECTIVE:COUNT", "check.combine", alter, "device", same=False)


@_case
def altered_dtype(bench: Bench) -> None:
    """A collective of another type is journaled as it was called, whatever comes of it; the next world runs."""
    alter = Fault("alter", bench.last, At("check.sum", ODD), {"dtype": "int64"})
    bench.finds("MISMATCH:COLLECTIVE:DTYPE", "check.sum", alter, "host", same=False)


@_case
def altered_op(bench: Bench) -> None:
    """Another collective is journaled as it was called, whatever comes of it; the next world runs."""
    alter = Fault("alter", bench.last, At("check.combine", ODD), {"op": "broadcast"})
    bench.finds("MISMATCH:COLLECTIVE:OP", "check.combine", alter, "device", same=False)


@_case
def altered_root(bench: Bench) -> None:
    """A broadcast from another root is journaled as it was called, whatever comes of it; the next world runs."""
    alter = Fault("alter", bench.last, At("check.tell", ODD), {"root": bench.last})
    bench.finds("MISMATCH:COLLECTIVE:ROOT", "check.tell", alter, "root", same=False)


@_case
def dies(bench: Bench) -> None:
    """A rank that dies ends as died. Peers that need it are blocked, the run comes back, and the next world runs."""
    run = bench.finds("HANG:COLLECTIVE:DEAD_RANK", "check.sum", Fault("die", bench.last, At("check.sum", ODD)), "host")
    bench.require(run.ends[bench.last] == "died", f"rank {bench.last} was to die: {run.ends[bench.last]}")


@_case
def dies_last(bench: Bench) -> None:
    """A rank that dies when no peer needs it any more ends as died, and the peers finish."""
    world = bench.world(faults=[Fault("die", bench.last, At("sum", STEPS - 1))])
    run, expected = bench.run(world, "testing_steps", {"parts": ("host",)})
    bench.same(run, expected)
    ends = ["finished"] * bench.last + ["died"]
    bench.require(run.ends == ends, f"expected the ends {ends}, came {run.ends}")
    bench.passes("host", "device")


@_case
def footprint(bench: Bench) -> None:
    """A kernel that writes what it was given to read fails, and one that returns something does; one that is named the
    same buffer twice may write it. The error names the launch and the line of the kernel; the host meets it at the
    launch or at an await behind it.
    """
    for part in ("scribbles", "returns"):
        bench.finds("CRASH:KERNELERROR", "KernelError", None, part, "host", same=False)


@_case
def raises(bench: Bench) -> None:
    """A program that raises ends as raised, with a record of the exception. Peers that need it are blocked, the run
    comes back, and the next world runs.
    """
    run = bench.finds("CRASH:VALUEERROR", "ValueError", None, "raises", "host")
    bench.require(run.ends[bench.last] == "raised", f"rank {bench.last} was to raise: {run.ends[bench.last]}")


@_case
def overwritten(bench: Bench) -> None:
    """A read that names the version which it expects is journaled with it, and so is the write that left another one:
    the finding is the same on every backend.
    """
    bench.finds("STALE:VERSION", "check.read", None, "overwritten")
