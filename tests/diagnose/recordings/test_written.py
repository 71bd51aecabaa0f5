"""Tests that `dpsim explain` reads all that the recorder writes: each kind of record, all fields, each end."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpsim.contract import recording as layout
from dpsim.contract.words import middle_cut
from dpsim.diagnose.dumps.entries import NOWHERE, CallPlace
from dpsim.diagnose.recordings.reading import ProcessRecording, RecordedIn, RingRecord, read_recording
from real.record.ring import RecordingFile
from tests.every_value import ANY_TEXTS, every

WORDS = ANY_TEXTS | st.just("é" * layout.LONGEST_WORD)
LINES = st.lists(st.tuples(WORDS, WORDS), max_size=3)
RANKS = st.lists(st.integers(0, 99), max_size=3).map(tuple) | st.just(tuple(range(3_000)))
GROUPS = every(RecordedIn, name=WORDS, description=WORDS, library=WORDS, ranks=RANKS, me=st.integers(0, 99))
BYTES_4, BYTES_8, SIGNED = st.integers(0, 2**32 - 1), st.integers(0, 2**63), st.integers(-(2**31), 2**31 - 1)
ENDS = st.sampled_from(["open", "end", "failed"])
PROCESS: dict[str, Any] = {"machine": "here", "begun_at": 7, "job": "one " * 1_000}

CALLS = st.fixed_dictionaries(
    {
        "kind": st.just(layout.CALL),
        "op": st.sampled_from(layout.OPS),
        **dict.fromkeys(("thread", "dtype", "reduction"), WORDS),
        "group": st.integers(0, 2),
        "place": LINES,
        "seq": BYTES_4,
        "peer": SIGNED,
        "input_size": BYTES_8,
        "output_size": BYTES_8,
    }
)
STEPS = st.fixed_dictionaries({"kind": st.just(layout.STEP), "thread": WORDS, "input_size": BYTES_8})
DECISIONS = st.fixed_dictionaries(
    {"kind": st.just(layout.DECISION), "thread": WORDS, "group": st.integers(0, 2), "place": LINES}
    | {"label": WORDS, "value": WORDS}
)


def word(text: str) -> str:
    """Returns a text as the reader gets it: in UTF-8, and not too long."""
    return text.encode(errors="replace")[: layout.LONGEST_WORD].decode(errors="replace")


def place(lines: list[tuple[str, str]]) -> CallPlace:
    chain = tuple((middle_cut(function, 60), middle_cut(line, 160)) for function, line in lines)
    return CallPlace(chain[0][1], chain) if chain else NOWHERE


def put(file: RecordingFile, groups: list[int], one: dict[str, Any], end: str) -> dict[str, Any]:
    """Writes a record as the recorder does. Returns its fields as the reader has to find them."""
    decides = one["kind"] == layout.DECISION
    group = groups[one["group"] % len(groups)] if "group" in one and groups else 0
    place_number = file.text(json.dumps(one["place"]), layout.PLACE) if "place" in one else 0
    words = [file.text(one.get(name, "")) for name in ("thread", "dtype", "reduction")]
    peer, size = (
        (file.text(one["label"]), file.text(one["value"]))
        if decides
        else (one.get("peer", 0), one.get("input_size", 0))
    )
    seq, output_size = one.get("seq", 0), one.get("output_size", 0)
    op = layout.OPS.index(one.get("op", ""))
    thread, dtype, reduction = words
    number = file.put(one["kind"], op, thread, dtype, reduction, group, place_number, seq, peer, size, output_size)
    if end != "open":
        getattr(file, end)(number)
    file.waits(number)
    texts = {name: word(one.get(name, "")) for name in ("thread", "dtype", "reduction", "label", "value")}
    numbers = {"number": number, "kind": one["kind"], "group": group, "seq": seq, "output_size": output_size}
    own = {"op": one.get("op", ""), "place": place(one.get("place", [])), "peer": peer, "input_size": size}
    return texts | numbers | own | {"end": end}


def found(one: RingRecord) -> dict[str, Any]:
    """Returns the fields of a record that was read, without times of the clock."""
    fields = one._asdict()
    assert fields.pop("start") > 0
    return fields | {"end": {0: "open", layout.RAISED: "failed"}.get(one.end, "end")}


def read_back(*given: Any) -> tuple[ProcessRecording, ProcessRecording, list[Any]]:
    """Writes a recording. Returns what the reader has to find, what it finds, and the written records."""
    groups, records, counts, missed, how, error = given
    with TemporaryDirectory() as folder:
        file = RecordingFile(Path(folder), 3, 8, slots=16)
        file.text(json.dumps(PROCESS), layout.PROCESS)
        numbers = [file.text(json.dumps(described(one)), layout.GROUP) for one in groups]
        written = [put(file, numbers, one, end) for one, end in records]
        for number, calls in zip(numbers, counts, strict=False):
            file.counted(number, calls)
        file.missed(missed)
        file.moved()
        file.ended(how, error)
        back = read_recording(file.path)
        alive, moved = (
            s.unpack_from(file.memory, at)[0]
            for s, at in ((layout.ALIVE, layout.ALIVE_AT), (layout.MOVED, layout.MOVED_AT))
        )
    counted = dict.fromkeys(numbers, 0) | dict(zip(numbers, counts, strict=False))
    known = {number: cut(one) for number, one in zip(numbers, groups, strict=True)}
    head = layout.HEAD.unpack_from(file.memory)
    expected = ProcessRecording(
        path=file.path, rank=3, size=8, pid=head[6], machine="here", begun_at=7, job=PROCESS["job"], began=head[7],
        alive=alive, moved=moved, main=head[8], end=how, error=word(error[:300]), missed=missed, dropped=0,
        waits=len(records), groups=known, counted=counted, records=back.records, wrapped=False,
    )  # fmt: skip
    return expected, back, written


def described(one: RecordedIn) -> dict[str, Any]:
    return {"name": one.name, "desc": one.description, "ranks": one.ranks, "library": one.library, "me": one.me}


def cut(one: RecordedIn) -> RecordedIn:
    texts: dict[str, Any] = {name: middle_cut(getattr(one, name), 80) for name in ("name", "description", "library")}
    return one._replace(**texts)


@settings(max_examples=25)
@given(
    st.tuples(
        st.lists(GROUPS, max_size=3),
        st.lists(st.tuples(CALLS | STEPS | DECISIONS, ENDS), max_size=5),
        st.lists(BYTES_8, max_size=3),
        BYTES_8,
        st.sampled_from(layout.ENDS),
        WORDS,
    )
)
@example(([RecordedIn("0", "default_pg", tuple(range(3_000)), "nccl", 0)], [], [], 0, "runs", ""))
@example(([], [({"kind": layout.CALL, "op": "barrier", "place": [("f", "x" * 900)] * 3}, "open")], [], 0, "runs", ""))
def test_a_recording_is_read_as_it_was_written(drawn: Any) -> None:
    expected, back, written = read_back(*drawn)
    assert back == expected
    assert [found(one) for one in back.records] == written


def test_a_full_table_loses_texts_and_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "TABLE_BYTES", 300)
    file = RecordingFile(tmp_path, 0, 2, slots=16)
    file.text(json.dumps({"machine": "here", "begun_at": 7}), layout.PROCESS)
    group = file.text(json.dumps(described(RecordedIn("0", "", tuple(range(99)), "gloo", 0))), layout.GROUP)
    call = {"kind": layout.CALL, "op": "barrier", "thread": "main", "place": [("f", "x" * 300)]}
    put(file, [group], call, "open")
    back = read_recording(file.path)
    assert (group, back.groups, back.dropped) == (0, {}, 2)
    assert [(one.op, one.thread, one.place) for one in back.records] == [("barrier", "main", NOWHERE)]
