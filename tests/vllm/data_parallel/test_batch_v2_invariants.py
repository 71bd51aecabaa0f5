"""Tests of the invariants of specification 1.10 for the V2 runner's agreement, and of mutant M-DP-14.

For each invariant, an agreement that breaks it is the faulty twin. Release 0.33 itself breaks two invariants in split
steps: I-DP-3 and I-DP-7. Repaired agreements keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import CUDAGraphMode, EngineConfig
from dpsim.vllm.data_parallel.batch_v2 import (
    AgreementV2,
    LocalV2,
    SyncState,
)
from dpsim.vllm.data_parallel.microbatch import last_microbatch_empty
from dpsim.vllm.graphs.candidates import BatchDescriptor, CandidateTable
from dpsim.vllm.museum.batch_v2 import EagerStays, NoneEmpty
from dpsim_engine.v2 import Group
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.v2_groups import (
    SMALL,
    SPLIT,
    IdleOptsOut,
    Kind,
    LargestMode,
    OwnCountsInTheRecord,
    OwnRequestsInTheRecord,
    OwnThreshold,
    PadsEager,
    ReusesAnything,
    ReusesOwnRequests,
    decodes,
)
from tests.vllm.graphs.queries import FULL, NONE, batches

# ---- invariants: random groups


@st.composite
def groups(draw: st.DrawFn, most_parts: int = 2) -> Group:
    """Draws two to four ranks, mostly with one kind of batch: decodes, requests of one length, or mixed requests.

    Some ranks have to run eagerly.
    """
    q = draw(st.sampled_from([1, 1, 2, 3]))
    config = EngineConfig(
        cudagraph_mode=draw(st.sampled_from(CUDAGraphMode)),
        cudagraph_capture_sizes=tuple(draw(st.lists(st.integers(1, 24), min_size=1, max_size=5))),
        num_speculative_tokens=q - 1,
        max_num_seqs=draw(st.integers(1, 16)),
        ubatch_size=draw(st.sampled_from([1, *range(2, most_parts + 1)] * 2)),
        dbo_decode_token_threshold=most_parts,
        dbo_prefill_token_threshold=draw(st.integers(most_parts, 16)),
    )
    permit = draw(st.booleans())
    only_decodes, eager = draw(st.booleans()), draw(st.sampled_from([0, 0, 1]))
    ranks = []
    for _ in range(draw(st.integers(2, 4))):
        tokens = draw(batches(config)).tokens
        if only_decodes:
            tokens = [q] * len(tokens)
        uniform = tokens[0] if len(set(tokens)) == 1 else None
        ranks.append(
            LocalV2(
                sum(tokens),
                len(tokens),
                uniform,
                may_split=permit or draw(st.booleans()),
                may_skip_drafts=draw(st.booleans()),
                need_eager=bool(eager) and draw(st.booleans()),
            )
        )
    return Group(config, ranks)


@st.composite
def split_groups(draw: st.DrawFn) -> Group:
    """Draws ranks with decodes that all permit a split, and whose counts are near the edge of the last microbatch.

    Some ranks have to run eagerly.
    """
    parts, size = draw(st.integers(2, 3)), draw(st.integers(4, 24))
    config = EngineConfig(
        cudagraph_mode=draw(st.sampled_from([CUDAGraphMode.FULL, CUDAGraphMode.FULL_DECODE_ONLY])),
        cudagraph_capture_sizes=(size, 32),
        ubatch_size=parts,
        dbo_decode_token_threshold=parts,
        dbo_prefill_token_threshold=parts,
        max_num_seqs=32,
    )
    edge = size // parts * (parts - 1)
    counts = draw(st.lists(st.integers(max(edge - 2, 1), size), min_size=2, max_size=4))
    return Group(config, [decodes(count, need_eager=draw(st.integers(0, 5)) == 5) for count in counts])


Property = Callable[[Group, Kind], None]


def record(group: Group, kind: Kind) -> tuple[BatchDescriptor, SyncState]:
    """Returns the descriptor and the record that rank 0 decides."""
    chosen, state = group.decided(kind)[0]
    assert state is not None, "a batch without a token"
    return chosen, state


def one_plan(group: Group, kind: Kind) -> None:
    """All ranks decide the same record, mode and number of microbatches (invariant I-DP-1)."""
    decided = group.decided(kind)
    assert len({state for _, state in decided}) == 1, "I-DP-1: one record on all ranks"
    chosen, state = decided[0]
    assert state is not None
    kinds = {(one.mode, one.num_ubatches) for one, _ in decided}
    assert len(kinds) == 1, "I-DP-1: one mode and as many microbatches on all ranks"
    assert state.eager == (chosen.mode == NONE)


def smallest_mode(group: Group, kind: Kind) -> None:
    """The mode is at most the smallest mode that a rank sent (invariant I-DP-3).

    It may be lower, because the ranks look up the graph after they agreed.
    """
    chosen, _ = record(group, kind)
    agreement = group.agreement(AgreementV2)
    assert chosen.mode <= min(agreement.first_dispatch(rank).mode for rank in group.ranks), "I-DP-3: no higher mode"


def equal_counts(group: Group, kind: Kind) -> None:
    """Counts are equal in a graph and in a split step (I-DP-4); otherwise each rank keeps its own count (I-DP-5)."""
    chosen, state = record(group, kind)
    if chosen.mode != NONE or chosen.num_ubatches > 1:
        assert set(state.num_tokens) == {chosen.num_tokens}, "I-DP-4: equal counts in a graph or a split step"
    else:
        own = tuple(rank.num_tokens for rank in group.ranks)
        assert state.num_tokens == own, "I-DP-5: no padding across ranks"


def own_counts(group: Group, kind: Kind) -> None:
    """A rank runs the count in the agreed list, and it has room for all tokens and requests of the rank (I-DP-6)."""
    for index, (rank, (chosen, state)) in enumerate(zip(group.ranks, group.decided(kind), strict=True)):
        assert state is not None
        assert state.num_tokens[index] == chosen.num_tokens, "I-DP-6: a rank runs what the list says of it"
        assert chosen.num_tokens >= rank.num_tokens, "I-DP-6: and drops nothing"
        assert chosen.num_reqs is None or chosen.num_reqs >= rank.num_reqs, "I-CG-10: room for every request"
        assert chosen.uniform_token_count in (None, rank.uniform_token_count), "a decode graph for decodes only"


def full_last_microbatches(group: Group, kind: Kind) -> None:
    """With a graph, each rank has a token in its last microbatch (invariant I-DP-7).

    Without a graph, an empty microbatch may run as a dummy (specification 1.8).
    """
    chosen, _ = record(group, kind)
    if chosen.mode == FULL and chosen.num_ubatches > 1:
        for rank in group.ranks:
            empty = last_microbatch_empty(rank.num_tokens, chosen.num_tokens, chosen.num_ubatches)
            assert not empty, "I-DP-7: a replay over a last microbatch without a token"


def order_of_ranks(group: Group, kind: Kind) -> None:
    """Another order of the ranks changes only the order of the list (invariant I-DP-10)."""
    _, state = record(group, kind)
    _, turned = record(group._replace(ranks=group.ranks[1:] + group.ranks[:1]), kind)
    back = turned._replace(num_tokens=turned.num_tokens[-1:] + turned.num_tokens[:-1])
    assert back == state, "I-DP-10: permuting ranks permutes the list only"


def reuse(group: Group, kind: Kind) -> None:
    """Under the record of a step, each rank looks up another table of graphs, without a message (invariant I-DP-14)."""
    other = kind(group.config, CandidateTable(group.config, sizes=(8, 32)))
    found: list[tuple[BatchDescriptor, SyncState]] = []
    for index, (rank, (chosen, state)) in enumerate(zip(group.ranks, group.decided(kind), strict=True)):
        assert state is not None
        found.append(other.reuse(state, index, rank._replace(num_tokens=chosen.num_tokens)))
        again, later = found[-1]
        assert again.num_tokens == later.num_tokens[index], "I-DP-6 under a record"
        assert not state.eager or again.mode == NONE, "an eager agreement stays one"
    assert len({state for _, state in found}) == 1, "I-DP-14: one record afterwards"
    assert len({chosen[:2] for chosen, _ in found if not found[0][1].eager}) <= 1, "I-DP-14: one graph"


ALWAYS: list[Property] = [one_plan, equal_counts, own_counts, order_of_ranks, reuse]


@examples(33, 300, 3_000)
def test_the_invariants_of_the_v2_agreement_hold_for_random_groups(examples: int) -> None:
    """Invariants I-DP-1, 4, 5, 6, 10 and 14 hold for random groups; I-DP-3 holds for steps that are not split."""

    def all_of_them(group: Group) -> None:
        for property_ in ALWAYS:
            property_(group, AgreementV2)
        if record(group, AgreementV2)[0].num_ubatches == 1:
            smallest_mode(group, AgreementV2)

    holds(all_of_them, groups(most_parts=3), examples)
    holds(all_of_them, split_groups(), examples)


@pytest.mark.parametrize(
    ("property_", "wrong", "says"),
    [
        (one_plan, OwnThreshold, "I-DP-1"),
        (one_plan, IdleOptsOut, "I-DP-1"),
        (one_plan, OwnRequestsInTheRecord, "I-DP-1: one record"),
        (smallest_mode, LargestMode, "I-DP-3"),
        (equal_counts, OwnCountsInTheRecord, "I-DP-4"),
        (equal_counts, PadsEager, "I-DP-4|I-DP-5"),
        (own_counts, OwnCountsInTheRecord, "I-DP-6"),
        (order_of_ranks, OwnRequestsInTheRecord, "I-DP-10"),
        (reuse, ReusesOwnRequests, "I-DP-14"),
    ],
)
def test_a_wrong_agreement_is_found(property_: Property, wrong: Kind, says: str) -> None:
    breaks(lambda group: property_(group, wrong), groups(), says)


@examples(33, 250, 2_000)
@pytest.mark.parametrize(
    ("property_", "repaired", "says"),
    [(full_last_microbatches, NoneEmpty, "I-DP-7"), (smallest_mode, EagerStays, "I-DP-3")],
)
def test_the_release_breaks_two_of_them(property_: Property, repaired: Kind, says: str, examples: int) -> None:
    """Release 0.33 breaks I-DP-7 (M-UB-13) and I-DP-3 (specification 1.8) in split steps.

    Each invariant holds for the agreement in which one method is repaired.
    """
    breaks(lambda group: property_(group, AgreementV2), split_groups(), says)
    holds(lambda group: property_(group, repaired), split_groups(), examples)
    holds(lambda group: property_(group, repaired), groups(most_parts=3), examples)


def test_the_constant_is_wrong_for_three_microbatches() -> None:
    """Release 0.33 checks three microbatches wrongly, because it always compares with half (specification 3.4).

    Here 8 of 12 tokens are more than half, but three microbatches of 4 leave the last one empty.
    """
    config = SPLIT.model_copy(
        update={
            "cudagraph_capture_sizes": (12,),
            "enable_dbo": False,
            "ubatch_size": 3,
            "dbo_decode_token_threshold": 3,
        }
    )
    group = Group(config, [decodes(8), decodes(12)])
    assert record(group, AgreementV2)[0][:2] == (FULL, 12)
    breaks(lambda drawn: full_last_microbatches(drawn, AgreementV2), st.just(group), "I-DP-7")


# ---- records of other batches


def reused(kind: Kind, ranks: Sequence[LocalV2], state: SyncState) -> list[Any]:
    """Returns for each rank its tokens under a record, or the message of its error."""
    agreement, found = kind(SMALL, CandidateTable(SMALL)), list[Any]()
    for index, rank in enumerate(ranks):
        try:
            found.append(agreement.reuse(state, index, rank)[0].num_tokens)
        except AssertionError as error:
            found.append(str(error).splitlines()[0])  # pytest may add to it
    return found


def test_a_record_of_another_batch() -> None:
    """Under the record of another batch (mutant M-DP-14), a rank whose count differs raises.

    A rank whose count happens to match continues, and the others do not follow.
    """
    _, state = record(Group(SMALL, [decodes(3), decodes(4)]), AgreementV2)
    assert reused(AgreementV2, [decodes(4), decodes(4)], state) == [4, 4]
    one, other = reused(AgreementV2, [decodes(4), decodes(8)], state)
    assert (one, other) == (4, "a record of 4 tokens for rank 1, which has 8 (I-DP-14)")
    uniform = reused(AgreementV2, [decodes(4), LocalV2(4, 2, 2)], state)
    assert uniform == [4, "a record of 1 tokens a request, where there are 2"]


def test_an_unchecked_record_runs_the_wrong_graph() -> None:
    """Without the check of the record, eight tokens run in a graph of four, and no rank raises."""
    _, state = record(Group(SMALL, [decodes(3), decodes(4)]), AgreementV2)
    assert reused(ReusesAnything, [decodes(4), decodes(8)], state) == [4, 4]


def test_a_later_graph_pads_further() -> None:
    """A later table of graphs may only have larger sizes. Then the record contains the larger counts."""
    _, state = record(Group(SMALL, [decodes(3), decodes(4)]), AgreementV2)
    later = AgreementV2(SMALL, CandidateTable(SMALL, sizes=(6,)))
    chosen, rewritten = later.reuse(state, 0, decodes(4))
    assert (chosen.mode, chosen.num_tokens, rewritten.num_tokens) == (FULL, 6, (6, 6))
    assert rewritten._replace(num_tokens=state.num_tokens) == state
