"""Tests wrappers, capture sessions, offloaded weights and registered buffers one by one in the simulation.

A function with `@twins` is a test and its faulty twin (`right` is False), whose mistake a check must find.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.interface import Buffer, Rank
from dpsim.diagnose.words import text
from dpsim.vllm.capture.offloader import Offloader
from dpsim.vllm.capture.registration import RegisteredAllReduce
from dpsim.vllm.capture.session import CaptureSession, Target
from dpsim.vllm.capture.wrapper import Captures, CUDAGraphWrapper, ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.model.kernels import copy
from dpsim.vllm.museum.graph_bugs import RegistersOver
from tests.sim.programs import Twins, everywhere, filled, numbers, usual_world

twins = Twins()
KEY = Descriptor(2)
NONE, PIECEWISE, FULL = RuntimeMode


def times(source: Any, weights: Any, target: Any) -> None:
    target[:] = source * weights[0]


def wrapped(rank: Rank, offloader: Offloader | None = None, calls: list[RuntimeMode] | None = None) -> Any:
    """Returns a model of two layers in wrappers of both modes, and its input. Each layer is a PIECEWISE piece."""
    main, captures = rank.stream("main"), Captures(rank, offloader=offloader)
    x = filled(main, 5)

    async def piece(context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
        left = context.stream.alloc(2, "int32", "left")
        if calls is not None:
            calls.append(context.mode)
        context.stream.launch("copy", copy, reads=inputs, writes=[left])
        return Outputs((left,), owned=True)

    first, second = (CUDAGraphWrapper(f"piece{n}", PIECEWISE, piece, captures) for n in range(2))

    async def model(context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
        between = await first(context, inputs)
        outputs = await second(context, between.buffers)
        if between.owned:
            between.buffers[0].free()
        return outputs

    return CUDAGraphWrapper("model", FULL, model, captures), x


def context(rank: Rank, mode: RuntimeMode) -> ForwardContext:
    return ForwardContext(mode, KEY, rank.stream("main"), None, (2,))


@twins("CRASH:ASSERTIONERROR", learned=[((5, 5),) * 3], world=usual_world(1))
async def the_mode_of_a_context_selects_the_wrapper(rank: Rank, right: bool) -> Any:
    """In mode FULL the model replays one graph; in mode PIECEWISE it replays one graph for each piece.

    The twin captures for FULL only. Then PIECEWISE must fail, because no rank captures after serving began (I-CG-9).
    """
    model, x = wrapped(rank)
    for mode in (PIECEWISE, FULL) if right else (FULL,):
        outputs = await model(context(rank, mode), (x,))
        assert outputs.owned
        for buffer in outputs.buffers:
            buffer.free()
    model.captures.allowed = False
    seen = []
    for mode in RuntimeMode:
        outputs = await model(context(rank, mode), (x,))
        assert outputs.owned is (mode is NONE)
        seen.append(numbers(await outputs.buffers[0].read("out")))
    assert model.captures.count == 3
    return tuple(seen)


@twins("RACE:BUFFER", learned=[(5, 5)], world=usual_world(1))
async def a_replay_waits_for_weights_that_were_asked_for(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    offloader = Offloader(rank, layers=2, places=1)
    x, y = filled(main, 5), main.alloc(2, "int32", "y")
    graph = rank.graph("g")
    offloader.sync_prev_onload(main)
    async with graph.capture(main):
        main.launch("times", times, reads=[x, offloader.weights(0)], writes=[y])
        offloader.after_layer(0, main, capturing=True)
        offloader.join_after_forward(main)
    offloader.after_layer(1, main, capturing=False)
    if right:
        offloader.sync_prev_onload(main)
    graph.replay(main, "go")
    return numbers(await y.read("out"))


@twins("STALE:UNWRITTEN", learned=[(10, 10), (10, 10)])
async def addresses_are_exchanged_before_the_first_replay(rank: Rank, right: bool) -> Any:
    main, reduce = rank.stream("main"), RegisteredAllReduce(rank, "h", "d")
    x = filled(main, 5)
    graph = rank.graph("g")
    async with graph.capture(main):
        reduce.all_reduce(x, main, "sum", capturing=True)
    if right:
        await reduce.register()
    graph.replay(main, "go")
    return numbers(await x.read("out"))


AtFirstPlaces = RegistersOver.AtFirstPlaces


@twins("STALE:UNWRITTEN", learned=[(10, 10), (10, 10)])
async def a_second_session_has_its_own_addresses(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    reduce = (RegisteredAllReduce if right else AtFirstPlaces)(rank, "h", "d")
    for name in ("first", "second"):
        x, graph = filled(main, 5), rank.graph(name)
        async with graph.capture(main):
            reduce.all_reduce(x, main, "sum", capturing=True)
        await reduce.register()
    graph.replay(main, "go")
    return numbers(await x.read("out"))


@pytest.mark.parametrize("twin", twins, ids=str)
def test_the_healthy_twin_holds(twin: Any) -> None:
    twin.check_right()


@pytest.mark.parametrize("twin", twins, ids=str)
def test_each_faulty_twin_is_found(twin: Any) -> None:
    twin.check_wrong()


def test_a_session_warms_up_each_size_and_captures_large_sizes_first() -> None:
    async def script(rank: Rank) -> Any:
        seen = []

        async def dummy_run(target: Target, mode: RuntimeMode, stream: Any) -> None:
            seen.append((stream.name, target.mode.name, target.key.num_tokens, mode.name))

        targets = [Target(mode, Descriptor(size)) for size in (1, 4) for mode in (FULL, PIECEWISE)]
        await CaptureSession(rank, ("h",)).run(targets, dummy_run)
        return tuple(seen)

    order = [("PIECEWISE", 4), ("PIECEWISE", 1), ("FULL", 4), ("FULL", 1)]
    expected = tuple(("capture", *target, mode) for target in order for mode in ("NONE", target[0]))
    for seen in everywhere(script, usual_world(1)):
        assert seen.learned == [expected]
        assert seen.classes == []


def test_a_session_that_differs_names_its_decisions() -> None:
    async def script(rank: Rank) -> None:
        async def dummy_run(target: Target, mode: RuntimeMode, stream: Any) -> None: ...

        await CaptureSession(rank, ("h",)).run([Target(FULL, Descriptor(4 + rank.rank))], dummy_run)

    for seen in everywhere(script, usual_world(2)):
        assert seen.classes == ["DISAGREEMENT:CAPTURE"]
        assert "rank 1 decided ('FULL', ('num_tokens', 5), ('num_reqs', None), " in text(seen.findings[0].message)


def test_a_graph_is_captured_once_and_its_host_code_never_runs_again() -> None:
    async def script(rank: Rank) -> Any:
        calls: list[RuntimeMode] = []
        model, x = wrapped(rank, calls=calls)
        for _ in range(3):
            await model(context(rank, FULL), (x,))
        return len(calls), model.captures.count

    for seen in everywhere(script, usual_world(1)):
        assert seen.learned == [(2, 1)]
