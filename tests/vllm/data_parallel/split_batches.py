"""Random batches for tests that split a batch into microbatches."""

from __future__ import annotations

from hypothesis import strategies as st

from dpsim_engine.slices import Split


@st.composite
def splits(draw: st.DrawFn, last_empty: bool = True) -> Split:
    """Draws a batch of a few requests, with and without padding, and its number of microbatches.

    A request has one token or several. With `last_empty`, the last microbatch may consist of padding only.
    """
    counts = st.just(1) if draw(st.booleans()) else st.integers(1, 9)
    scheduled = draw(st.lists(counts, min_size=1, max_size=8))
    computed = [draw(st.integers(0, 9)) for _ in scheduled]
    parts = draw(st.integers(2, 4))
    if not last_empty:
        scheduled[0] += parts
    fewest = max(sum(scheduled), parts)
    drawn = Split(
        scheduled,
        computed,
        fewest + draw(st.integers(0, 12)),
        len(scheduled) + draw(st.integers(0, 4)),
        parts,
    )
    return drawn if last_empty or not drawn.last_empty else drawn._replace(num_tokens_padded=fewest)
