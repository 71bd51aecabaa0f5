"""Compares the fused ops of a GPU with the shared half of the contract: one program runs through both, on a device that
does nothing.

Records, calls of the device, results and errors have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpsim.contract.ops import KIND, RawRecord
from dpsim.contract.world import At, Delay, Fault

pytest.importorskip("torch")

from real import cuda_fused
from real.cuda_fused import FusedBuffer, FusedCommunicator, FusedStream
from real.cuda_groups import CudaCommunicator
from real.cuda_streams import CudaStream
from real.rank import RealRank
from real.threads import drive
from real.waiting import Unfinished
from tests.real.null_device import NO_STREAM, NullCalls, NullGroup, null_rank


class Seen(NamedTuple):
    """What a program did to its journal and to the device, and its own notes."""

    records: list[RawRecord]
    told: list[str]
    given: list[tuple[tuple[int, ...], object]]
    """The tensors and options of the collectives."""
    said: list[object]


def through(program: Callable[[RealRank, NullCalls, list[object]], None], fused: bool) -> Seen:
    calls, records, said = NullCalls(), list[RawRecord](), list[object]()
    rank = null_rank(calls, records.append, fused)
    assert (type(rank.stream("main")) is FusedStream) == fused
    try:
        program(rank, calls, said)
    except BaseException as error:
        said += [type(error), str(error), str(error.__cause__)]
    group = rank.device("dp")
    assert isinstance(group, CudaCommunicator)
    given = [(tuple(tensors[0].shape), options) for tensors, options in group._nccl.process_group.given]
    return Seen([placed(record) for record in records], calls.told, given, said)


def placed(record: RawRecord) -> RawRecord:
    """Returns the record with only the size of an address, because two runs allocate at different addresses."""
    if record[KIND] != "alloc":
        return record
    device, first, end = record[-1]
    return (*record[:-1], (device, end - first))


def awaited(work: Any) -> Any:
    with pytest.raises(StopIteration) as ended:
        next(work.__await__())
    return ended.value.value


def nothing(*arguments: Any) -> None:
    """A kernel that does nothing."""


def add(*arguments: Any) -> None:
    *reads, target, value = arguments
    for one in reads:
        target += one
    target += value


def gives(target: Any) -> Any:
    return target


def raises(target: Any) -> None:
    raise SystemExit("no")


def writes_what_it_reads(source: Any, target: Any) -> None:
    source += 1


def with_default(target: Any, at: tuple[int, ...] = (1,)) -> None:
    """A kernel that does nothing, with a default argument."""


def slots(thing: object) -> dict[str, object]:
    """Returns the fields of an object, of all its classes. Values that differ between runs are replaced by None."""
    names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ()) if name[:2] != "__"]
    assert all(hasattr(thing, name) for name in names), [name for name in names if not hasattr(thing, name)]
    own = {name: getattr(thing, name) for name in names} | {"shape": thing.shape, "dtype": thing.dtype}  # type: ignore[attr-defined]
    simple = int, str, tuple, list, type(None)
    first, end = own["place"][1:]
    return {name: one if isinstance(one, simple) else None for name, one in own.items()} | {"place": end - first}


# ---- programs


def steps(rank: RealRank, calls: NullCalls, said: list[object]) -> None:
    """Runs ops on two streams, with whole buffers, views and tags."""
    main, side, group = rank.stream("main"), rank.stream("side"), rank.device("dp")
    for rank.step in range(3):
        table, other = main.alloc((4, 2), "int32", "table"), side.alloc(8, "int64", "other")
        said.append(slots(table))
        main.launch("add", add, writes=[table], args=(rank.step,))
        main.launch("add", add, reads=[table], writes=[table], args=(2,), cost=5)
        main.launch("many", nothing, reads=[other, table], writes=(table, other), args=((1, (2, None)), "x", 1.5))
        main.launch("view", add, writes=[table.view(1, 3)], args=(7,))
        side.launch("none", nothing)
        group.all_reduce(table, main, site="sum")
        group.all_reduce(table, main, op="max")
        group.all_reduce(table.tagged("t"), main)
        group.all_reduce(table.view(0, 2), side)
        group.broadcast(table, 0, side)
        rank.device("ep").all_reduce(other, side, op="min", site="sum")
        calls.now = NO_STREAM
        works = [table.read("read"), table.read("read", side), table.tagged("t").read("tagged"), other.read("read")]
        said.append([awaited(work).tolist() for work in works])
        said.append(awaited(table.view(1, 2).read("view", main)).tolist())
        other.free()
        table.free()
    said.append([awaited(main.alloc(shape, "float32", "odd").read("odd")).shape for shape in ((), 0, (0, 3), (2, 0))])
    numbers: Any = [np.int64(2), [2, np.int32(3)], (2, True), True]
    said.append([awaited(main.alloc(shape, "int64", "odd").read("odd")).shape for shape in numbers])
    main.launch("default", with_default, writes=[main.alloc(1, "int32", "one")])


def captures(rank: RealRank, calls: NullCalls, said: list[object]) -> None:
    """Runs ops in a graph, its replays, and reads of its memory."""
    main, group = rank.stream("main"), rank.device("dp")

    async def program() -> None:
        table = main.alloc((4, 2), "int32", "table")
        graph = rank.graph("decode")
        async with graph.capture(main):
            inner = main.alloc((4, 2), "int32", "inner")
            main.launch("add", add, reads=[table], writes=[inner], args=(1,))
            group.all_reduce(inner, main, site="sum")
            inner.free()
        for rank.step in range(2):
            main.launch("fill", nothing, writes=[table])
            graph.replay(main, "replay")
            group.all_reduce(table, main)
            said.append((await table.read("read")).tolist())
        table.free()
        async with rank.graph("next").capture(main):
            table = main.alloc(2, "int32", "table")
            await table.read("read")

    drive(program())


def failures_of_the_device(rank: RealRank, calls: NullCalls, said: list[object]) -> None:
    """Runs a collective that fails, and further ones."""
    main, group = rank.stream("main"), rank.device("dp")
    buffer = main.alloc(4, "int32", "buffer")
    assert isinstance(group, CudaCommunicator)
    process_group: NullGroup = group._nccl.process_group
    group.all_reduce(buffer, main)
    process_group.fails = lambda: None
    for _ in range(2):
        with pytest.raises(RuntimeError) as raised:
            group.all_reduce(buffer, main, op="min", site="sum")
        said.append(str(raised.value))
    process_group.fails = rank.patience.give_up.set
    for _ in range(2):
        with pytest.raises(Unfinished):
            group.all_reduce(buffer, main)
    calls.passed = lambda: False
    with pytest.raises(Unfinished):
        next(buffer.read("given_up").__await__())


def kernel_that(kernel: Any) -> Callable[[RealRank, NullCalls, list[object]], None]:
    def program(rank: RealRank, calls: NullCalls, said: list[object]) -> None:
        main = rank.stream("main")
        one, other = main.alloc(4, "int32", "buffer"), main.alloc(4, "int32", "buffer")
        main.launch("bad", kernel, reads=[one] if kernel is writes_what_it_reads else [], writes=[other])

    return program


Use = Callable[[Any, Any, Any], object]

MISTAKES: dict[str, Use] = {
    "a site that is no word": lambda main, group, buffer: main.alloc(1, "int32", "two words"),
    "a negative shape": lambda main, group, buffer: main.alloc((2, -1), "int32", "x"),
    "a negative size": lambda main, group, buffer: main.alloc(-1, "int32", "x"),
    "a shape of halves": lambda main, group, buffer: main.alloc(1.5, "int32", "x"),
    "no dtype": lambda main, group, buffer: main.alloc(1, "int31", "x"),
    "no function": lambda main, group, buffer: main.launch("x", 3, writes=[buffer]),
    "a method": lambda main, group, buffer: main.launch("x", [].append, writes=[buffer]),
    "an array as an argument": lambda main, group, buffer: main.launch("x", nothing, args=(np.int32(1),)),
    "one in a tuple": lambda main, group, buffer: main.launch("x", nothing, args=((1, np.int32(1)),)),
    "a list in a tuple": lambda main, group, buffer: main.launch("x", nothing, args=(((1, []),),)),
    "a negative cost": lambda main, group, buffer: main.launch("x", nothing, cost=-1),
    "a cost of halves": lambda main, group, buffer: main.launch("x", nothing, cost=0.5),
    "a buffer and no list": lambda main, group, buffer: main.launch("x", nothing, writes=buffer),
    "a dictionary": lambda main, group, buffer: main.launch("x", nothing, writes={"x": 1}),
    "None to write": lambda main, group, buffer: main.launch("x", nothing, writes=[None]),
    "None to read": lambda main, group, buffer: main.launch("x", nothing, reads=[None], writes=[buffer]),
    "a freed buffer to write": lambda main, group, buffer: (buffer.free(), main.launch("x", nothing, writes=[buffer])),
    "a freed buffer to read": lambda main, group, buffer: (buffer.free(), main.launch("x", nothing, reads=[buffer])),
    "a freed buffer to sum": lambda main, group, buffer: (buffer.free(), group.all_reduce(buffer, main)),
    "a freed buffer to copy": lambda main, group, buffer: (buffer.free(), buffer.read("read")),
    "freed twice": lambda main, group, buffer: (buffer.free(), buffer.free()),
    "a list to sum": lambda main, group, buffer: group.all_reduce([1], main),
    "no reduction": lambda main, group, buffer: group.all_reduce(buffer, main, op="mean"),
    "a reduction that is a list": lambda main, group, buffer: group.all_reduce(buffer, main, op=[]),
    "no stream to sum on": lambda main, group, buffer: group.all_reduce(buffer, "main"),
    "no stream to read on": lambda main, group, buffer: buffer.read("read", "main"),
    "a read that is used": lambda main, group, buffer: buffer.read("read").tolist(),
    "a read that is summed": lambda main, group, buffer: main.launch("x", nothing, args=(buffer.read("read"),)),
    "a read that is compared": lambda main, group, buffer: buffer.read("read") == 3,
}


def within_a_group(rank: RealRank, calls: NullCalls, said: list[object]) -> None:
    main, group = rank.stream("main"), rank.device("dp")
    with group.coalesced(main):
        group.all_reduce(main.alloc(4, "int32", "buffer"), main)


def awaited_twice(rank: RealRank, calls: NullCalls, said: list[object]) -> None:
    work = rank.stream("main").alloc(4, "int32", "buffer").read("read")
    awaited(work)
    next(work.__await__())


def a_read_sent_to_peers(rank: RealRank, calls: NullCalls, said: list[object]) -> None:
    work: Any = rank.stream("main").alloc(4, "int32", "buffer").read("read")
    rank.host("dp_cpu").all_reduce(work)


def mistaken(use: Use) -> Callable[[RealRank, NullCalls, list[object]], None]:
    def program(rank: RealRank, calls: NullCalls, said: list[object]) -> None:
        main = rank.stream("main")
        use(main, rank.device("dp"), main.alloc(4, "int32", "buffer"))

    return program


# ---- equal programs


@pytest.mark.parametrize("program", [steps, captures, failures_of_the_device])
def test_a_program_is_the_same(program: Callable[..., None]) -> None:
    one, other = through(program, fused=False), through(program, fused=True)
    assert one == other
    assert program is captures or type not in map(type, one.said), "the program raised no exception"


@pytest.mark.parametrize("kernel", [gives, raises, writes_what_it_reads])
def test_a_kernel_fails_alike(kernel: Any) -> None:
    one, other = (through(kernel_that(kernel), fused) for fused in (False, True))
    assert one == other
    assert "of rank 0 bad[0]" in str(one.said)


@pytest.mark.parametrize("program", [within_a_group, awaited_twice, a_read_sent_to_peers])
def test_a_misplaced_call_is_refused_in_the_same_way(program: Callable[..., None]) -> None:
    one, other = through(program, fused=False), through(program, fused=True)
    assert one == other
    assert one.said


@pytest.mark.parametrize("use", MISTAKES.values(), ids=MISTAKES)
def test_a_fused_call_reports_the_same_mistake(use: Use) -> None:
    one, other = (through(mistaken(use), fused) for fused in (False, True))
    assert one == other
    assert one.said


# ---- faulty twins


def test_an_op_that_reports_less_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: a launch omits the buffers that it reads."""
    healthy = FusedStream.launch

    def launch(self: Any, site: str, kernel: Any, *, reads: Any = (), **more: Any) -> None:
        healthy(self, site, nothing, writes=more["writes"]) if reads else healthy(self, site, kernel, **more)

    monkeypatch.setattr(FusedStream, "launch", launch)
    assert through(steps, fused=False) != through(steps, fused=True)


def test_a_buffer_that_lacks_something_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_fused, "FusedBuffer", type("Larger", (FusedBuffer,), {"__slots__": ("more",)}))
    assert "more" in str(through(steps, fused=True).said)


# ---- which ranks have fused ops


@pytest.mark.parametrize(
    ("changes", "fused"),
    [
        ({}, True),
        ({"faults": (Fault("skip", 1, At("sum", 0), {}),)}, True),  # a fault of another rank
        ({"faults": (Fault("skip", 0, At("sum", 0), {}),)}, False),
        ({"delays": (Delay(0, At("sum", 0), 5),)}, False),
    ],
    ids=["nothing", "another rank", "a fault", "a delay"],
)
def test_ranks_with_injected_faults_or_delays_use_no_fused_calls(changes: dict[str, Any], fused: bool) -> None:
    rank = null_rank(NullCalls(), **changes)
    assert type(rank.stream("main")) is (FusedStream if fused else CudaStream)
    assert type(rank.device("dp")) is (FusedCommunicator if fused else CudaCommunicator)
