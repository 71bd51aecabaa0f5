"""Compares the need mask with stored answers of vLLM's own code, row by row, for two releases (specification 6.4).

The need mask selects the rows of a batch whose sampled token the other stages need. Faulty rules prove that the
comparison can fail.
"""

from __future__ import annotations

import pytest

from dpsim.vllm.pipeline.batches import Row
from dpsim.vllm.pipeline.need_mask import needs_024, needs_033
from dpsim_engine import comparison
from dpsim_engine.comparison import Difference
from dpsim_engine.need_mask import NEED_MASK, Rule
from dpsim_engine.stored import answers


def differing(version: str, rule: Rule) -> list[Difference]:
    return comparison.differing(NEED_MASK, answers("need_mask", version), rule)


@pytest.mark.parametrize(("version", "rule"), [("0.24.0", needs_024), ("0.33.0", needs_033)])
def test_the_mask_answers_every_stored_row_as_the_engine(version: str, rule: Rule) -> None:
    assert len(answers("need_mask", version)) == 500
    assert differing(version, rule) == []


def sampling_rows(row: Row) -> bool:
    """The faulty rule: every row that samples needs its token."""
    return row.samples


def one_token_more(row: Row) -> bool:
    """The faulty rule: a request ends one token later."""
    assert row.limit is not None
    return needs_024(row._replace(limit=row.limit + 1))


def decodes_alone(row: Row) -> bool:
    """The faulty rule: the row of a prompt never needs its token."""
    return needs_033(row) and not row.prefilling


@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        ("0.24.0", needs_033),
        ("0.24.0", one_token_more),
        ("0.24.0", sampling_rows),
        ("0.33.0", needs_024),
        ("0.33.0", decodes_alone),
        ("0.33.0", sampling_rows),
    ],
)
def test_another_rule_is_found(version: str, wrong: Rule) -> None:
    assert differing(version, wrong)


def test_without_a_limit_only_chunks_need_no_token() -> None:
    """Source page 002 passes no `max_seq_len` if it has none; then every row that samples needs its token."""
    for row in (Row(0, 19, 3, 12, None, 17), Row(0, 0, 4, 9, None, 0), Row(0, 4, 5, 9, None, 4)):
        assert needs_024(row) == needs_033(row) == row.samples
    assert not needs_024(Row(0, 19, 3, 12, 20, 17))
