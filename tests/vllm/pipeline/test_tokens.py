"""Tests that every token of every request equals the oracle's, on one to four stages, while requests arrive and end.

The oracle computes the expected tokens of a request (`dpsim.vllm.model.oracle`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from dpsim.campaign.subject import Subject
from dpsim.contract.ops import ASK_HOW, KIND, SITE
from dpsim.contract.program import Program
from dpsim.diagnose.words import text
from dpsim.testing import holds as holds_in_every_schedule
from dpsim.vllm.config import EngineConfig
from dpsim.vllm.model import kernels
from dpsim.vllm.model.kernels import LAYERS, Span, stage_layers
from dpsim.vllm.model.oracle import Oracle
from dpsim.vllm.museum.tokens import NoGeneration
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline import request_table
from dpsim.vllm.pipeline.history import STEP_NS, History
from dpsim.vllm.programs.pp_tokens import PipelineTokens
from tests.properties import breaks, examples, holds
from tests.vllm.pipeline.token_worlds import EXTREMES, Drawn, Played, drawn_worlds, world


def all_is_well(drawn: Drawn, **pieces: Any) -> Played:
    """Asserts that neither extreme run has a finding, that both decide alike, and that requests get all tokens.

    In one extreme run, all sends are eager; in the other one, none is.
    """
    eager, rendezvous = (drawn.play(extreme, **pieces) for extreme in EXTREMES)
    assert eager.classes == rendezvous.classes == [], [finding.message for finding in eager.findings]
    assert eager.run.ends == ["finished"] * drawn.stages
    for rank in range(drawn.stages):
        for label in ("inputs", "sampled", "need"):
            assert eager.decided(label, rank) == rendezvous.decided(label, rank)
    if not pieces:
        every_request_has_its_tokens(drawn, eager.decided("sampled", drawn.stages - 1))
    return eager


def every_request_has_its_tokens(drawn: Drawn, sampled: list[Any]) -> None:
    """Asserts that every request that was not aborted got all its tokens, and that all tokens are the oracle's."""
    batches = {call.batch.number: call.batch for call in drawn.prepared().histories[0].calls if call.batch}
    got: dict[int, dict[int, int]] = {}
    for number, tokens, counts in sampled:
        for row, new, count in zip(batches[number].rows, tokens, counts, strict=True):
            first = row.position + (row.scheduled if row.prefilling else 1)
            got.setdefault(row.request, {}).update({first + place: new[place] for place in range(count)})
    for number, request in enumerate(drawn.requests):
        oracle, prompt = Oracle(number, request.prompt_tokens), request.prompt_tokens
        said = got.get(number, {})
        assert said == {position: oracle.token(position) for position in said}
        if request.abort_ns is None:
            assert set(range(prompt, prompt + request.output_tokens)) <= set(said)


def no_rank_polls(played: Played) -> None:
    """Asserts that no rank polls. The argument that two runs stand for all schedules depends on this."""
    records = [record for journal in played.run.journals for record in journal]
    assert not {record[KIND] for record in records} & {"take", "post", "sleep"}
    assert not [record for record in records if record[KIND] == "ask" and record[ASK_HOW] == "query"]


@examples(30, 40, 400)
def test_tokens_are_the_oracles(examples: int) -> None:
    """Tokens are the oracle's in random worlds. The test also counts what happens, so worlds are not trivial."""
    seen: Counter[str] = Counter()

    def property_(drawn: Drawn) -> None:
        played = all_is_well(drawn)
        no_rank_polls(played)
        seen.update(what_happens(played))

    holds(property_, drawn_worlds(), examples)
    happened = "preempted", "without tokens", "chunks", "drafts rejected", "several rows"
    for what in (*happened, "pp.some_excluded", "pp.all_excluded"):
        assert seen[what] >= 3, seen


def test_a_token_for_the_former_owner_of_a_slot_is_seen() -> None:
    breaks(lambda drawn: all_is_well(drawn, tokens=NoGeneration), drawn_worlds(stages=(2, 3)), "request")


def test_a_wrong_token_names_request_step_and_sender() -> None:
    """A finding names the request, the step, and the step whose tokens last arrived in the request's slot."""
    requests = [Request(0, 2, 5, abort_ns=STEP_NS), Request(0, 3, 3)]
    drawn = Drawn(2, requests, {"max_num_seqs": 1, "max_num_batched_tokens": 8})
    found = drawn.play(tokens=NoGeneration).findings[0]
    assert found.klass == "CRASH:WRONGLENGTH"
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.step) == (0, 4)
    assert "inputs of step 3 (compared in step 4), request 1," in text(found.message)
    assert re.search(r"last delivered to its slot: tokens.receive of step [01]$", text(found.message)), text(
        found.message
    )
    assert drawn.classes() == []


def what_happens(played: Played) -> Counter[str]:
    """Counts what happens in a world: preemptions, chunks, rejected drafts, and the probes of the first stage."""
    seen: Counter[str] = Counter()
    batches = [call.batch for call in played.prepared.histories[0].calls if call.batch]
    freed = Counter(request for batch in batches for request in batch.freed)
    seen["preempted"] += any(times > 1 for times in freed.values())
    seen["without tokens"] += any(not batch.rows for batch in batches)
    seen["chunks"] += any(not row.samples for batch in batches for row in batch.rows)
    seen["drafts rejected"] += any(
        row.computed > row.position for batch in batches for row in batch.rows if not row.prefilling
    )
    seen["several rows"] += any(len(batch.rows) > 1 for batch in batches)
    if played.world.size > 1:
        seen.update(record[SITE] for record in played.records(0, "probe"))
    return seen


