"""Tests of stages that capture their layers into CUDA graphs: all tokens equal those of an eager run.

The faulty twins are mutants of the captures of source page 004 (`cudagraph_utils.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.checks import matches
from dpsim.contract.ops import CAPTURE_WHAT, DECISION_VALUE, SITE, STEP
from dpsim.contract.registry import variants
from dpsim.vllm.capture.session import Target
from dpsim.vllm.graphs.manager import GraphManager
from dpsim.vllm.model.kernels import stage_layers
from dpsim.vllm.museum.captures import CapturesLargest
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline.graphs import CapturedLayers, ManagedSession, put_tokens
from tests.properties import breaks, examples, holds, slow_but
from tests.vllm.pipeline.test_mutants import CAPTURED
from tests.vllm.pipeline.token_worlds import EXTREMES, Drawn, Played, drawn_worlds, pieces, varied

KNOWN = {entry.name: entry.expected for entry in variants("pp_tokens") if entry.make.__module__ in CAPTURED}
HARMLESS = [name for name, expected in KNOWN.items() if expected is None]
MODES = "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE"
SIZES = [1, 2, 4], [2], [1, 6], [3]


@st.composite
def captured_worlds(draw: st.DrawFn) -> Drawn:
    """Draws pipelines with graphs, some with two replicas, or with two ranks in each stage."""
    replicas, ranks = draw(st.sampled_from([(1, 1), (1, 1), (1, 2), (2, 1)]))
    stages = (2, 2, 3) if replicas > 1 else (2, 2, 3, 1, 4)
    drawn = draw(drawn_worlds(stages=stages, most=4, replicas=replicas, tensor_parallel_size=ranks))
    q = drawn.config["num_speculative_tokens"] + 1
    sizes = [q * size for size in draw(st.sampled_from(SIZES))]
    graphs = {"cudagraph_mode": draw(st.sampled_from(MODES)), "cudagraph_capture_sizes": sizes, "capture_graphs": True}
    return drawn._replace(config=drawn.config | graphs)


WORLDS = captured_worlds()


def captured(drawn: Drawn, **wrong: Any) -> Played:
    return drawn.play(**{"layers": CapturedLayers, **wrong})


def nothing_found(drawn: Drawn, **wrong: Any) -> None:
    found = captured(drawn, **wrong).findings
    assert found == [], f"{found[0].klass}: {found[0].message}"


def served(played: Played, rank: int) -> list[tuple[Any, ...]]:
    """Returns the inputs, samples and need masks that a rank recorded, step by step."""
    return [
        (raw[STEP], raw[SITE], raw[DECISION_VALUE])
        for raw in played.records(rank, "decision")
        if raw[SITE] in ("inputs", "sampled", "need")
    ]


@examples(2, 25, 300)
def test_tokens_are_what_they_are_without_graphs(examples: int) -> None:
    def same(drawn: Drawn) -> None:
        nothing_found(drawn)
        with_graphs, without = captured(drawn), drawn.play()
        for rank in range(with_graphs.world.size):
            assert served(with_graphs, rank) == served(without, rank)

    holds(same, WORLDS, examples)


@pytest.mark.slow
def test_requests_of_all_kinds_have_the_same_tokens() -> None:
    """Tokens equal those of an eager run also for requests of all kinds.

    Batches mix several numbers of drafts, some sampling is deferred, and some requests belong to sessions.
    """

    @st.composite
    def worlds(draw: st.DrawFn) -> Drawn:
        return varied(lambda options: draw(st.sampled_from(options)), draw(WORLDS))

    def same(drawn: Drawn) -> None:
        nothing_found(drawn)
        with_graphs, without = captured(drawn), drawn.play()
        for rank in range(with_graphs.world.size):
            assert served(with_graphs, rank) == served(without, rank)

    holds(same, worlds(), examples=30)


@pytest.mark.parametrize("mode", sorted(set(MODES)))
@pytest.mark.parametrize("ranks", [1, 2])
def test_steps_with_a_graph_replay_it(mode: str, ranks: int) -> None:
    """A step in mode FULL has one replay, a PIECEWISE step one for each piece, and an eager step none.

    All stages choose the same mode.
    """
    requests = [Request(0, 3, 3), Request(0, 1, 4), Request(40_000_000, 7, 2)]
    config = {"cudagraph_mode": mode, "cudagraph_capture_sizes": [1, 2, 4], "max_num_seqs": 2, "capture_graphs": True}
    played = captured(Drawn(2, requests, config, tensor_parallel_size=ranks))
    assert played.classes == []
    chosen = [[raw[SITE] for raw in played.records(rank, "probe")] for rank in range(played.world.size)]
    graphs = [[label for label in labels if label in ("pp.none", "pp.piecewise", "pp.full")] for labels in chosen]
    assert all(one == graphs[0] for one in graphs)
    for rank, labels in enumerate(graphs):
        replays = {"pp.none": 0, "pp.piecewise": len(stage_layers(rank // ranks, 2)) + 1, "pp.full": 1}
        assert len(played.records(rank, "replay")) == sum(replays[label] for label in labels) > 0
        captures = [raw for raw in played.records(rank, "capture") if raw[CAPTURE_WHAT] == "end"]
        assert captures
        assert all(raw[STEP] == -1 for raw in captures)


# ---- the invariants, each with a faulty twin that breaks it


class LastCapturesLess(CapturedLayers):
    """The last stage captures one size fewer than the others (breaks invariant I-CG-6)."""

    def wanted(self) -> Any:
        last = self.rank.device("ep").ranks[0] > 0
        found = super().wanted()
        return found[1:] if last and len(found) > 1 else found


class NoRoom(CapturedLayers):
    """The session captures the smallest size first, so the output buffer is too small (breaks invariant I-CG-13)."""

    class SmallFirst(ManagedSession):
        def order(self, targets: Iterable[Target]) -> list[Target]:
            return list(targets)[::-1]

    session = SmallFirst


class LivePadding(CapturedLayers):
    """Padding rows write to the first slot (breaks invariant I-CG-11)."""

    def put(self, tokens: int, input_batch: Any, spans: Any, stream: Any) -> None:
        super().put(tokens, input_batch, spans, stream)
        if input_batch is not None:
            into = [self.rows(one, tokens) for one in (self.tokens, self.positions, self.slots)]
            reads = [input_batch.inputs, input_batch.mapping]
            stream.launch("token.put", put_tokens, reads=reads, writes=into, args=(spans, 0), cost=0)


class AllCaptured(GraphManager):
    """The manager assumes that every graph is captured (breaks invariant I-CG-3)."""

    def runtime_mode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> Any:
        self.captured = set(self.sizes.values())
        return super().runtime_mode(num_reqs, num_tokens, max_query_len)


class Uncaptured(CapturesLargest):
    """The session captures only the largest graph, and the manager assumes that all are captured."""

    manager = AllCaptured


TWINS = [
    ("I-CG-3", Uncaptured, "no FULL graph"),
    ("I-CG-6", LastCapturesLess, "DISAGREEMENT:CAPTURE"),
    ("I-CG-11", LivePadding, "CRASH:WRONG"),
    ("I-CG-13", NoRoom, "CRASH:INDEXERROR"),
]


@pytest.mark.parametrize(
    ("invariant", "twin", "found"), slow_but(TWINS, lambda one: one[0] != "I-CG-13"), ids=[one[0] for one in TWINS]
)
def test_each_invariant_fails_for_its_twin(invariant: str, twin: type[CapturedLayers], found: str) -> None:
    breaks(lambda drawn: nothing_found(drawn, layers=twin), WORLDS, found, examples=200)


# ---- the mutants


@pytest.mark.parametrize(
    "name", slow_but((name for name in KNOWN if name not in HARMLESS), lambda name: name != "M-CG-2")
)
def test_random_worlds_find_the_mutant(name: str) -> None:
    expected = str(KNOWN[name])

    def not_found(drawn: Drawn) -> None:
        found = [klass for eager in EXTREMES for klass in captured(drawn, eager=eager, **pieces(name)).classes]
        assert not any(matches(klass, expected) for klass in found), "found"

    breaks(not_found, WORLDS, "found", examples=200)


@examples(2, 25, 100)
@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_mutant_is_harmless_everywhere(name: str, examples: int) -> None:
    holds(lambda drawn: nothing_found(drawn, **pieces(name)), WORLDS, examples)
