"""A second, deliberately naive implementation of the V1 data-parallel batch agreement.

It follows only chapters 1 and 3 of the specification, so that tests can compare it with dpsim's own implementation. It
imports nothing of dpsim and prefers loops to formulas. A number such as "1.5.4" means section 1.5, step 4, of the
specification. One call decides for the whole group, because every rank makes the same decision (invariant I-DP-1).
"""

from typing import NamedTuple


class RankInput(NamedTuple):
    """What one rank sends: its column of the reduced table (1.4). The SUM all-reduce only gathers the columns."""

    unpadded: int  # 1.3: u
    padded: int  # 1.3: p, at least u
    wants_microbatching: bool  # 1.5.1: the local wish w, see naive_wish
    wants_padding: bool  # 1.4: the row that only versions up to 0.14 send
    mode: int  # 1.3: m; 0 NONE, 1 PIECEWISE, 2 FULL


class Decision(NamedTuple):
    """The decision of every rank in the group (1.5.7)."""

    microbatched: bool
    tokens: tuple[int, ...] | None
    mode: int


def naive_wish(
    tokens: int,
    uniform: bool,
    allow: bool,
    use_microbatching: bool,
    decode_threshold: int,
    prefill_threshold: int,
) -> bool:
    """Returns whether one rank wishes to microbatch; `tokens` is its own unpadded count (1.5.1, 3.2)."""
    # 1.5.1: no wish if microbatching is not allowed in this call.
    if not allow:
        return False
    # 3.2: no wish if microbatching is not configured.
    if not use_microbatching:
        return False
    # 3.2: the decode threshold for a uniform batch, the prefill threshold for any other.
    if uniform:
        threshold = decode_threshold
    else:
        threshold = prefill_threshold
    # 3.2: "at least", not "greater than".
    return tokens >= threshold


def naive_last_microbatch_empty(smallest_unpadded: int, padded: int, microbatches: int) -> bool:
    """Returns whether the rank with the fewest real tokens has none in its last microbatch (1.5.4), by counting."""
    if microbatches < 1:
        raise ValueError("at least one microbatch is needed")
    # 1.5.4: every microbatch but the last has floor(p/U) tokens. Deal out one token to each microbatch while there are
    # enough for all of them. The last microbatch also gets the rest.
    size = 0
    left_over = padded
    while left_over >= microbatches:
        left_over = left_over - microbatches
        size = size + 1
    # 1.5.4: the last microbatch begins after U-1 others.
    start_of_last = 0
    for _ in range(microbatches - 1):
        start_of_last = start_of_last + size
    # Invariant I-DP-7: count the real tokens, numbered from 0, that lie in the last microbatch.
    real_tokens_in_last = 0
    for token in range(smallest_unpadded):
        if token >= start_of_last:
            real_tokens_in_last = real_tokens_in_last + 1
    return real_tokens_in_last == 0


def naive_source_000(ranks: list[RankInput], microbatches: int) -> Decision:
    """Returns the decision of source page 000 (`dp_utils.py`), which releases 0.17 to 0.33 use (1.5)."""
    _check_inputs(ranks)
    # 1.5.0, invariant I-DP-8: a single rank takes part in no collective and keeps its own mode.
    if len(ranks) == 1:
        return Decision(False, None, ranks[0].mode)
    # 1.5.1 and 1.5.2: each rank has sent its wish, and `ranks` is what the collective gathered.
    mode = _smallest_mode(ranks)
    # 1.5.4
    microbatched = _agreed_microbatching(ranks, microbatches)
    # 1.5.5: pad if a graph is used or if the step is microbatched.
    pad = False
    if mode != 0:
        pad = True
    if microbatched:
        pad = True
    # 1.5.6 and 1.5.7
    return Decision(microbatched, _tokens_after_padding(ranks, pad), mode)