# ---- two runs stand for all schedules


@pytest.mark.runs_once
@pytest.mark.parametrize("form", ["source-002", "0.14", "0.33"])
def test_dpor_proves_a_pipeline_in_one_schedule(form: str) -> None:
    """DPOR proves the world in one schedule, the one without eager sends, because no rank polls."""
    drawn = Drawn(2, [Request(0, 2, 2)], {"max_num_seqs": 1, "max_num_batched_tokens": 4}, form=form)
    subject = Subject(world(2), PipelineTokens(), drawn.prepared())
    told = holds_in_every_schedule(subject, strategy="dpor", schedules=1000)
    assert (told.verdict, told.exploration.runs) == ("proven", 1)


def test_a_pipeline_of_one_stage_is_proven_in_one_schedule() -> None:
    def proven(drawn: Drawn) -> None:
        told = holds_in_every_schedule(Subject(world(1), PipelineTokens(), drawn.prepared()))
        assert (told.verdict, told.exploration.runs) == ("proven", 1)

    holds(proven, drawn_worlds(stages=(1,)), examples=20)


# ---- the model


def test_stages_share_the_layers() -> None:
    for stages in range(1, LAYERS + 1):
        assert [layer for stage in range(stages) for layer in stage_layers(stage, stages)] == list(range(LAYERS))
        assert all(stage_layers(stage, stages) for stage in range(stages))


def test_drafts_are_right_about_half_of_the_time() -> None:
    """The oracle accepts each number of drafts often enough."""
    accepted = Counter(Oracle(request, 3).accepted(position, 3) for request in range(20) for position in range(3, 30))
    assert min(accepted[count] for count in range(4)) > 20, accepted


def test_a_history_does_not_depend_on_how_many_stages_compute_it() -> None:
    """The number of sampled tokens of each request does not depend on the number of stages."""

    def same(requests: list[Request]) -> None:
        ends = set()
        for stages in range(1, 5):
            history = History(requests, stages, EngineConfig(max_num_seqs=2, max_num_batched_tokens=8))
            made: Counter[int] = Counter()
            for call in history.calls:
                made.update(row.request for row in call.batch.rows if row.samples) if call.batch else None
            ends.add(tuple(sorted(made.items())))
        assert len(ends) == 1

    arrivals = st.integers(0, 3).map(lambda tick: tick * STEP_NS)
    request = st.tuples(arrivals, st.integers(1, 9), st.integers(1, 5)).map(lambda drawn: Request(*drawn))
    holds(same, st.lists(request, min_size=1, max_size=5), examples=50)


def test_kernels_are_the_same_on_torch() -> None:
    """All kernels of a step compute the same with numpy and with torch."""
    torch = pytest.importorskip("torch")

    def arrays(seed: int) -> dict[str, Any]:
        random = np.random.default_rng(seed)
        return {
            "ids": random.integers(0, 997, (3, 12)).astype(np.int32),
            "last": random.integers(0, 997, 3),
            "drafts": random.integers(0, 997, (3, 2)),
            "computed": random.integers(0, 6, 3).astype(np.int32),
            "settled": random.integers(0, 6, 3).astype(np.int32),
            "total": random.integers(6, 9, 3).astype(np.int32),
            "mapping": np.array([2, 0]),
            "arrived": np.array([2, -1]),
            "inputs": np.zeros((5, 5), np.int64),
            "hidden": np.zeros(5, np.int64),
            "residual": np.zeros(5, np.int64),
            "cache": random.integers(0, 997, (2, 3, 12)),
            "tokens": np.zeros((2, 3), np.int64),
            "sampled": np.zeros(2, np.int32),
            "rejected": np.zeros(2, np.int32),
            "counts": np.zeros((2, 2), np.int32),
            "rows": np.zeros((2, 2), np.int64),
        }

    spans = (Span(0, 2, True, False), Span(2, 3, False, True))

    def steps(on: dict[str, Any]) -> None:
        def do(kernel: Callable[..., None], names: str, *args: Any) -> None:
            kernel(*[on[name] for name in names.split()], *args)

        do(request_table.admit, "total computed settled ids", (1,), ((5, 6, 7),))
        do(request_table.propose, "last mapping drafts")
        do(request_table.prepare, "ids last drafts computed settled total mapping inputs", spans)
        do(kernels.embed, "inputs hidden residual")
        do(kernels.forward, "hidden residual inputs mapping cache hidden residual", (1, 2), spans)
        do(kernels.sample, "hidden residual inputs tokens sampled rejected", spans)
        do(kernels.stack, "sampled rejected counts")
        do(request_table.advance, "mapping computed", (2, 3))
        do(request_table.settle, "arrived computed settled")
        do(request_table.update, "tokens sampled rejected mapping last total ids computed settled", (0, 0))
        do(request_table.propose, "last mapping drafts")
        do(request_table.gather, "drafts mapping rows")
        do(request_table.store, "rows arrived drafts")

    counts = set()
    for seed in range(20):
        first, second = arrays(seed), {name: torch.from_numpy(array) for name, array in arrays(seed).items()}
        steps(first)
        steps(second)
        for name, array in first.items():
            assert (array == second[name].numpy()).all(), name
        counts.add(int(first["counts"][0, 1]))
    assert len(counts) > 1, "drafts were accepted and rejected"


def test_the_pipeline_is_a_program() -> None:
    assert issubclass(PipelineTokens, Program)
