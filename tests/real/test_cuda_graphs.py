"""Tests of the calls that the host makes on a GPU for captures and replays, with a device that does nothing
(`null_device`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dpsim.contract.interface import CaptureError, Graph
from dpsim.contract.ops import KIND
from dpsim.contract.world import At, Fault, World

pytest.importorskip("torch")

from real.cuda import CudaDevice
from real.cuda_errors import TEXTS, capture_code
from real.cuda_graphs import CudaGraph
from real.cuda_streams import CudaStream
from real.rank import RealRank
from real.threads import drive
from tests.real.null_device import NullCalls, null_rank

NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing\nmore"
FAILED_BEFORE = RuntimeError("CUDA error: operation failed due to a previous error during capture")


@pytest.fixture
def calls() -> NullCalls:
    return NullCalls()


def fill(buffer: Any, value: int) -> None:
    buffer[:] = value


def synchronises(buffer: Any) -> None:
    raise RuntimeError(NOT_PERMITTED)


def device_calls_during(calls: NullCalls, script: Coroutine[Any, Any, None]) -> list[str]:
    """Returns the calls that the device receives during the script."""
    before = len(calls.told)
    drive(script)
    return calls.told[before:]


def of_cuda(graph: Graph) -> CudaGraph:
    assert isinstance(graph, CudaGraph)
    return graph


def device_of(rank: RealRank) -> Any:
    return rank._device


def test_the_device_captures_and_a_replay_is_one_launch(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main, group = rank.stream("main"), rank.device("dp")
    x = main.alloc(4, "int32", "x")
    graph = of_cuda(rank.graph("g"))

    async def captures() -> None:
        async with graph.capture(main, mode="thread_local"):
            main.launch("fill", fill, writes=[x], args=(3,))
            group.all_reduce(x, main)

    async def replays() -> None:
        graph.replay(main, "go")

    told = device_calls_during(calls, captures())
    assert told == [
        "event 0 on main",
        "graph begins on 1 (pool 1, thread_local)",
        "allreduce on 1",
        "event 1 on main",
        "graph ends on 1",
        "graph is made on 1",
    ]
    assert (graph.nodes, graph.replays) == (7, 0)
    assert device_calls_during(calls, replays()) == ["graph replays on 1"]
    assert graph.replays == 1


def test_the_order_of_a_communicator_is_one_outside_and_one_within(calls: NullCalls) -> None:
    """Checks the order of a communicator inside and outside of a capture. A wait in the capture never uses an event
    from outside. A replay waits for the last call outside, and later calls outside wait for the replay.
    """
    rank = null_rank(calls)
    main, side, group = rank.stream("main"), rank.stream("side"), rank.device("dp")
    x = main.alloc(4, "int32", "x")
    graph = rank.graph("g")

    async def captures() -> None:
        group.all_reduce(x, side)
        async with graph.capture(main):
            group.all_reduce(x, main)

    async def replays() -> None:
        graph.replay(main, "go")
        group.all_reduce(x, side)

    assert not [one for one in device_calls_during(calls, captures()) if "waits" in one]
    told = [one for one in device_calls_during(calls, replays()) if "current" not in one]
    assert told == [
        "main waits for event 0 on side",
        "graph replays on 1",
        "event 0 on main",
        "side waits for event 0 on main",
        "allreduce on 2",
        "event 0 on side",
    ]


def test_a_branch_is_ordered_by_events_of_the_capture(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main, side = rank.stream("main"), rank.stream("side")
    x = main.alloc(4, "int32", "x")
    graph = rank.graph("g")

    async def captures() -> None:
        async with graph.capture(main):
            side.wait_stream(main)
            side.launch("fill", fill, writes=[x], args=(3,))
            main.wait_stream(side)
        graph.replay(main, "go")

    told = device_calls_during(calls, captures())
    within = told[told.index("graph begins on 1 (pool 1, global)") + 1 : told.index("graph ends on 1")]
    assert [one for one in within if "current" not in one] == [
        "event 2 on main",
        "side waits for event 2 on main",
        "event 3 on side",
        "main waits for event 3 on side",
    ]
    assert sorted(rank.streams) == ["main", "side"]


def test_graphs_of_one_pool_have_one_of_torch(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main = rank.stream("main")

    async def captures() -> None:
        for name, pool in (("a", "p"), ("b", None), ("c", "p")):
            async with rank.graph(name, pool).capture(main):
                pass

    began = [one for one in device_calls_during(calls, captures()) if "begins" in one]
    assert [one.split()[-2] for one in began] == ["1,", "2,", "1,"]


def test_memory_of_a_graph_is_let_go_and_can_be_read(calls: NullCalls) -> None:
    aliases: list[Any] = []

    def alias(tensor: Any) -> Any:
        aliases.append(tensor)
        return tensor.clone()

    calls.alias = alias
    rank = null_rank(calls)
    main = rank.stream("main")
    graph, seen = rank.graph("g"), []

    async def captures() -> None:
        other = main.alloc(2, "int32", "other")
        async with graph.capture(main):
            y = main.alloc(2, "int32", "y")
            main.launch("fill", fill, writes=[y], args=(3,))
            y.free()
        other.free()
        graph.replay(main, "go")
        seen.append((await y.view(0, 1).read("out")).tolist())

    drive(captures())
    assert (len(aliases), seen) == (1, [[3]])
    assert not rank.taken


# ---- captures that record nothing


def abandoned(rank: RealRank, body: Callable[[], object]) -> Exception:
    """Returns the error that ends a capture with this body."""
    main = rank.stream("main")

    async def captures() -> None:
        async with rank.graph("g").capture(main):
            body()

    try:
        drive(captures())
    except (CaptureError, ValueError) as error:
        return error
    raise AssertionError("it is captured")


def again(rank: RealRank) -> None:
    """Captures and replays a graph under the same name."""

    async def captures() -> None:
        graph, main = rank.graph("g"), rank.stream("main")
        async with graph.capture(main):
            main.launch("fill", fill, writes=[main.alloc(1, "int32", "x")], args=(1,))
        graph.replay(main, "go")

    drive(captures())


def test_an_abandoned_capture_joins_its_branches_and_ends(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main, side = rank.stream("main"), rank.stream("side")

    def raises() -> None:
        side.wait_stream(main)
        raise ValueError

    abandoned(rank, raises)
    assert calls.told[-3:] == ["event 3 on side", "main waits for event 3 on side", "graph ends on 1"]
    assert not device_of(rank).spoiled
    again(rank)
    assert [one for one in calls.told if "begins" in one] == ["graph begins on 1 (pool 1, global)"] * 2


def test_a_capture_that_dpsim_refuses_ends_and_spoils_nothing(calls: NullCalls) -> None:
    """Checks a capture that dpsim itself rejects, before CUDA notices the mistake. The process stays usable."""
    rank = null_rank(calls)
    main, side = rank.stream("main"), rank.stream("side")

    def leaves_a_branch() -> None:
        side.wait_stream(main)
        side.launch("fill", fill, writes=[side.alloc(1, "int32", "x")], args=(1,))

    error = abandoned(rank, leaves_a_branch)
    assert isinstance(error, CaptureError)
    assert error.code == 904
    assert not device_of(rank).spoiled
    again(rank)


def test_a_capture_that_cuda_refuses_spoils_the_process(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main = rank.stream("main")
    x = main.alloc(1, "int32", "x")
    calls.fails["ends"] = FAILED_BEFORE
    error = abandoned(rank, lambda: main.launch("peek", synchronises, writes=[x]))
    assert isinstance(error, CaptureError)
    assert error.code == 900
    assert str(error).startswith(f"peek: CUDA says {NOT_PERMITTED.splitlines()[0]!r}, while graph g is captured")
    assert device_of(rank).spoiled
    del calls.fails["ends"]
    again(rank)
    began = [one for one in calls.told if "begins" in one]
    assert began[-1] == "graph begins on 1 (pool 2, global)", (
        "the former pool is still capturing, so this graph uses pool 2"
    )


@pytest.mark.parametrize("injects", [False, True], ids=["fused", "shared"])
def test_cuda_refuses_calls_on_other_streams_as_well(calls: NullCalls, injects: bool) -> None:
    """Checks that a capture in the mode "global" rejects calls that may wait for the device, even on other streams."""
    rank = null_rank(calls, faults=(Fault("skip", 0, At("never", 0)),) if injects else ())
    side = rank.stream("side")
    x = side.alloc(1, "int32", "x")
    error = abandoned(rank, lambda: side.launch("peek", synchronises, writes=[x]))
    assert isinstance(error, CaptureError)
    assert error.code == 900


@pytest.mark.parametrize("what", ["begins", "ends", "is made"])
def test_a_device_that_gives_no_graph(calls: NullCalls, what: str) -> None:
    rank = null_rank(calls)
    calls.fails[what] = FAILED_BEFORE
    error = abandoned(rank, lambda: None)
    assert isinstance(error, CaptureError)
    assert error.code == 901
    assert device_of(rank).spoiled == (what != "is made")
    calls.fails.clear()
    again(rank)


def test_an_error_of_a_kernel_that_is_not_about_captures_stays_what_it_is(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main = rank.stream("main")

    async def captures() -> None:
        async with rank.graph("g").capture(main):
            main.launch("fill", fill, writes=[main.alloc(1, "int32", "x")], args=(None,))

    with pytest.raises(RuntimeError, match="kernel fill of rank 0"):
        drive(captures())


def test_the_codes_of_cuda() -> None:
    class WithCode(RuntimeError):
        error_code = 906

    assert [capture_code(RuntimeError(f"CUDA error: {words}")) for words in TEXTS.values()] == list(TEXTS)
    assert capture_code(WithCode("whatever")) == 906
    assert capture_code(RuntimeError("CUDA error: out of memory")) is None
    assert capture_code(None) is None


def replayed(rank: RealRank, streams: tuple[str, ...]) -> list[Any]:
    """Returns the records of a rank that captures a graph and replays it on these streams."""
    main, group = rank.stream("main"), rank.device("dp")
    records: list[Any] = []
    rank.journal._sink = lambda raw: records.append(raw if raw[KIND] != "alloc" else raw[:-1])

    async def program() -> None:
        x, y = main.alloc(4, "int32", "x"), main.alloc(4, "int32", "y")
        graph = rank.graph("g")
        async with graph.capture(main):
            main.launch("fill", fill, writes=[x], args=(3,))
            group.all_reduce(x, main, site="sum")
            main.launch("fill", fill, writes=[y], args=(4,))
        for rank.step, stream in enumerate(streams):
            graph.replay(rank.stream(stream), "go")
            group.all_reduce(x, main, site="sum")

    drive(program())
    return records


def test_rows_made_beforehand_are_the_records_of_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = "main", "main", "side", "main"
    rows = replayed(null_rank(NullCalls()), streams)
    assert sum(raw[KIND] == "launch" for raw in rows) == 2 * len(streams)
    monkeypatch.setattr(CudaGraph, "_rows_for", lambda *_: None)
    assert replayed(null_rank(NullCalls()), streams) == rows
    monkeypatch.setattr(CudaGraph, "_rows_for", lambda *_: [])
    assert replayed(null_rank(NullCalls()), streams) != rows


def test_a_capture_that_cuda_gave_up_is_ended_though_no_branch_can_be_joined(
    calls: NullCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = null_rank(calls)
    side = rank.stream("side")

    def gives_up() -> None:
        side.wait_stream(rank.stream("main"))

        def refuses(self: CudaStream) -> None:
            raise FAILED_BEFORE

        monkeypatch.setattr(CudaStream, "mark", refuses)
        raise ValueError("over")

    abandoned(rank, gives_up)
    assert "graph ends on" in " ".join(calls.told)


def test_streams_go_back_after_a_job() -> None:
    """Checks that jobs reuse streams: a job has at most as many streams as names, whatever names earlier jobs had."""
    made: list[int] = []

    def warm() -> int:
        made.append(len(made))
        return made[-1]

    device = object.__new__(CudaDevice)
    device._spare, device._streams, device.cycles_per_ns = [], {}, 1.0
    device._warm_stream = warm  # type: ignore[method-assign]
    for job in range(40):
        device.prepare(World(1, ()))
        assert len({device.handle(f"{name}{job}") for name in "abc"}) == 3
    assert len(made) == 3