def naive_0_14(ranks: list[RankInput], microbatches: int) -> Decision:
    """Returns the decision of releases up to 0.14 (1.5, "<=0.14 instead")."""
    _check_inputs(ranks)
    # 1.5.0, invariant I-DP-8: a single rank takes part in no collective and keeps its own mode.
    if len(ranks) == 1:
        return Decision(False, None, ranks[0].mode)
    # 1.5.4: the ranks decide about microbatching as in source page 000.
    microbatched = _agreed_microbatching(ranks, microbatches)
    # 1.5, "<=0.14 instead": pad if every rank wants padding ...
    pad = True
    for rank in ranks:
        if not rank.wants_padding:
            pad = False
    # ... and every rank asserts that all others sent the same wish ...
    for me in ranks:
        for other in ranks:
            assert other.wants_padding == me.wants_padding, "the ranks differ in whether they want padding"
    # ... and padding is forced if the step is microbatched.
    if microbatched:
        pad = True
    # 1.5.6
    tokens = _tokens_after_padding(ranks, pad)
    # 1.5, "<=0.14 instead": the smallest mode is taken last; padding does not depend on it.
    mode = _smallest_mode(ranks)
    # 1.5.7
    return Decision(microbatched, tokens, mode)


def _check_inputs(ranks: list[RankInput]) -> None:
    """Checks that the inputs obey section 1.3 of the specification."""
    assert len(ranks) >= 1, "no ranks"
    for rank in ranks:
        # 1.8: V1 has no rank without tokens; a dummy rank sends q tokens, or 1 in versions up to 0.17.
        assert rank.unpadded >= 1, "a rank without tokens"
        # 1.3: p must be at least u.
        assert rank.padded >= rank.unpadded, "fewer padded than unpadded tokens"
        # 1.3: the mode is NONE, PIECEWISE or FULL; compound modes never occur at run time (0, "Mode integers").
        assert rank.mode == 0 or rank.mode == 1 or rank.mode == 2, "not a mode"


def _smallest_mode(ranks: list[RankInput]) -> int:
    """Returns the smallest mode that a rank sent (1.5.3, invariant I-DP-3)."""
    smallest = ranks[0].mode
    for rank in ranks:
        if rank.mode < smallest:
            smallest = rank.mode
    return smallest


def _smallest_unpadded(ranks: list[RankInput]) -> int:
    """Returns umin, the smallest unpadded count (1.5)."""
    smallest = ranks[0].unpadded
    for rank in ranks:
        if rank.unpadded < smallest:
            smallest = rank.unpadded
    return smallest


def _largest_padded(ranks: list[RankInput]) -> int:
    """Returns pmax, the largest padded count (1.5)."""
    largest = ranks[0].padded
    for rank in ranks:
        if rank.padded > largest:
            largest = rank.padded
    return largest


def _agreed_microbatching(ranks: list[RankInput], microbatches: int) -> bool:
    """Returns whether the ranks split the step into microbatches (1.5.4)."""
    # 1.5.4: every rank must wish it, so one rank without the wish stops all (1.8).
    all_wish = True
    for rank in ranks:
        if not rank.wants_microbatching:
            all_wish = False
    if not all_wish:
        return False
    # 1.5.4, 1.8: the ranks do not split if one of them would have no real token in its last microbatch. They compute
    # this from umin and pmax, not from their own numbers. They use pmax although they decide about padding only
    # afterwards.
    last_empty = naive_last_microbatch_empty(_smallest_unpadded(ranks), _largest_padded(ranks), microbatches)
    return not last_empty


def _tokens_after_padding(ranks: list[RankInput], pad: bool) -> tuple[int, ...]:
    """Returns the tokens that each rank runs (1.5.6)."""
    tokens = []
    for rank in ranks:
        if pad:
            # Invariant I-DP-4: the same count for every rank, at least every p.
            tokens.append(_largest_padded(ranks))
        else:
            # Invariant I-DP-5: each rank's own padded count, not its unpadded one (1.8, "any rank NONE").
            tokens.append(rank.padded)
    return tuple(tokens)
