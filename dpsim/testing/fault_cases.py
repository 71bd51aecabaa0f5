"""The cases of the conformance suite that plant a fault; see `dpsim.testing.cases`.

The cases plant a fault in the last rank, in the middle of the program. They are slow on a backend with real processes,
because the backend has to detect a hang and to recover from it.
"""

from __future__ import annotations

from dpsim.contract.world import At, Fault
from dpsim.testing.bench import Bench
from dpsim.testing.cases import CONFORMANCE as CONFORMANCE  # with the cases below
from dpsim.testing.cases import case
from dpsim.testing.programs import ODD, STEPS

# ---- something is planted


@case
def skipped_host(bench: Bench) -> None:
    """A rank that omits a host collective continues with its own array. Its next call pairs with the omitted call of
    its peers. The run does not finish, the peers are blocked, and the next world runs.
    """
    skip = Fault("skip", bench.last, At("check.sum", ODD))
    run = bench.finds("HANG:COLLECTIVE:MISSING_RANK", "check.sum", skip, "host")
    for rank in range(bench.last):
        bench.require(run.ends[rank] == "blocked", f"rank {rank} waits for a call that never comes: {run.ends[rank]}")


@case
def skipped_device(bench: Bench) -> None:
    """A rank that omits a device collective leaves its buffer unchanged. Its next call pairs with the omitted call of
    its peers. The run does not finish, the peers are blocked, and the next world runs.
    """
    skip = Fault("skip", bench.last, At(communicator="dp", seq=ODD))
    run = bench.finds("HANG:COLLECTIVE:MISSING_RANK", "check.combine", skip, "device")
    bench.require(run.ends[0] == "blocked", f"rank 0 waits for a call that never comes: {run.ends[0]}")


@case
def skipped_captured(bench: Bench) -> None:
    """If a rank omits a device collective in a capture, each replay lacks it, and the peers hang in theirs. The finding
    is that of an eager collective, and the next world runs.
    """
    skip = Fault("skip", bench.last, At("check.captured", 2 * ODD))  # a capture and a replay visit the site each step
    run = bench.finds("HANG:COLLECTIVE:MISSING_RANK", "check.captured", skip, "captured")
    bench.require(run.ends[0] == "blocked", f"rank 0 waits for a call that never comes: {run.ends[0]}")


@case
def repeated(bench: Bench) -> None:
    """A repeated collective pairs with the next collective of the peers. In the end, the rank waits alone."""
    repeat = Fault("repeat", bench.last, At("check.sum", ODD))
    run = bench.finds("HANG:COLLECTIVE:EXTRA_CALL", "check.sum", repeat, "host")
    bench.require(run.ends[bench.last] == "blocked", f"rank {bench.last} waits alone: {run.ends[bench.last]}")


@case
def inserted(bench: Bench) -> None:
    """An inserted call pairs with the next collective of the peers, like a repeated one. It shifts no address, and the
    rank does not wait for it. In the end, the rank waits alone.
    """
    call = {"communicator": "dp_cpu", "op": "all_reduce", "count": 4, "dtype": "int32", "reduce": "sum"}
    insert = Fault("insert", bench.last, At("check.sum", ODD), {"site": "check.sum", **call})
    run = bench.finds("HANG:COLLECTIVE:EXTRA_CALL", "check.sum", insert, "host")
    bench.require(run.ends[bench.last] == "blocked", f"rank {bench.last} waits alone: {run.ends[bench.last]}")


@case
def altered_count(bench: Bench) -> None:
    """If a fault changes the size of a collective, the journal records the changed call, whatever its effect. The next
    world runs.
    """
    alter = Fault("alter", bench.last, At("check.combine", ODD), {"count": 2})
    bench.finds("MISMATCH:COLLECTIVE:COUNT", "check.combine", alter, "device", same=False)


@case
def altered_dtype(bench: Bench) -> None:
    """If a fault changes the type of a collective, the journal records the changed call, whatever its effect. The next
    world runs.
    """
    alter = Fault("alter", bench.last, At("check.sum", ODD), {"dtype": "int64"})
    bench.finds("MISMATCH:COLLECTIVE:DTYPE", "check.sum", alter, "host", same=False)


@case
def altered_op(bench: Bench) -> None:
    """If a fault replaces a collective, the journal records the other collective, whatever its effect. The next world
    runs.
    """
    alter = Fault("alter", bench.last, At("check.combine", ODD), {"op": "broadcast"})
    bench.finds("MISMATCH:COLLECTIVE:OP", "check.combine", alter, "device", same=False)


@case
def altered_root(bench: Bench) -> None:
    """If a fault changes the root of a broadcast, the journal records the changed call, whatever its effect. The next
    world runs.
    """
    alter = Fault("alter", bench.last, At("check.tell", ODD), {"root": bench.last})
    bench.finds("MISMATCH:COLLECTIVE:ROOT", "check.tell", alter, "root", same=False)


@case
def dies(bench: Bench) -> None:
    """A rank that dies ends as died. Peers that need it are blocked, the run returns, and the next world runs."""
    run = bench.finds("HANG:COLLECTIVE:DEAD_RANK", "check.sum", Fault("die", bench.last, At("check.sum", ODD)), "host")
    bench.require(run.ends[bench.last] == "died", f"rank {bench.last} was to die: {run.ends[bench.last]}")


@case
def dies_last(bench: Bench) -> None:
    """If a rank dies when no peer needs it any more, it ends as died, and the peers finish."""
    world = bench.world(faults=[Fault("die", bench.last, At("sum", STEPS - 1))])
    run, expected = bench.run(world, "testing_steps", {"parts": ("host",)})
    bench.same(run, expected)
    ends = ["finished"] * bench.last + ["died"]
    bench.require(run.ends == ends, f"expected the ends {ends}, got {run.ends}")
    bench.passes("host", "device")


@case
def footprint(bench: Bench) -> None:
    """A kernel that writes an array of its `reads` fails, and so does a kernel that returns a value. A kernel may write
    a buffer that is in both `reads` and `writes`. The error names the launch and the line of the kernel. The host
    receives the error at the launch or at a later await.
    """
    for part in ("scribbles", "returns"):
        bench.finds("CRASH:KERNELERROR", "KernelError", None, part, "host", same=False)


@case
def raises(bench: Bench) -> None:
    """A program that raises ends as raised, with a record of the exception. Peers that need it are blocked, the run
    returns, and the next world runs.
    """
    run = bench.finds("CRASH:VALUEERROR", "ValueError", None, "raises", "host")
    bench.require(run.ends[bench.last] == "raised", f"rank {bench.last} was to raise: {run.ends[bench.last]}")


@case
def overwritten(bench: Bench) -> None:
    """The record of a read has the version that the read expects, and the record of a write has the version that it
    leaves. The finding is equal on every backend.
    """
    bench.finds("STALE:VERSION", "check.read", None, "overwritten")
