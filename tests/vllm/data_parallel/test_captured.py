"""Tests of forwards that ranks capture and replay: each step gives the same results as an eager step.

Faulty twins break the invariants of specification 5.10. The tests of invariants I-CG-1 to I-CG-5, which concern the
dispatch, are in tests/vllm/graphs.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.interface import Buffer
from dpsim.contract.ops import CAPTURE_WHAT, SITE, STEP
from dpsim.vllm.capture.session import Target
from dpsim.vllm.capture.wrapper import CUDAGraphWrapper, ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.captured import CapturedForward, Metadata
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.capture import CaptureInputs
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.params.arguments import Request
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.batch_worlds import ARRIVAL, STEP_NS, Drawn, decodes, line_up, play, prefill, released
from tests.vllm.data_parallel.captured_worlds import SPECIALISED, captured, captured_worlds, records, served
from tests.vllm.released import STEPS

WORLDS, MORE = captured_worlds(), captured_worlds(more=True)
DECODES: dict[str, Any] = {"cudagraph_mode": "FULL_DECODE_ONLY"}


def nothing_found(drawn: Drawn, **wrong: Any) -> None:
    """Asserts that no check has a finding in a world with captured graphs."""
    found = captured(drawn, **wrong).findings
    assert found == [], f"{found[0].klass}: {found[0].message}"


# ---- steps with graphs equal eager steps


@examples(25, 100, 1_000)
def test_steps_are_what_they_are_without_graphs(examples: int) -> None:
    """Steps with captured graphs have the same plans, modes and sums as eager steps, and no check reports a finding."""

    def same(drawn: Drawn) -> None:
        played, eager = captured(drawn), drawn.play(capture_graphs=False)
        found = played.findings
        assert found == [], f"{found[0].klass}: {found[0].message}"
        for rank in played.ranks:
            assert served(played, rank) == served(eager, rank)

    holds(same, MORE, examples)


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"])
def test_steps_with_a_graph_replay_it(mode: str) -> None:
    """A step in mode FULL has one replay, a PIECEWISE step one for each piece, and an eager step none.

    Before, the rank has captured each graph of its dispatcher.
    """
    requests = line_up([*decodes(2, 3), *prefill(5)], decodes(3, 2))
    config: dict[str, Any] = {"cudagraph_mode": mode, "cudagraph_capture_sizes": [1, 2, 4], "max_num_seqs": 4}
    played = play(requests, captured=CapturedForward, **config)
    assert played.findings == []
    for rank in played.ranks:
        modes = played.decided("mode", rank)[-played.prepared.timeline.steps :]
        expected = {"NONE": 0, "PIECEWISE": CapturedForward.layers + 1, "FULL": 1}
        assert len(records(played, rank, "replay")) == sum(expected[name] for name, _ in modes) > 0
        begun = [raw for raw in records(played, rank, "capture") if raw[CAPTURE_WHAT] == "begin"]
        graphs = played.prepared.flow.dispatcher.keys
        full, piecewise = len(graphs[RuntimeMode.FULL]), len(graphs[RuntimeMode.PIECEWISE])
        assert len(begun) == full + piecewise * (CapturedForward.layers + 1)


def test_a_session_agrees_like_steps_do() -> None:
    """In a capture session, the ranks agree twice for each graph: in a warm-up and in the capture (spec 5.6).

    Later they agree once in each step.
    """
    config = {**DECODES, "cudagraph_capture_sizes": [1, 2], "max_num_seqs": 4, "async_scheduling": True}
    played = play(line_up(decodes(1, 2), decodes(1, 2)), captured=CapturedForward, **config)
    for rank in played.ranks:
        assert len(played.decided("plan", rank)) == 2 * 2 + played.prepared.timeline.steps


def test_graphs_of_adapters_may_be_of_two_captures() -> None:
    """A rank with adapters and one without may replay graphs of different captures, which NCCL forbids (example A-31).

    The engine allows it, so the check reports GRAPH:UNPAIRED.
    """
    requests = line_up(decodes(1, lora="french"), decodes(1))
    config = {**DECODES, **SPECIALISED, "cudagraph_capture_sizes": [1], "max_num_seqs": 2}
    assert play(requests, captured=CapturedForward, **config).classes == ["GRAPH:UNPAIRED"]
    alike = config | {"cudagraph_specialize_lora": False}
    assert play(requests, captured=CapturedForward, **alike).classes == []


@pytest.mark.parametrize("form", STEPS)
@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_a_request_may_begin_behind_a_shared_prefix(form: str, mode: str) -> None:
    """A request may begin behind a shared prefix.

    The rank fills the request's row of the cache, although none of its steps computed the prefix.
    """
    late = Request(ARRIVAL + STEP_NS, 6, 2, prefix="long")
    requests = [*prefill(6, prefix="long"), *decodes(1, 2), late]
    config: dict[str, Any] = {"cudagraph_mode": mode, "cudagraph_capture_sizes": [1, 2, 4], "block_size": 4}
    played = play(requests, captured=CapturedForward, max_num_seqs=4, **released(form), **config)
    assert played.findings == []
    assert (2, 2, 4) in played.prepared.timeline.batches(1)[0].scheduled
    assert [raw[STEP] for raw in records(played, 0, "launch") if raw[SITE] == "kv.cached"] == [1, 1]


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("tokens", [1, 7])
def test_a_batch_may_be_padded_for_sequence_parallelism(tokens: int, parts: int) -> None:
    """Sequence parallelism pads a batch to a multiple of its parts; the input buffers have room for the padding."""
    config: dict[str, Any] = {"cudagraph_capture_sizes": [2, 4], "max_num_seqs": 4, "enable_sp": True}
    played = play(prefill(tokens), captured=CapturedForward, parts=parts, **config)
    assert played.findings == []
    ((_, (count, _), _),) = played.decided("plan", 0)[-1:]
    assert count >= tokens
    assert count % parts == 0


# ---- the invariants, each with a faulty twin that breaks it


class Forgets(CapturedForward):
    """A rank does not capture its smallest graphs, so a step would have to capture one (breaks I-CG-9)."""

    def targets(self) -> list[Target]:
        found = super().targets()
        least = min([target.key.num_tokens for target in found], default=0)
        return [target for target in found if target.key.num_tokens > least]


class Moves(CapturedForward):
    """A rank makes a new view of the input buffer for each step, so the graph's input moves (breaks invariant
    I-CG-8).
    """

    def inputs_of(self, num_tokens: int) -> tuple[Buffer, ...]:
        return (self.ids.view(0, num_tokens),)


class FewRequests(CapturedForward):
    """A rank replays graphs as if they had been captured for one request."""

    def written_requests(self, num_reqs: int, mode: RuntimeMode, key: Descriptor) -> int:
        return super().written_requests(num_reqs, mode, key if key.num_reqs is None else key._replace(num_reqs=1))


class LiveTails(CapturedForward):
    """The metadata of a capture gives every padding request a real row of the cache."""

    def capture_metadata(self, inputs: CaptureInputs) -> Metadata:
        return super().capture_metadata(inputs)._replace(slots=(0,) * len(inputs.seq_lens))


class StaleTails(CapturedForward):
    """A step does not overwrite the metadata behind its real requests, so old values remain."""

    def put_metadata(self, metadata: Metadata, into: tuple[Buffer, ...], stream: Any) -> None:
        many = sum(slot >= 0 for slot in metadata.slots) or len(metadata.slots)
        real = Metadata(metadata.starts[: many + 1], metadata.lengths[:many], metadata.slots[:many])
        super().put_metadata(real, into, stream)


class AsksInside(CapturedForward):
    """Ranks call a host barrier inside the captured region."""

    async def project(self, layer: int, context: ForwardContext, hidden: Buffer) -> Outputs:
        if context.capturing:
            await self.rank.host("dp_cpu").barrier(site="capture.barrier")
        return await super().project(layer, context, hidden)


class WeakBetween(CapturedForward):
    """A rank frees the outputs of a piece within its capture, so the next piece uses the same memory."""

    class Weak(CUDAGraphWrapper):
        async def capture(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
            runnable = self.runnable

            async def gives_back(inner: ForwardContext, given: tuple[Buffer, ...]) -> Outputs:
                outputs = await runnable(inner, given)
                for buffer in outputs.buffers:
                    buffer.free()
                return outputs

            self.runnable = gives_back
            outputs = await super().capture(context, inputs)
            self.runnable = runnable
            return outputs._replace(owned=False)

    wrapper = Weak


class Unjoined(CapturedForward):
    """A layer launches a kernel on a second stream, and the captured stream never waits for it."""

    def attend(self, layer: int, context: ForwardContext, query: Buffer, attended: Buffer) -> None:
        if context.capturing:
            self.rank.stream("beside").wait_stream(context.stream)
            self.rank.stream("beside").launch("beside", nothing, reads=[query])
        super().attend(layer, context, query, attended)


class NothingCached(CapturedForward):
    """No step fills the cache row of a request that begins behind a shared prefix."""

    def put_cached(self, batch: Batch) -> None:
        pass


def nothing(query: Any) -> None:
    """Kernel: it reads its input and does nothing."""


Twin = tuple[str, type[CapturedForward], str]
TWINS: list[Twin] = [
    ("I-CG-7", WeakBetween, "STALE:FREED"),
    ("I-CG-8", Moves, "I-CG-8"),
    ("I-CG-9", Forgets, "I-CG-9"),
    ("I-CG-10", FewRequests, "I-CG-10"),
    ("I-CG-11 in steps", StaleTails, "CRASH:WRONG"),
    ("I-CG-11 in captures", LiveTails, "CRASH:WRONGCACHE"),
    ("I-CG-12", Unjoined, "904"),
    ("I-CG-14", AsksInside, "900"),
]


@pytest.mark.parametrize(("invariant", "twin", "found"), TWINS, ids=[one[0] for one in TWINS])
def test_each_invariant_fails_for_its_twin(invariant: str, twin: type[CapturedForward], found: str) -> None:
    """In some random world, a check finds each faulty twin."""
    breaks(lambda drawn: nothing_found(drawn, captured=twin), WORLDS, found, examples=200)


def test_an_unwritten_shared_prefix_is_found() -> None:
    """In some random world, a check finds the twin that does not fill the cache row of a shared prefix."""
    breaks(lambda drawn: nothing_found(drawn, captured=NothingCached), MORE, "CRASH:WRONG", examples=200)


def test_all_ranks_capture_the_same() -> None:
    """All ranks capture the same graphs in the same order (invariant I-CG-6). Variant M-CG-5-capture is the twin."""

    def the_same(drawn: Drawn) -> None:
        played = captured(drawn)
        lists = [played.decided("capture", rank) for rank in played.ranks]
        assert all(one == lists[0] for one in lists)
        sizes = [dict(key)["num_tokens"] for name, *key in lists[0] if name == "FULL"]
        assert sizes == sorted(sizes, reverse=True)

    holds(the_same, WORLDS, examples=10)


def test_metadata_behind_the_real_requests_are_inert() -> None:
    """The metadata behind the real requests are inert (invariant I-CG-11).

    The test reads the metadata that rank 0 writes in the two runs of a capture, and in two steps.
    """
    told: list[Metadata] = []

    class Listens(CapturedForward):
        def put_metadata(self, metadata: Metadata, into: tuple[Buffer, ...], stream: Any) -> None:
            if self.index == 0:
                told.append(metadata)
            super().put_metadata(metadata, into, stream)

    config = {**DECODES, "cudagraph_capture_sizes": [2], "max_num_seqs": 3}
    play(line_up(decodes(1, 2), decodes(2, 2)), captured=Listens, **config)
    capture = Metadata((0, 1, 2, 2), (1, 1, 0), (-1, -1, -1))
    steps = [Metadata((0, 1, 1, 1), (length, 0, 0), (0, -1, -1)) for length in (1, 2)]
    assert told == [capture, capture, *steps]
