"""Tests of the rows of a recorded scenario, each of which is one call.

The parser reads back each call that the writer wrote. If a row contains no valid call, the parser raises one error that
explains it.
"""

from __future__ import annotations

from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.contract.ops import DTYPES
from dpsim.recorded.rows import OPS, REDUCTIONS, TRANSFERS, CallRow, parsed

ROOTED = ("broadcast", "reduce", "gather", "scatter", *TRANSFERS)


@given(
    st.sampled_from((*OPS, *TRANSFERS)),
    st.text("".join((ascii_letters, digits, "_.[],()-")), min_size=1, max_size=20),
    st.integers(0, 10**9),
    st.sampled_from([*DTYPES]),
    st.sampled_from(("", *REDUCTIONS)),
    st.integers(0, 4095),
    st.booleans(),
    st.sampled_from(("", "train.py:42", "a/b_c.py:7")),
)
def test_a_row_is_read_as_it_was_written(
    op: str, group: str, elements: int, dtype: str, reduction: str, peer: int, is_open: bool, line: str
) -> None:
    row = CallRow(op, group, elements, dtype, reduction, peer if op in ROOTED else -1, is_open, line)
    assert parsed(str(row)) == row


def test_a_step_is_read() -> None:
    assert parsed("step 12") == CallRow("step", step=12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("all_reduce", "is no call"),
        ("allreduce world 4 float32", "operation 'allreduce' is unknown"),
        ("all_reduce world 4 float", "type 'float' is unknown"),
        ("broadcast world 4 float32", "expected a rank behind root"),
        ("all_reduce world 4 float32 root 1", "expected a rank behind root"),
    ],
)
def test_a_row_that_is_no_call_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parsed(text)
