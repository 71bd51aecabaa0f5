"""Tests of the V2 runner's agreement: the stored answers of vLLM, and examples A-15 to A-20 of the specification.

Mutant M-DP-13 is the faulty twin for release 0.17. The file test_batch_v2_invariants.py tests invariants, and
test_doubling.py tests mutant M-DP-12.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch_v2 import (
    AgreementV2,
    LocalV2,
    PaddingV2017,
)
from dpsim.vllm.graphs.candidates import BatchDescriptor, CandidateTable
from dpsim.vllm.museum.batch_v2 import EagerStays
from dpsim_engine import comparison
from dpsim_engine.comparison import Difference
from dpsim_engine.stored import answers
from dpsim_engine.v2 import V2_SYNC, Group
from tests.properties import breaks, holds
from tests.vllm.data_parallel.v2_groups import (
    SMALL,
    SPLIT,
    IdleOptsOut,
    KeepsEmpty,
    Kind,
    LargestMode,
    OwnCountsInTheRecord,
    OwnRequestsInTheRecord,
    OwnThreshold,
    PadsEager,
    decodes,
    prefill,
)
from tests.vllm.graphs.queries import FULL, NONE, PIECEWISE

# ---- the engine's answers


def differing(kind: Kind) -> list[Difference]:
    """Returns the stored groups in which an agreement sends or decides something else than vLLM."""
    return comparison.differing(V2_SYNC, answers("v2_sync", "0.33.0"), kind)


def test_every_group_of_the_engine() -> None:
    """The agreement decides every stored group of ranks as vLLM does."""
    assert differing(AgreementV2) == []


@pytest.mark.parametrize(
    "wrong",
    [
        LargestMode,
        OwnThreshold,
        IdleOptsOut,
        OwnRequestsInTheRecord,
        OwnCountsInTheRecord,
        PadsEager,
        KeepsEmpty,
        EagerStays,
    ],
)
def test_a_wrong_agreement_is_found_among_the_rows(wrong: Kind) -> None:
    assert differing(wrong)


class DecodesAlone(CandidateTable):
    """A graph gets a twin for microbatches only if each of its requests has as many tokens as a decode."""

    def twin(self, graph: BatchDescriptor, num_ubatches: int) -> BatchDescriptor | None:
        twin = super().twin(graph, num_ubatches)
        return twin if twin is not None and twin.uniform_token_count == self.q else None


class AnySize(CandidateTable):
    """A rank takes the smallest twin that fits, even if a smaller captured size would hold the tokens."""

    def split_graph(
        self, num_reqs: int, num_tokens: int, uniform_token_count: int | None, num_ubatches: int
    ) -> BatchDescriptor | None:
        twins = self.split_graphs(num_ubatches)
        return next((twin for twin in twins if twin.fits(num_reqs, num_tokens, uniform_token_count)), None)


def test_the_stored_rows_find_wrong_candidates() -> None:
    """The comparison with the stored rows fails for the candidates of `DecodesAlone` (5.5: microbatches in mode
    FULL).
    """

    def made(config: EngineConfig, graphs: CandidateTable) -> AgreementV2:
        graphs.__class__ = DecodesAlone
        return AgreementV2(config, graphs)

    assert differing(made)  # type: ignore[arg-type]


def test_a_rank_considers_only_the_twin_of_the_smallest_fitting_size() -> None:
    """A rank considers only the twin of the smallest captured size that holds its tokens (the two examples of 5.5).

    In the first one, that twin does not fit, so the ranks run eagerly. In the second one, requests of two tokens get a
    graph although a decode has four.
    """
    first = EngineConfig().model_copy(
        update={"cudagraph_mode": CUDAGraphMode.FULL, "num_speculative_tokens": 1, "max_num_seqs": 8}
        | {"enable_dbo": True, "dbo_decode_token_threshold": 2, "dbo_prefill_token_threshold": 2}
    )
    six = LocalV2(12, 6, 2, may_split=True)
    decided = Group(first, [six, six], (12, 16, 32, 192)).decided(AgreementV2)
    assert [(chosen.mode, chosen.num_tokens) for chosen, _ in decided] == [(NONE, 12)] * 2
    assert CandidateTable(first, (12, 16, 32, 192)).split_graph(6, 12, 2, 2) is None
    assert AnySize(first, (12, 16, 32, 192)).split_graph(6, 12, 2, 2) is not None
    second = first.model_copy(update={"num_speculative_tokens": 3, "max_num_seqs": 64})
    many = LocalV2(108, 54, 2, may_split=True)
    decided = Group(second, [many, many], (8, 20, 48, 80, 96, 128, 384)).decided(AgreementV2)
    assert [(chosen.mode, chosen.num_tokens) for chosen, _ in decided] == [(FULL, 128)] * 2


def test_the_rows_reach_what_they_are_for() -> None:
    """The stored groups contain each kind of case often enough, so that the comparison can fail."""
    seen: Counter[str] = Counter()
    for row in answers("v2_sync"):
        chosen = row["answers"][0]["desc"]
        seen[f"{chosen['cg_mode']} in {chosen['num_ubatches']}"] += 1
        seen["a rank without work"] += any(not rank["num_tokens"] for rank in row["ranks"])
        seen["forced eager"] += any(rank["need_eager"] for rank in row["ranks"])
        seen["drafts skipped"] += bool(row["answers"][0]["sync"] and row["answers"][0]["sync"]["skip_drafts"])
    assert set(seen) > {"NONE in 1", "PIECEWISE in 1", "FULL in 1", "NONE in 2", "FULL in 2"}
    assert min(seen.values()) > 25, seen


# ---- worked examples


def plan(*ranks: LocalV2, config: EngineConfig = SPLIT) -> tuple[RuntimeMode, int, list[int], tuple[int, ...]]:
    """Returns the mode, the number of microbatches, the tokens that each rank runs, and the agreed list of tokens."""
    decided = Group(config, list(ranks)).decided(AgreementV2)
    (kind,) = {(chosen.mode, chosen.num_ubatches) for chosen, _ in decided}
    (state,) = {state for _, state in decided}
    assert state is not None
    return *kind, [chosen.num_tokens for chosen, _ in decided], state.num_tokens


def test_ranks_agree_on_a_graph_without_microbatches() -> None:
    """Examples A-16 to A-18. In the last one, ranks of the V1 runner would agree on [4, 100]."""
    mixed = LocalV2(11, 2)
    assert plan(decodes(3), decodes(1), config=SMALL) == (FULL, 1, [4, 4], (4, 4))
    assert plan(decodes(3), mixed, config=SMALL) == (PIECEWISE, 1, [16, 16], (16, 16))
    assert plan(decodes(3), prefill(100), config=SMALL) == (NONE, 1, [3, 100], (3, 100))
    (chosen, _), _ = Group(SMALL, [decodes(3), decodes(1)]).decided(AgreementV2)
    assert chosen.num_reqs == 4


def test_ranks_agree_on_a_graph_with_microbatches() -> None:
    """Examples A-19 and A-20. With 64 and 128 tokens, rank 0 has no token in its second half (defect M-UB-13)."""
    assert plan(decodes(63), decodes(128)) == (NONE, 2, [128, 128], (128, 128))
    assert plan(decodes(64), decodes(128)) == (FULL, 2, [128, 128], (128, 128))
    assert plan(decodes(65), decodes(128)) == (FULL, 2, [128, 128], (128, 128))
    assert plan(prefill(600), prefill(1500)) == (NONE, 2, [1500, 1500], (1500, 1500))


def test_ranks_split_if_all_permit_it_and_have_enough() -> None:
    """A step is split if all ranks permit it and the smallest rank reaches the threshold (specification 3.4).

    The threshold for decodes counts only if all ranks have decodes.
    """
    assert plan(decodes(40), decodes(64)._replace(may_split=False))[:2] == (FULL, 1)
    assert plan(decodes(31), decodes(64))[:2] == (FULL, 1)
    assert plan(decodes(32), decodes(60))[:2] == (FULL, 2)
    assert plan(decodes(40), prefill(600))[:2] == (NONE, 1)
    assert plan(prefill(511), prefill(600))[:2] == (NONE, 1)
    assert plan(prefill(512), prefill(600))[:2] == (NONE, 2)


def test_a_rank_that_needs_to_run_eagerly() -> None:
    """If one rank has to run eagerly, all do. But in a split step, the rank gets a FULL graph (specification 1.8)."""
    needs = decodes(100, need_eager=True)
    one = SPLIT.model_copy(update={"enable_dbo": False})
    assert plan(needs, decodes(128)) == (FULL, 2, [128, 128], (128, 128))
    assert plan(needs, decodes(128), config=one) == (NONE, 1, [100, 128], (100, 128))


def test_ranks_without_work_skip_the_forward() -> None:
    """If no rank has tokens, every rank skips the forward, and there is no record."""
    idle = Group(SMALL, [LocalV2(0, 0), LocalV2(0, 0)])
    assert idle.decided(AgreementV2) == [((NONE, 0, 0, None, 1), None)] * 2


# ---- 0.17


class NoLeast(PaddingV2017):
    """Mutant M-DP-13: a rank without tokens counts as zero tokens, not as one."""

    def least(self) -> int:
        return 0


def padded(
    *ranks: tuple[int, int | None, RuntimeMode], rules: PaddingV2017 | None = None
) -> list[tuple[int, tuple[int, ...] | None, RuntimeMode]]:
    """Returns what each rank decides in release 0.17. A rank is its tokens, the tokens of its graph, and its mode."""
    rules = rules or PaddingV2017()
    table = np.array([rules.column(*rank) for rank in ranks], np.int32).T
    assert len(table) == rules.rows
    return [rules.decide(table, index) for index in range(len(ranks))]


def test_padding_of_0_17() -> None:
    """Example A-15: ranks of release 0.17 send graph sizes; a rank without tokens still runs one."""
    assert PaddingV2017().alone(5, 8, NONE) == (8, None, NONE)
    assert PaddingV2017().alone(5, None, NONE) == (5, None, NONE)
    assert padded((3, 4, FULL), (0, None, NONE)) == [(3, (3, 1), NONE), (1, (3, 1), NONE)]
    assert padded((0, None, NONE), (0, None, NONE)) == [(0, None, NONE)] * 2
    assert padded((3, 4, FULL), (7, 8, PIECEWISE)) == [(8, (8, 8), PIECEWISE)] * 2
    assert padded((3, 4, FULL), (9, None, FULL)) == [(3, (3, 9), NONE), (9, (3, 9), NONE)]


def test_every_rank_has_a_token() -> None:
    """In release 0.17, every rank brings at least one row to the experts' collectives; mutant M-DP-13 breaks this."""

    def some_rows(counts: list[int], rules: PaddingV2017) -> None:
        decided = padded(*[(count, None, NONE) for count in counts], rules=rules)
        assert all(count for count, _, _ in decided), "a rank without rows"

    counts = st.lists(st.integers(0, 5), min_size=2, max_size=4).filter(any)
    holds(lambda drawn: some_rows(drawn, PaddingV2017()), counts)
    breaks(lambda drawn: some_rows(drawn, NoLeast()), counts, "a rank without rows")
