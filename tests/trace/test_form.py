"""Tests of the canonical form of records: exact, with one way to write each record, and equal in every process."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpsim.contract.ops import DECISION_VALUE, RawRecord, as_record
from dpsim.trace import TraceError, digest
from dpsim.trace.form import LEFT_OUT, canonical, decode, encode
from tests.records import all_reduce, changed, raw
from tests.trace.runs import records

AGREE = all_reduce("dp.agree", "dp_cpu", 4, step=4, ordinal=4, where="a.py:1")
RAISED = raw("raised", "AssertionError", step=3, where="a.py:3", message="8 is not 16")
FINISHED = raw("finished", "end", step=7)


def decided(value: Any, site: str = "plan") -> RawRecord:
    return raw("decision", site, where="a.py:2", communicator="dp_cpu", value=value)


PLAN = decided((False, (8, 8), 2))


@given(records(), st.integers(0, 4095))
@example(decided((math.inf, -math.inf, -0.0, 0.1, 5e-324)), 0)
@example(decided("\udfff", site='\ud800\n"\\\0é'), 0)
def test_a_record_is_read_as_it_was_written(record: RawRecord, rank: int) -> None:
    line = encode(rank, record)
    back_rank, back = decode(line)
    assert (back_rank, back) == (rank, canonical(record))
    assert encode(rank, back) == line


@given(records())
def test_a_line_is_canonical_json_of_the_fields(record: RawRecord) -> None:
    row = as_record(record)._asdict() | {"rank": 3}
    row = {name: value for name, value in row.items() if name not in LEFT_OUT}
    if "infinity" in json.dumps(row).lower():
        return  # values that JSON does not have use a special form
    assert encode(3, record) == (json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n").encode()


def test_a_nan_is_read_as_a_nan() -> None:
    line = encode(0, decided((math.nan, 1)))
    _, back = decode(line)
    assert math.isnan(back[DECISION_VALUE][0])
    assert encode(0, back) == line


def test_types_of_values_are_distinguished() -> None:
    lines = {encode(0, decided(value)) for value in (1, True, 1.0, "1", (1,), None)}
    assert len(lines) == 6


def test_numpy_scalars_are_numbers() -> None:
    value = (np.int64(8), np.bool_(True), np.float32(0.5))
    assert encode(0, decided(value)) == encode(0, decided((8, True, 0.5)))


def test_places_messages_and_injections_do_not_count() -> None:
    base = digest([[AGREE, PLAN, RAISED]])
    moved = [changed(record, where="elsewhere.py:99") for record in (AGREE, PLAN, RAISED)]
    moved[2] = changed(moved[2], message="another text")
    injected = raw("injected", "dp.agree", step=4, ordinal=4, where="a.py:1", what="delay 5 ns")
    assert digest([[injected, *moved]]) == base


@pytest.mark.parametrize(
    "journals",
    [
        [[AGREE, PLAN], [FINISHED]],
        [[PLAN, AGREE], []],
        [[AGREE], [PLAN]],
        [[], [AGREE, PLAN]],
        [[changed(AGREE, count=9), PLAN], []],
    ],
)
def test_everything_else_counts(journals: list[list[RawRecord]]) -> None:
    assert digest(journals) != digest([[AGREE, PLAN], []])


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_the_digest_is_the_same_in_every_process(seed: str) -> None:
    program = f"from dpsim.trace import digest; print(digest({[[AGREE, PLAN], [RAISED]]!r}))"
    env = os.environ | {"PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest([[AGREE, PLAN], [RAISED]])


def test_the_digest_of_version_2_never_changes() -> None:
    assert digest([[AGREE, PLAN], [RAISED]]) == "95006abc0c87d15d0fdc17adc5af533bd5630cb8eabbb646cd136b6294d5df53"


@pytest.mark.parametrize(
    ("value", "said"),
    [({1, 2}, "not of set"), (b"x", "not of bytes"), (({},), "not of dict"), (np.zeros(3), "size 1")],
)
def test_a_decision_that_no_trace_can_hold(value: Any, said: str) -> None:
    with pytest.raises(TraceError, match=rf"rank 2, step 0, decision plan\[0\]: .*{said}"):
        digest([[], [], [decided(value)]])


LINE = encode(1, AGREE)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\n", "expected a JSON object, got an empty line"),
        (b"\xff\x00\n", r"got \\xff\\x00"),
        (b"[" * 100_000 + b"\n", "expected a JSON object"),
        (b"[1]\n", r"expected a JSON object, got \[1\]"),
        (LINE.replace(b"collective", b"collectiv"), "unknown record kind 'collectiv'; expected one of collective, "),
        (LINE.replace(b'"kind":"collective",', b""), "unknown record kind None"),
        (LINE.replace(b'"kind":"collective"', b'"kind":["x"]'), "unknown record kind"),
        (
            LINE.replace(b'"seq"', b'"sequence"'),
            "lacks seq and has unknown fields sequence; expected communicator, count",
        ),
        (LINE.replace(b'"count":8', b'"count":"8"'), "wrong value: .*collective dp.agree"),
        (LINE.replace(b'"count":8', b'"count":8.0'), "wrong value"),
        (LINE.replace(b'"count":8', b'"count":true'), "not in canonical form"),
        (LINE.replace(b'"count":8', b'"count":08'), "expected a JSON object"),
        (LINE.replace(b'"count":8', b'"count": 8'), 'not in canonical form: expected .*"count":8,'),
        (LINE.replace(b'"count":8', b'"count":8,"count":8'), "not in canonical form"),
        (LINE.replace(b"dp_cpu", b"\\u0064p_cpu"), "not in canonical form"),
        (LINE.replace(b'"dp_cpu"', b"null"), "wrong value"),
        (LINE.replace(b'"root":null', b'"root":"0"'), "wrong value"),
        (encode(0, PLAN).replace(b"[8,8]", b"{}"), "wrong value"),
        (encode(0, PLAN).replace(b"[8,8]", b"NaN"), "not in canonical form"),
    ],
)
def test_a_line_that_is_not_as_it_would_be_written(line: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode(line)


@given(st.binary(max_size=60) | st.integers(0, len(LINE) - 2).map(lambda cut: LINE[:cut] + LINE[cut + 1 :]))
def test_anything_else_is_refused(line: bytes) -> None:
    try:
        rank, raw = decode(line)
    except ValueError:
        return
    assert encode(rank, raw) == line
