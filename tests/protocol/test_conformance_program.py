"""The conformance program passes on the simulation for any size, and says what of the contract a machine breaks.

The wrong machines are the simulation with one call of the contract replaced.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import numpy as np
import pytest
from batch_worlds import world

from dpsim import journaled, journaled_groups
from dpsim.interface import Buffer, HostArray, Kernel, Stream
from dpsim.ops import DTYPES
from dpsim.protocol import conformance
from dpsim.sim.backend import SimBackend
from dpsim.sim.communicators import SimDeviceCommunicator, SimHostCommunicator
from dpsim.sim.rank import SimBuffer, SimStream
from dpsim.world import CommunicatorSpec, Run, World


def run(told: World, rounds: int = 1) -> Run:
    return SimBackend().run(told, "conformance", {"rounds": rounds, "form": "default", "variant": None})


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_groups_of_any_size(size: int) -> None:
    played = run(world(size), rounds=2)
    assert played.ends == ["finished"] * size


def odd_and_even() -> World:
    """Two groups of data-parallel peers, one expert group over all."""
    pairs = [(0, 2), (1, 3)]
    hosts = [CommunicatorSpec("dp_cpu", f"dp_cpu.{place}", "host", ranks) for place, ranks in enumerate(pairs)]
    devices = [CommunicatorSpec("dp", f"dp.{place}", "device", ranks) for place, ranks in enumerate(pairs)]
    return World(4, (*hosts, *devices, CommunicatorSpec("ep", "ep", "device", (0, 1, 2, 3))))


def test_ranks_that_do_not_start_at_zero() -> None:
    """Roots are global ranks, not places in the group."""
    assert run(odd_and_even()).ends == ["finished"] * 4


def test_it_makes_every_call() -> None:
    """Every kind of record, every collective in both domains for every type, kernels that write and that read."""
    [journal, _] = run(world(2)).journals
    assert {record[0] for record in journal} == {
        "alloc", "free", "launch", "read", "collective", "learned", "decision", "finished"
    }  # fmt: skip
    collectives = {(record[5] is None, record[8], record[10]) for record in journal if record[0] == "collective"}
    assert collectives >= {
        (host, op, dtype) for host in (True, False) for op in ("all_reduce", "broadcast") for dtype in DTYPES
    }
    assert {record[11] for record in journal if record[0] == "collective"} == {None, 0, 1}
    shapes = {(bool(record[6]), bool(record[7])) for record in journal if record[0] == "launch"}
    assert shapes == {(False, True), (True, True)}


def test_kernels_run_on_torch() -> None:
    """The array API standard only: the same numbers as on numpy."""
    torch = pytest.importorskip("torch")
    for dtype in DTYPES:
        results = []
        for make in (np.zeros, torch.zeros):
            kind = getattr(np if make is np.zeros else torch, dtype)
            flat, table = make(6, dtype=kind), make((2, 3), dtype=kind)
            conformance.ramp(flat, 5)
            conformance.fold(flat, table, 1, 2.0, True, "add", None, (1, (2, 3)))
            conformance.flip(table)
            conformance.increase(table)
            conformance.copy_to(table[0], flat[:3])
            results.append((flat.tolist(), table.tolist()))
        assert results[0] == results[1]
        assert results[0][1] == [[17, 16, 15], [20, 19, 18]]


# ---- machines that are wrong

Patch = pytest.MonkeyPatch


class Then:
    """What an awaited call gives, changed."""

    def __init__(self, work: Awaitable[HostArray], change: Callable[[HostArray], HostArray]) -> None:
        self.work = work
        self.change = change

    def __await__(self) -> Generator[Any, Any, HostArray]:
        result = yield from self.work.__await__()
        return self.change(result)


def changes_sums(patch: Patch) -> None:
    call = SimHostCommunicator.all_reduce
    patch.setattr(SimHostCommunicator, "all_reduce", lambda *a, **k: Then(call(*a, **k), lambda result: result + 1))


def cuts_int64(patch: Patch) -> None:
    call = SimHostCommunicator.all_reduce
    patch.setattr(
        SimHostCommunicator,
        "all_reduce",
        lambda *a, **k: Then(call(*a, **k), lambda result: result.astype(np.int32).astype(result.dtype)),
    )


def flattens(patch: Patch) -> None:
    call = SimHostCommunicator.broadcast
    patch.setattr(SimHostCommunicator, "broadcast", lambda *a, **k: Then(call(*a, **k), np.ravel))


def sums_into_what_was_sent(patch: Patch) -> None:
    call = SimHostCommunicator.all_reduce

    def in_place(self: SimHostCommunicator, array: HostArray, **kwargs: Any) -> Then:
        def change(result: HostArray) -> HostArray:
            array[...] = result
            return result

        return Then(call(self, array, **kwargs), change)

    patch.setattr(SimHostCommunicator, "all_reduce", in_place)


def takes_the_first_as_root(patch: Patch) -> None:
    call = SimHostCommunicator.broadcast
    patch.setattr(
        SimHostCommunicator,
        "broadcast",
        lambda self, array, root, **k: call(self, array, self.ranks[0] if root in self.ranks else root, **k),
    )


def takes_root_as_a_place(patch: Patch) -> None:
    """On the device: in the group (1, 3) root 1 is the second member."""
    call = SimDeviceCommunicator.broadcast

    def broadcast(self: SimDeviceCommunicator, buffer: Buffer, root: int, stream: Stream, **kwargs: Any) -> None:
        call(self, buffer, self.ranks[root] if root < self.size else root, stream, **kwargs)

    patch.setattr(SimDeviceCommunicator, "broadcast", broadcast)


def puts_a_collective_too_late(patch: Patch) -> None:
    """Behind the next kernel on its stream."""
    all_reduce, launch = SimDeviceCommunicator.all_reduce, SimStream.launch
    held: dict[Stream, Callable[[], None]] = {}

    def hold(self: SimDeviceCommunicator, buffer: Buffer, stream: Stream, **kwargs: Any) -> None:
        held[stream] = lambda: all_reduce(self, buffer, stream, **kwargs)

    def launch_then_put(self: SimStream, site: str, kernel: Kernel, **kwargs: Any) -> None:
        launch(self, site, kernel, **kwargs)
        held.pop(self, lambda: None)()

    patch.setattr(SimDeviceCommunicator, "all_reduce", hold)
    patch.setattr(SimStream, "launch", launch_then_put)


def runs_kernels_twice(patch: Patch) -> None:
    launch = SimStream.launch

    def twice(self: SimStream, site: str, kernel: Kernel, **kwargs: Any) -> None:
        launch(self, site, kernel, **kwargs)
        launch(self, site, kernel, **kwargs)

    patch.setattr(SimStream, "launch", twice)


def gives_memory_twice(patch: Patch) -> None:
    """A buffer that is in use is given again where one of the same size is asked for."""
    alloc, given = SimStream.alloc, dict[Any, Buffer]()

    def again(self: SimStream, shape: Any, dtype: Any, site: str) -> Buffer:
        return given.setdefault((self, shape, dtype), alloc(self, shape, dtype, site))

    patch.setattr(SimStream, "alloc", again)


def reads_upside_down(patch: Patch) -> None:
    read = SimBuffer.read
    patch.setattr(SimBuffer, "read", lambda self, site: Then(read(self, site), lambda result: result[::-1]))


def accepts_closures(patch: Patch) -> None:
    launch = SimStream.launch

    def any_kernel(self: SimStream, site: str, kernel: Kernel, **kwargs: Any) -> None:
        if not kernel.__closure__:
            launch(self, site, kernel, **kwargs)

    patch.setattr(SimStream, "launch", any_kernel)


def accepts_any_root(patch: Patch) -> None:
    call = SimHostCommunicator.broadcast
    patch.setattr(
        SimHostCommunicator,
        "broadcast",
        lambda self, array, root, **k: call(self, array, root if root in self.ranks else self.ranks[0], **k),
    )


def gives_a_result_twice(patch: Patch) -> None:
    call = SimHostCommunicator.all_reduce

    class Again(Then):
        result: HostArray | None = None

        def __await__(self) -> Generator[Any, Any, HostArray]:
            if self.result is None:
                self.result = yield from self.work.__await__()
            return self.result

    patch.setattr(SimHostCommunicator, "all_reduce", lambda *a, **k: Again(call(*a, **k), np.array))


def uses_freed_memory(patch: Patch) -> None:
    patch.setattr(journaled.JournaledBuffer, "gone", lambda self: self.ref)


def sends_to_itself(patch: Patch) -> None:
    patch.setattr(journaled_groups, "check_peer", lambda communicator, rank: None)


def mixes_streams_in_a_group(patch: Patch) -> None:
    transfer = SimDeviceCommunicator._transfer

    def on_any(self: SimDeviceCommunicator, issue: Any, buffer: Any, stream: Any, site: Any) -> None:
        transfer(self, issue, buffer, self._together or stream, site)

    patch.setattr(SimDeviceCommunicator, "_transfer", on_any)


def renames_streams(patch: Patch) -> None:
    patch.setattr(SimStream, "name", property(lambda self: "stream", lambda self, name: None), raising=False)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (changes_sums, "the sum over the group"),
        (cuts_int64, "host all_reduce of int64"),
        (flattens, "the array of global rank 0 on every member"),
        (sums_into_what_was_sent, "the array of global rank|leave what was sent as it is"),
        (takes_the_first_as_root, "the array of global rank 3 on every member"),
        (takes_root_as_a_place, "the buffer of global rank 1 in place"),
        (puts_a_collective_too_late, "an in-place sum over the group, after the kernels before it"),
        (runs_kernels_twice, r"read of int32\[2, 3\]"),
        (gives_memory_twice, "is used after it was freed"),
        (uses_freed_memory, "launch of a buffer that was freed was accepted"),
        (sends_to_itself, "a transfer of a rank with itself was accepted"),
        (mixes_streams_in_a_group, "within a group on another stream was accepted"),
        (reads_upside_down, r"read of int32\[6\]"),
        (accepts_closures, "a kernel that is a closure was accepted"),
        (accepts_any_root, "a root that is no member of the group was accepted"),
        (gives_a_result_twice, "awaited twice"),
        (renames_streams, "a stream has the name that it was asked for by"),
    ],
)
def test_a_wrong_machine_is_found(wrong: Callable[[Patch], None], says: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        wrong(patch)
        played = run(odd_and_even())
    raised = [record for journal in played.journals for record in journal if record[0] == "raised"]
    assert {record[2] for record in raised} <= {"AssertionError", "RuntimeError"}, raised
    assert any(re.search(says, record[5]) for record in raised), raised
