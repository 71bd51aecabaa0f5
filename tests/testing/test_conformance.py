"""Tests of the conformance program: it passes on the simulation with any number of ranks, and names a broken rule.

The conformance program checks the calls of a backend against the contract. Each faulty machine in these tests is the
simulation with one call of the contract replaced.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from inspect import ismethod
from itertools import cycle
from operator import index
from typing import Any

import numpy as np
import pytest

from dpsim.backend.calls import communicators as journaled_groups
from dpsim.backend.calls import rank, streams
from dpsim.backend.graphs.kept import KeptFlagWait
from dpsim.backend.graphs.replaying import Replaying
from dpsim.backend.hosts.arguments import check_member
from dpsim.backend.hosts.work import Work
from dpsim.backend.journal.issue import Issue
from dpsim.backend.memory import buffers
from dpsim.contract.collectives import COLLECTIVES, sent
from dpsim.contract.collectives.reductions import NUMBERS, REDUCTIONS
from dpsim.contract.collectives.scatter import Scatter
from dpsim.contract.interface import Buffer, HostArray, Kernel, Stream
from dpsim.contract.ops import (
    ASK_HOW,
    COLLECTIVE_REDUCE,
    COLLECTIVE_ROOT,
    DTYPE,
    DTYPES,
    KIND,
    LAUNCH_READS,
    LAUNCH_WRITES,
    OP,
    RAISED_MESSAGE,
    RECORDS,
    SITE,
    STREAM,
    TAKE_HOW,
    TRANSFER_GROUP,
    ReduceOp,
)
from dpsim.contract.rules.store_changes import Changed, changed
from dpsim.contract.world import CommunicatorSpec, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.sim.calls.communicators import SimDeviceCommunicator, SimHostCommunicator
from dpsim.sim.calls.flags import FlagWord, SimFlag
from dpsim.sim.calls.rank import SimRank
from dpsim.sim.calls.streams import SimEvent, SimStream
from dpsim.sim.calls.underway import QueriedCall
from dpsim.sim.hosts.threads import SimThread
from dpsim.sim.memory.buffers import SimBuffer
from dpsim.sim.services import ports
from dpsim.sim.services.stores import SimStore
from dpsim.testing.conformance import ground
from dpsim.testing.conformance.dtypes import ROUNDS
from dpsim.testing.conformance.program import PARTS, THREADED
from tests.programs import world_of


def run(told: World, rounds: int = 1, parts: Sequence[str] = tuple(PARTS)) -> Run:
    args = {"rounds": rounds, "parts": parts, "form": "default", "variant": None}
    program = "conformance" if set(parts) <= {*PARTS} else "conformance_threads"
    return SimBackend().run(told, program, args)


@pytest.mark.parametrize("size", [1, 2, 3, *(pytest.param(size, marks=pytest.mark.slow) for size in (4, 9))])
def test_groups_of_any_size(size: int) -> None:
    played = run(world_of(size, ["dp_cpu"], ["dp", "ep"]), rounds=2)
    assert played.ends == ["finished"] * size


def odd_and_even() -> World:
    """Returns a world with two groups of data-parallel peers, and one expert group of all ranks."""
    pairs = [(0, 2), (1, 3)]
    hosts = [CommunicatorSpec("dp_cpu", f"dp_cpu.{place}", "host", ranks) for place, ranks in enumerate(pairs)]
    devices = [CommunicatorSpec("dp", f"dp.{place}", "device", ranks) for place, ranks in enumerate(pairs)]
    return World(4, (*hosts, *devices, CommunicatorSpec("ep", "ep", "device", (0, 1, 2, 3))))


def test_ranks_that_do_not_start_at_zero() -> None:
    """Runs the program on groups that do not begin with rank 0. Roots are global ranks, not indices in the group."""
    assert run(odd_and_even()).ends == ["finished"] * 4


def test_the_conformance_program_makes_every_call() -> None:
    """Checks that the program makes every kind of record, and every collective of each type in both domains. Its
    kernels read and write.
    """
    journals = run(world_of(2, ["dp_cpu"], ["dp", "ep"]), ROUNDS, parts=(*PARTS, *THREADED)).journals
    journal = journals[0]
    elsewhere = {"abort", "watch"}  # separate programs make these
    assert {record[KIND] for record in journal} == set(RECORDS) - {"raised", "injected"} - elsewhere
    collectives = {
        (record[STREAM] is None, record[OP], record[DTYPE]) for record in journal if record[KIND] == "collective"
    }
    everything = {(host, op, dtype) for host in (True, False) for op in COLLECTIVES for dtype in DTYPES}
    on_host_alone = {call for call in everything if call[1] == "barrier" and call[::2] != (True, "int32")}
    moved_alone = {call for call in everything if COLLECTIVES[call[1]].reduces and call[2] not in NUMBERS}
    assert collectives == everything - on_host_alone - moved_alone
    reductions = {
        (record[STREAM] is None, record[OP], record[COLLECTIVE_REDUCE], record[DTYPE])
        for record in journal
        if record[KIND] == "collective" and record[COLLECTIVE_REDUCE]
    }
    assert reductions == {
        (host, name, op, dtype)
        for host in (True, False)
        for name, rules in COLLECTIVES.items()
        for op, reduction in REDUCTIONS.items()
        for dtype in reduction.dtypes
        if rules.reduces
    }
    transfers = {
        (record[STREAM] is None, record[OP], record[TRANSFER_GROUP] is None)
        for record in journal
        if record[KIND] == "transfer"
    }
    assert len(transfers) == 6  # the host has no groups of transfers
    assert {record[ASK_HOW] for record in journal if record[KIND] == "ask"} == {"query", "synchronize"}
    assert {record[TAKE_HOW] for journal in journals for record in journal if record[KIND] == "take"} == {
        "poll",
        "get",
        "idle",
    }
    assert {record[COLLECTIVE_ROOT] for record in journal if record[KIND] == "collective"} == {None, 0, 1}
    shapes = {
        (bool(record[LAUNCH_READS]), bool(record[LAUNCH_WRITES])) for record in journal if record[KIND] == "launch"
    }
    assert shapes == {(False, True), (True, True)}


def test_kernels_run_on_torch() -> None:
    """Runs the kernels on numpy and on torch with equal results. They use only the array API standard."""
    torch = pytest.importorskip("torch")
    for dtype in ground.WIDE:
        results = []
        for make in (np.zeros, torch.zeros):
            kind = getattr(np if make is np.zeros else torch, dtype)
            flat, table = make(6, dtype=kind), make((2, 3), dtype=kind)
            ground.line(flat, 5, 1)
            ground.fold(flat, table, 1, 2.0, True, "add", None, (1, (2, 3)))
            ground.flip(table)
            ground.increase(table)
            ground.copy_to(table[0], flat[:3])
            results.append((flat.tolist(), table.tolist()))
        assert results[0] == results[1]
        assert results[0][1] == [[17, 16, 15], [20, 19, 18]]


# ---- machines that break a rule

Patch = pytest.MonkeyPatch


class Then:
    """An awaited call whose result is changed."""

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
    """Takes a root on the device as an index in the group: in the group (1, 3) root 1 becomes the second member."""
    call = SimDeviceCommunicator.broadcast

    def broadcast(self: SimDeviceCommunicator, buffer: Buffer, root: int, stream: Stream, **kwargs: Any) -> None:
        call(self, buffer, self.ranks[root] if root < self.size else root, stream, **kwargs)

    patch.setattr(SimDeviceCommunicator, "broadcast", broadcast)


def puts_a_collective_too_late(patch: Patch) -> None:
    """Runs an all_reduce after the next kernel on its stream."""
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
    """Returns a buffer that is still in use to the next alloc of the same size."""
    alloc, given = SimStream.alloc, dict[Any, Buffer]()

    def again(self: SimStream, shape: Any, dtype: Any, site: str) -> Buffer:
        return given.setdefault((self, shape, dtype), alloc(self, shape, dtype, site))

    patch.setattr(SimStream, "alloc", again)


def reads_upside_down(patch: Patch) -> None:
    read = SimBuffer.read
    patch.setattr(SimBuffer, "read", lambda self, *site: Then(read(self, *site), lambda result: result[::-1]))


def accepts(remembers: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """Returns a patch that accepts kernels that the contract forbids because they remember state."""

    def accept(patch: Patch) -> None:
        launch = SimStream.launch

        def any_kernel(self: SimStream, site: str, kernel: Kernel, **kwargs: Any) -> None:
            if not remembers(kernel):
                launch(self, site, kernel, **kwargs)

        patch.setattr(SimStream, "launch", any_kernel)

    return accept


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


def takes_anything(patch: Patch) -> None:
    patch.setattr(rank, "check_plain", lambda *value, **named: None)


def takes_arrays_for_kernels(patch: Patch) -> None:
    patch.setattr(streams, "check_plain", lambda *value, **how: None)


def takes_halves(patch: Patch) -> None:
    patch.setattr(rank, "whole", lambda number, *rest: number)


def takes_less_than_nothing(patch: Patch) -> None:
    patch.setattr(rank, "whole", lambda number, *rest: index(number))


def gives_arrays_at_once(patch: Patch) -> None:
    patch.setattr(Work, "__getitem__", lambda work, key: 0)


def uses_freed_memory(patch: Patch) -> None:
    patch.setattr(buffers.JournaledBuffer, "freed_ref", lambda self: self.ref)


def sends_to_itself(patch: Patch) -> None:
    patch.setattr(journaled_groups, "check_peer", partial(check_member, what="peer"))


def mixes_streams_in_a_group(patch: Patch) -> None:
    transfer = SimDeviceCommunicator._transfer

    def on_any(self: SimDeviceCommunicator, issue: Any, buffer: Any, stream: Any, site: Any) -> None:
        transfer(self, issue, buffer, self._together or stream, site)

    patch.setattr(SimDeviceCommunicator, "_transfer", on_any)


def changed_issues(patch: Patch, owner: Any, method: str, change: Callable[[Issue], Issue]) -> None:
    """Changes the calls after they are journaled, but before the machine runs them."""
    start = getattr(owner, method)
    patch.setattr(owner, method, lambda self, issues, *rest: start(self, [change(issue) for issue in issues], *rest))


def summed(issue: Issue) -> Issue:
    return issue._replace(reduce="sum") if issue.reduce else issue


def only_sums_on_the_host(patch: Patch) -> None:
    changed_issues(patch, SimHostCommunicator, "_start", summed)


def only_sums_on_the_device(patch: Patch) -> None:
    changed_issues(patch, SimDeviceCommunicator, "_put", summed)


def turns_sizes_around(patch: Patch) -> None:
    def around(self: SimDeviceCommunicator, output: Buffer, *rest: Any, **keywords: Any) -> None:
        all_gather(self, output, *rest, **keywords)
        rest[-1].launch("turn", lambda buffer: buffer[:].sort(), writes=[output])

    all_gather = SimDeviceCommunicator.all_gather
    patch.setattr(SimDeviceCommunicator, "all_gather", around)


def mixes_up_the_size_vectors(patch: Patch) -> None:
    def mixed(issue: Issue) -> Issue:
        half = len(issue.sizes) // 2
        return issue._replace(sizes=issue.sizes[half:] + issue.sizes[:half]) if issue.op == "all_to_all" else issue

    changed_issues(patch, SimDeviceCommunicator, "_put", mixed)


def gathers_backwards(patch: Patch) -> None:
    call = SimHostCommunicator.gather
    patch.setattr(SimHostCommunicator, "gather", lambda *a, **k: Then(call(*a, **k), lambda result: result[::-1]))


def gathers_on_all(patch: Patch) -> None:
    gather = SimHostCommunicator.gather

    def everywhere(self: SimHostCommunicator, array: HostArray, root: int, **keywords: Any) -> Awaitable[HostArray]:
        gather(self, array, root, **keywords)
        return self.all_gather(array)

    patch.setattr(SimHostCommunicator, "gather", everywhere)


def takes_gathers_for_scatters(patch: Patch) -> None:
    def mixed(issue: Issue) -> Issue:
        return issue._replace(op="scatter", count=2 * issue.count) if issue.op == "gather" else issue

    changed_issues(patch, SimDeviceCommunicator, "_put", mixed)


def scatters_the_first_piece(patch: Patch) -> None:
    scatter = Scatter.result
    patch.setattr(Scatter, "result", lambda self, call, index, sent: scatter(self, call, 0, sent))


def travels_as(dtype: str, owner: Any, method: str) -> Callable[[Patch], None]:
    """Returns a patch that converts elements to another type during a collective or transfer."""

    def wrong(patch: Patch) -> None:
        def other(issue: Issue) -> Issue:
            return issue._replace(dtype=dtype, altered=True) if issue.dtype != dtype else issue

        changed_issues(patch, owner, method, other)

    return wrong


def forgets_to_divide(patch: Patch) -> None:
    patch.setattr(sent, "averaged", lambda wires: sent.reduced("sum", wires))


def takes_any_type(patch: Patch) -> None:
    patch.setitem(REDUCTIONS, "avg", REDUCTIONS["avg"]._replace(dtypes=tuple(DTYPES)))


def reduces_with(op: ReduceOp, by: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setitem(REDUCTIONS, op, REDUCTIONS[op]._replace(apply=by))


def works_in_the_source(patch: Patch) -> None:
    put = SimDeviceCommunicator._put

    def scribble(self: Any, issues: Any, output: Any, source: Any, stream: Any) -> None:
        put(self, issues, output, source, stream)
        if output is not source:
            stream.launch("scribble", ground.increase, writes=[source])

    patch.setattr(SimDeviceCommunicator, "_put", scribble)


def copies_views(patch: Patch) -> None:
    view = SimBuffer._view

    def copied(self: SimBuffer, start: int, stop: int) -> Any:
        piece: Any = view(self, start, stop)
        piece.array = piece.array.copy()
        return piece

    patch.setattr(SimBuffer, "_view", copied)


def on_another(stream: SimStream) -> SimStream:
    return SimStream(stream.host, stream.device, "another")


def reads_from_any_stream(patch: Patch) -> None:
    copy = SimBuffer._copy
    patch.setattr(SimBuffer, "_copy", lambda self, stream: copy(self, on_another(stream)))


def waits_for_all_events_but(number: int) -> Callable[[Patch], None]:
    """Returns a patch that ignores one of the seven waits for events that the program makes in each round."""

    def wrong(patch: Patch) -> None:
        wait = SimStream._wait
        patch.setattr(SimStream, "_wait", lambda self, event: wait(self, event) if event.number % 7 != number else None)

    return wrong


def passes_events_at_once(patch: Patch) -> None:
    patch.setattr(SimEvent, "_query", lambda self: lambda: answer(True))


def never_passes_events(patch: Patch) -> None:
    patch.setattr(SimEvent, "_query", lambda self: lambda: answer(False))


def answers_waits(over: bool) -> Callable[[Patch], None]:
    """Returns a patch: a wait with a time-out for a call returns `over` at once."""
    return lambda patch: patch.setattr(QueriedCall, "within", lambda self, timeout_ns: lambda: answer(over))


def forgets_what_passed(patch: Patch) -> None:
    """Makes every other query of an event return False."""
    answers = cycle([True, False])
    patch.setattr(SimEvent, "_query", lambda self: lambda: answer(next(answers)))


def answer(value: Any) -> Generator[Any, Any, Any]:
    return value
    yield


def reuses_recorded_memory(patch: Patch) -> None:
    patch.setattr(SimBuffer, "_hold", lambda self, stream: None)


EAGER = 1 << 14


def cuts_large_transfers_of_the_host(patch: Patch) -> None:
    start = SimHostCommunicator._start

    def cut(self: Any, issues: list[Issue], array: HostArray, shape: Any) -> Any:
        if issues[0].op == "send":
            array = np.concatenate([array.reshape(-1)[:EAGER], 0 * array.reshape(-1)[EAGER:]])
        return start(self, issues, array, shape)

    patch.setattr(SimHostCommunicator, "_start", cut)


def cuts_large_transfers_of_the_device(patch: Patch) -> None:
    move = SimDeviceCommunicator._move

    def cut(self: Any, issues: list[Issue], buffer: Any, stream: Any) -> None:
        move(self, issues, buffer, stream)
        if issues[0].op == "recv" and issues[0].count > EAGER and issues[0].group is None:
            stream.launch("cut", ground.line, writes=[buffer], args=(0, 0))

    patch.setattr(SimDeviceCommunicator, "_move", cut)


def posts_backwards(patch: Patch) -> None:
    post = SimRank._post

    def backwards(self: SimRank, to: int, mailbox: str, message: Any, delay_ns: int) -> None:
        post(self, to, mailbox, message[::-1], delay_ns)

    patch.setattr(SimRank, "_post", backwards)


def finds_what_was_not_sent(patch: Patch) -> None:
    take = SimRank._take
    old: Any = lambda: answer("from the run before")  # noqa: E731
    patch.setattr(SimRank, "_take", lambda self, *rest: old if rest[0] == "left-over" else take(self, *rest))


def finds_nothing(patch: Patch) -> None:
    patch.setattr(SimRank, "_take", lambda self, *rest: lambda: answer(None))


def lets_flags_go(patch: Patch) -> None:
    patch.setattr(SimFlag, "_wait", lambda self, late_ns: lambda: answer(None))


def keeps_flags_set(patch: Patch) -> None:
    patch.setattr(SimFlag, "_clear", lambda self: None)


def clears_by_waiting(patch: Patch) -> None:
    wait = SimFlag._wait

    def clearing(self: SimFlag, late_ns: int) -> Any:
        def outcome() -> Generator[Any, Any, None]:
            yield from waits()
            self._clear()

        waits = wait(self, late_ns)
        return outcome

    patch.setattr(SimFlag, "_wait", clearing)


def forgets_what_threads_raise(patch: Patch) -> None:
    join = SimThread._join

    def silent(self: SimThread) -> Any:
        def outcome() -> Generator[Any, Any, None]:
            yield from joins()

        joins = join(self)
        return outcome

    patch.setattr(SimThread, "_join", silent)


def keeps_the_first_value(patch: Patch) -> None:
    put, seen = SimStore._put, set[Any]()

    def once(self: SimStore, key: str, value: Any) -> None:
        if (self.port, key) not in seen:
            seen.add((self.port, key))
            put(self, key, value)

    patch.setattr(SimStore, "_put", once)


def turns_tuples_into_lists(patch: Patch) -> None:
    put = SimStore._put

    def turned(self: SimStore, key: str, value: Any) -> None:
        put(self, key, list(value) if key == "nested" else value)  # type: ignore[arg-type]  # it is wrong

    patch.setattr(SimStore, "_put", turned)


def lets_several_listen(patch: Patch) -> None:
    listen = SimRank._open_store
    patch.setattr(SimRank, "_open_store", lambda self, port: listen(self, 0))


def finds_no_listener(patch: Patch) -> None:
    patch.setattr(SimRank, "_join_store", lambda self, *rest: lambda: answer(None))


def has_values_for_all_keys(patch: Patch) -> None:
    get = SimStore._get
    patch.setattr(
        SimStore, "_get", lambda self, key, *rest: (lambda: answer(0)) if key == "missing" else get(self, key, *rest)
    )


def adds_to_what_it_read_before(patch: Patch) -> None:
    """The rank that adds last gets the whole sum, but the key keeps the sum of the other ranks."""
    whole = sum(range(1, 3))

    def change(how: str, value: Any, operands: Sequence[Any]) -> Changed:
        after = changed(how, value, operands)
        return Changed(value, whole) if how == "add" and after.answer == whole else after

    patch.setattr(ports, "changed", change)


def compares_with_nothing(patch: Patch) -> None:
    def change(how: str, value: Any, operands: Sequence[Any]) -> Changed:
        return Changed(operands[1], operands[1]) if how == "compare_set" else changed(how, value, operands)

    patch.setattr(ports, "changed", change)


def deletes_whatever_it_finds(patch: Patch) -> None:
    def change(how: str, value: Any, operands: Sequence[Any]) -> Changed:
        return Changed(None, True) if how == "delete" else changed(how, value, operands)

    patch.setattr(ports, "changed", change)


def records_a_close_and_stays_open(patch: Patch) -> None:
    def close(self: SimStore, site: str) -> None:
        self._use(site, "close", "", None)
        self._close()

    patch.setattr(SimStore, "close", close)


def ignores_flags(patch: Patch) -> None:
    patch.setattr(SimStream, "_wait_flag", lambda self, flag: None)


def shows_no_clear(patch: Patch) -> None:
    write = FlagWord.write
    patch.setattr(FlagWord, "write", lambda self, value: write(self, value) if value else None)


def keeps_no_wait_for_a_flag(patch: Patch) -> None:
    def again(self: KeptFlagWait, replay: Replaying) -> None:
        replay.journal.again("flag_wait", self.site, self.where, (replay.names[self.stream], self.flag.name))

    patch.setattr(KeptFlagWait, "again", again)


def renames_streams(patch: Patch) -> None:
    patch.setattr(SimStream, "name", property(lambda self: "stream", lambda self, name: None), raising=False)


@pytest.mark.parametrize(
    ("wrong", "part", "says"),
    [
        (changes_sums, "collectives", "the sum over the group"),
        (cuts_int64, "collectives", "host all_reduce of int64"),
        (flattens, "collectives", "each member receives the array of global rank 0"),
        (sums_into_what_was_sent, "collectives", "host all_reduce of int32: .* the max over the group"),
        (takes_the_first_as_root, "collectives", "each member receives the array of global rank 3"),
        (takes_root_as_a_place, "collectives", "the buffer of global rank 1 into the buffer of each member"),
        (
            puts_a_collective_too_late,
            "collectives",
            "the sum over the group in place, after the stream's earlier kernels",
        ),
        (only_sums_on_the_host, "collectives", "host all_reduce of int32: .* the max over the group"),
        (only_sums_on_the_device, "collectives", "dp.0 all_reduce of int32: .* the max over the group in place"),
        (turns_sizes_around, "collectives", "dp.1 all_gather of int32: .* all members in the order of `ranks`"),
        (mixes_up_the_size_vectors, "collectives", "dp.0 all_to_all of int32"),
        (gathers_backwards, "collectives", "host gather of int32: .* the root receives the arrays of all"),
        (gathers_on_all, "collectives", "host gather of int32: .* the other members receive nothing"),
        (takes_gathers_for_scatters, "collectives", "dp.0 gather of int32"),
        (scatters_the_first_piece, "collectives", "host scatter of int32: .*its own piece"),
        (
            travels_as("uint8", SimHostCommunicator, "_start"),
            "dtypes",
            "a host broadcast of int16: .*arrive with the same bytes",
        ),
        (travels_as("int32", SimDeviceCommunicator, "_put"), "dtypes", "a dp.0 all_gather of bool"),
        (forgets_to_divide, "dtypes", "host all_reduce of float16: .*the avg over the group"),
        (takes_any_type, "dtypes", "accepted a host avg of bool"),
        (reduces_with("prod", np.add), "dtypes", "host all_reduce of int16|int8|uint8: .*the prod over"),
        (reduces_with("bor", np.bitwise_xor), "dtypes", "host all_reduce of bool: .*the bor over"),
        (reduces_with("bxor", np.bitwise_or), "dtypes", "host all_reduce of bool: .*the bxor over"),
        (reduces_with("band", np.bitwise_or), "dtypes", "host all_reduce of bool: .*the band over"),
        (works_in_the_source, "collectives", "only the output is written"),
        (runs_kernels_twice, "basics", r"read of int32\[2, 3\]"),
        (gives_memory_twice, "basics", "is used after it was freed"),
        (uses_freed_memory, "basics", "accepted launch of a buffer that was freed"),
        (sends_to_itself, "basics", "accepted a transfer of a rank with itself"),
        (mixes_streams_in_a_group, "basics", "accepted a transfer within a group on another stream"),
        (reads_upside_down, "basics", r"read of int32\[6\]"),
        (takes_anything, "basics", "accepted a message with a number of numpy"),
        (takes_arrays_for_kernels, "basics", "accepted an array for an argument of a kernel"),
        (takes_halves, "basics", "accepted a step of 0.5"),
        (takes_less_than_nothing, "basics", "accepted a sleep of -1 ns"),
        (gives_arrays_at_once, "basics", "accepted a sum that was not awaited, as an array"),
        (accepts(lambda one: getattr(one, "__closure__", None)), "basics", "accepted a kernel that is a closure"),
        (
            accepts(lambda one: getattr(one, "__defaults__", None)),
            "basics",
            "accepted a kernel that is a function with a list as a default",
        ),
        (accepts(lambda one: isinstance(one, partial)), "basics", "accepted a kernel that is a partial function"),
        (accepts(ismethod), "basics", "accepted a kernel that is a bound method"),
        (
            accepts(lambda one: type(one).__name__ == "Fills"),
            "basics",
            "accepted a kernel that is an object that can be called",
        ),
        (accepts_any_root, "basics", "accepted a root that is no member of the group"),
        (gives_a_result_twice, "basics", "awaited one host collective twice"),
        (renames_streams, "basics", "a stream has the name that the program passed"),
        (copies_views, "streams", "a buffer written through two views"),
        (reads_from_any_stream, "streams", "a buffer written through two views"),
        (waits_for_all_events_but(0), "streams", "a buffer written through two views"),
        (waits_for_all_events_but(1), "streams", "a buffer written through two views"),
        (waits_for_all_events_but(2), "streams", "Event.query after a wait for the event"),
        (waits_for_all_events_but(3), "streams", "a copy on the side stream"),
        (waits_for_all_events_but(6), "streams", "a copy behind a collective of another stream"),
        (passes_events_at_once, "streams", "Event.query behind a collective that waits"),
        (never_passes_events, "streams", "Event.query after a wait for the event"),
        (never_passes_events, "events", "Event.query after synchronize: expected True, got False"),
        (
            forgets_what_passed,
            "queries",
            r"queries .*: expected \[.*\], got .*each later query of the event returns True",
        ),
        (never_passes_events, "queries", "Event.query .*, after synchronize: expected True, got False"),
        (reuses_recorded_memory, "streams", "a copy of a freed buffer: .* after record_stream"),
        (ignores_flags, "stream_flags", "a query behind a flag that is clear: expected False, got True"),
        (shows_no_clear, "stream_flags", "a query behind a flag that is clear: expected False, got True"),
        (
            keeps_no_wait_for_a_flag,
            "stream_flags",
            "a query behind a replay whose flag is clear: expected False, got True",
        ),
        (answers_waits(True), "looks", "the last member has not called: expected False, got True"),
        (answers_waits(False), "looks", "a wait for a receive: expected True, got False.*when the call completes"),
        (cuts_large_transfers_of_the_host, "transfers", r"a large host recv: .* \(they differ from element 16384 on\)"),
        (cuts_large_transfers_of_the_device, "transfers", "a recv of 262144"),
        (keeps_the_first_value, "stores", "the last of rank 0: .* the value that a rank set last"),
        (turns_tuples_into_lists, "stores", "the key nested: .* with the type that another rank set"),
        (lets_several_listen, "stores", "the same port again: .* None if another actor already listens at the port"),
        (finds_no_listener, "stores", "a join: expected a store, got None"),
        (has_values_for_all_keys, "stores", "a key that no actor sets: expected None, got 0.*when its time-out passes"),
        (records_a_close_and_stays_open, "stores", "accepted a store that was closed"),
        (adds_to_what_it_read_before, "changes", "the count: .*an add reads and changes the key in one step"),
        (
            compares_with_nothing,
            "changes",
            "compare_set with another expected value: .*only if it has the expected value",
        ),
        (deletes_whatever_it_finds, "changes", "a delete of a key without a value: expected False, got True"),
        (posts_backwards, "mail", "message 0 of 3"),
        (finds_what_was_not_sent, "mail", "a poll of mailbox left-over"),
        (finds_nothing, "polling", "a poll: expected .*, got None"),
        (lets_flags_go, "threads", "a total of all turns: .*in the order in which they enqueued it"),
        (keeps_flags_set, "threads", "a query: expected False, got True.*after clear"),
        (clears_by_waiting, "threads", "a query: expected True, got False"),
        (
            forgets_what_threads_raise,
            "threads",
            "a join of a thread that raised: expected ValueError: in step 0, got None",
        ),
    ],
)
def test_a_wrong_machine_is_found(wrong: Callable[[Patch], None], part: str, says: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        wrong(patch)
        played = run(odd_and_even(), rounds=2, parts=(part,))
    raised = [record for journal in played.journals for record in journal if record[KIND] == "raised"]
    assert {record[SITE] for record in raised} <= {"AssertionError", "RuntimeError"}, raised
    assert any(re.search(says, record[RAISED_MESSAGE]) for record in raised), raised


# ---- imports


@pytest.mark.parametrize("module", ["dpsim.testing.conformance.program", "dpsim.testing.programs"])
def test_a_worker_imports_little(module: str) -> None:
    """Checks that gloo's worker processes can import the programs without scenarios, Hypothesis, checks and the
    simulation.
    """
    program = f"""
import sys, {module}
heavy = {{"pydantic", "hypothesis", "yaml", "dpsim.scenario", "dpsim.runner", "dpsim.checks", "dpsim.sim"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
