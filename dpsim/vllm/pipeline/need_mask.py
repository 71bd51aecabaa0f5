"""Which rows of a batch need the token that they sample: two published rules (specification 6.4).

The sender and the receivers of the broadcast compute this separately, from the same batch. A row is a request's part of
a batch. A row that samples no token needs none: it is a chunk of a prompt, and more of the prompt follows. If a request
ends with its row, it needs no token either.

    needs_024   a decode also ends, by its computed count: an upper bound while the target model may reject drafts
    needs_033   a decode never counts as the end: only a prompt whose first token is its last ends here

    >>> decode = Row(request=0, computed=19, scheduled=3, prefill=12, limit=20, position=17)
    >>> needs_024(decode), needs_033(decode)  # example A-21: two drafts, and the request may live on
    (False, True)
    >>> needs_024(decode._replace(limit=None))
    True
"""

from __future__ import annotations

from dpsim.vllm.pipeline.batches import Row


def needs_024(row: Row) -> bool:
    """Source page 002, and 0.24."""
    return row.samples and not reaches(row.limit, max(row.computed, row.prefill) + 1)


def needs_033(row: Row) -> bool:
    """0.31 and 0.33."""
    return row.samples and not (row.prefilling and reaches(row.limit, row.prefill + 1))


def reaches(limit: int | None, tokens: int) -> bool:
    """Whether a request of this length ends. Without a limit the stage cannot know the end."""
    return limit is not None and tokens >= limit
