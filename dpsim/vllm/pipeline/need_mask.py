"""The need mask: which rows of a batch need the token that they sample, in two published rules (specification 6.4).

Sender and receivers compute the mask separately, from the same batch. A row needs no token if it is a chunk of a prompt
or its request ends with this row. The two rules differ in the second case:

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
    """The rule of source page 002 and of release 0.24."""
    return row.samples and not reaches(row.limit, max(row.computed, row.prefill) + 1)


def needs_033(row: Row) -> bool:
    """The rule of releases 0.31 and 0.33."""
    return row.samples and not (row.prefilling and reaches(row.limit, row.prefill + 1))


def reaches(limit: int | None, tokens: int) -> bool:
    """Whether a request with this many tokens is at its end. With the limit None, it is not known to end."""
    return limit is not None and tokens >= limit
