"""One call of a recorded job as a line of text, a *row*.

    all_reduce default_pg 16 float32 sum @train.py:42
    broadcast tp 4 int64 root 1 @train.py:43
    send pp 64 bfloat16 to 2 @stage.py:12
    recv pp 64 bfloat16 from 0 open @stage.py:13
    step 3

The words are: operation, group, number of elements, element type, and then the reduction, the root or the peer. The
elements are those that the rank sends, or of a receive those that it gets. `open`: the job did not record the end of
the call, so the rank continues without it and awaits it after its last call. The source line in the job's program comes
last. A row `step 3` begins a step.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dpsim.contract.ops import DTYPES

OPS = (
    "all_reduce",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "barrier",
)
TRANSFERS = {"send": "to", "recv": "from"}
REDUCTIONS = ("sum", "avg", "prod", "min", "max", "band", "bor", "bxor")

_NAME = r"[\w.\[\],()-]{1,80}"
_ROW = re.compile(
    rf"(?P<op>\w+) (?P<group>{_NAME}) (?P<count>\d{{1,12}}) (?P<dtype>\w+)"
    rf"(?: (?P<reduction>{'|'.join(REDUCTIONS)}))?(?: (?:root|to|from) (?P<peer>\d{{1,6}}))?"
    r"(?P<open> open)?(?: @(?P<line>\S{1,200}))?"
)
_STEP = re.compile(r"step (?P<step>\d{1,6})")


class CallRow(NamedTuple):
    """One row. `peer`: root or peer, or -1. `is_open`: it has no recorded end. `step`: that it begins, or -1."""

    op: str
    group: str = ""
    elements: int = 0
    dtype: str = "int32"
    reduction: str = ""
    peer: int = -1
    is_open: bool = False
    line: str = ""
    step: int = -1

    def __str__(self) -> str:
        if self.step >= 0:
            return f"step {self.step}"
        words = [self.op, self.group, str(self.elements), self.dtype, self.reduction]
        if self.peer >= 0:
            words.append(f"{TRANSFERS.get(self.op, 'root')} {self.peer}")
        words += ["open" * self.is_open, f"@{self.line}" if self.line else ""]
        return " ".join(filter(None, words))


def parsed(text: str) -> CallRow:
    """Returns the row of a line of text. Raises ValueError, which says what was expected.

    >>> parsed("broadcast tp 4 int64 root 1 @train.py:43").peer
    1
    """
    step = _STEP.fullmatch(text.strip())
    if step:
        return CallRow("step", step=int(step["step"]))
    found = _ROW.fullmatch(text.strip())
    if found is None:
        example = "all_reduce default_pg 16 float32 sum @train.py:42"
        raise ValueError(f"{text.strip()[:80]!r} is no call; expected words as in {example!r}, or 'step 3'")
    op, peer = found["op"], int(found["peer"]) if found["peer"] else -1
    if op not in (*OPS, *TRANSFERS):
        raise ValueError(f"operation {op!r} is unknown; expected one of {', '.join((*OPS, *TRANSFERS))}")
    if found["dtype"] not in DTYPES:
        raise ValueError(f"type {found['dtype']!r} is unknown; expected one of {', '.join(DTYPES)}")
    if (op in TRANSFERS or op in ("broadcast", "reduce", "gather", "scatter")) != (peer >= 0):
        raise ValueError(f"{text.strip()[:80]!r}: expected a rank behind root, to or from, for calls that have one")
    words = found["group"], int(found["count"]), found["dtype"], found["reduction"] or "", peer
    return CallRow(op, *words, bool(found["open"]), found["line"] or "")
