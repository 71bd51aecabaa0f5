"""Tests of trace files: the reader reads what the writer writes, and rejects other content with its place."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.checks.judge import judge
from dpsim.contract.ops import KIND, RAISED_MESSAGE, SITE, WHERE, RawRecord
from dpsim.contract.times import ActorTimes
from dpsim.contract.world import Run
from dpsim.trace import Schedule, Trace, TraceError, check_writable, compare, digest, read_trace, write_trace
from dpsim.trace.form import canonical
from dpsim.trace.header import VERDICTS
from tests.contract.test_events import EVENTS
from tests.every_value import ANY_TEXTS, JSON, every
from tests.records import changed, raw
from tests.trace.runs import make_world, runs

Write = Callable[[Run], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(run: Run) -> Path:
        path, run = tmp_path / "trace.jsonl", replace(run, chains={}, steps_set=())
        write_trace(path, run, scenario={"name": "x", "list": [1]}, verdict="held", klass=None, versions={"dpsim": "1"})
        return path

    return write


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def written_form(run: Run) -> list[list[RawRecord]]:
    return [[canonical(one) for one in journal if one[KIND] != "injected"] for journal in run.journals]


# ---- what the writer writes


def test_a_trace_can_be_read(write: Write, hung: Run) -> None:
    trace = read_trace(write(hung))
    assert list(trace.journals()) == written_form(hung)
    header = trace.header
    assert (header.backend, header.verdict, header.klass, header.scenario["name"]) == ("sim", "held", None, "x")
    assert (header.ends, header.observed) == (("blocked",) * 3, "no rank can make progress")
    assert (list(header.waited_ns), header.elapsed_ns) == (hung.waited_ns, hung.elapsed_ns)
    assert header.versions.keys() == {"dpsim", "numpy", "simpy"}
    assert header.digest == digest(hung.journals)
    assert header.records == trace.counts.total() == sum(map(len, written_form(hung)))


def test_the_answer_of_writing_is_the_header(tmp_path: Path, healthy: Run) -> None:
    header = write_trace(tmp_path / "x", healthy, scenario={}, verdict="held", klass=None)
    assert read_trace(tmp_path / "x").header == header


def test_line_1_can_be_read_by_anything(write: Write, healthy: Run) -> None:
    row = json.loads(lines_of(write(healthy))[0])
    assert (row["format"], row["version"], row["class"]) == ("dpsim-trace", 3, None)
    assert row["scenario"] == {"name": "x", "list": [1]}


def test_places_and_messages_are_written_after_the_body(write: Write, crashed: Run) -> None:
    path = write(crashed)
    trace = read_trace(path)
    assert [json.loads(line)["section"] for line in lines_of(path)[-2:]] == ["places", "messages"]
    list(trace.journals())
    assert trace.place("collective", "dp.agree").startswith("tests/protocols.py:")
    assert trace.place("collective", "nowhere") == ""
    assert any("no batch is padded" in text for text in trace.messages.values())


def test_call_chains_are_written_after_places_and_messages(tmp_path: Path, crashed: Run) -> None:
    path = tmp_path / "x"
    write_trace(path, crashed, scenario={}, verdict="held", klass=None)
    trace = read_trace(path)
    assert [json.loads(line)["section"] for line in lines_of(path)[-4:]] == ["places", "messages", "chains", "steps"]
    place = trace.run().journals[0][-1][WHERE]
    assert trace.run().chains[place] == crashed.chains[place] != ()
    spoilt = path.read_bytes().replace(b'"chains":{"', b'"chains":{"x.py:1":[["f"]],"')
    path.write_bytes(spoilt)
    with pytest.raises(TraceError, match="the section 'chains' has a form that"):
        read_trace(path).check()


@pytest.mark.parametrize("which", ["healthy", "hung", "crashed"])
def test_checks_find_in_a_trace_what_they_found_in_the_run(which: str, write: Write, request: Any) -> None:
    run: Run = request.getfixturevalue(which)
    found = judge(make_world(), run)
    assert judge(make_world(), read_trace(write(run)).run()) == found
    assert bool(found) == (which != "healthy")


def test_the_same_run_makes_the_same_file(write: Write, healthy: Run, tmp_path: Path) -> None:
    first = write(healthy).read_bytes()
    assert write(healthy).read_bytes() == first


@settings(max_examples=25)
@given(
    runs(),
    st.dictionaries(ANY_TEXTS, JSON, max_size=3),
    st.sampled_from(VERDICTS),
    every(str | None),
    every(dict[str, str]),
    st.none() | st.builds(Schedule, ANY_TEXTS, st.lists(EVENTS.map(str), max_size=3).map(tuple)),
)
def test_a_run_is_read_as_it_was_written(
    run: Run,
    scenario: dict[str, Any],
    verdict: str,
    klass: str | None,
    versions: dict[str, str],
    schedule: Schedule | None,
) -> None:
    """Writes runs with any content of all fields but those in NOT_KEPT, and reads them."""
    with TemporaryDirectory() as folder:
        path, given = Path(folder) / "x", {"verdict": verdict, "klass": klass, "schedule": schedule}
        header = write_trace(path, run, scenario=scenario, versions=versions, **given)  # type: ignore[arg-type]
        trace = read_trace(path)
        trace.check()
        back = trace.run()
        assert compare(trace, Trace.of(run)) is None
    assert (trace.header, trace.schedule) == (header, schedule)
    assert (header.verdict, header.klass, header.scenario) == (verdict, klass, scenario)
    first = min((one.written[0] for one in run.times if one.written), default=0)
    assert back == replace(
        run,
        journals=read_form(run),
        versions=versions | run.versions,
        times=tuple(ActorTimes(tuple(at - first for at in one.written), shifted(one.over, first)) for one in run.times),
    )


def shifted(over: Mapping[int, int], by_ns: int) -> dict[int, int]:
    return {op: at - by_ns for op, at in over.items()}


def read_form(run: Run) -> list[list[RawRecord]]:
    """Returns the journals as a reader gets them. Each record has all places of its kind and site, and each exception
    the message of the last one.
    """
    places: dict[tuple[str, str], set[str]] = {}
    for one in chain.from_iterable(run.journals):
        places.setdefault((one[KIND], one[SITE]), set()).add(one[WHERE])
    found = written_form(run)
    for own, journal in zip(found, run.journals, strict=True):
        said = journal[-1][RAISED_MESSAGE] if journal and journal[-1][KIND] == "raised" else ""
        for at, one in enumerate(own):
            where = " or ".join(sorted(places[one[KIND], one[SITE]] - {""}))
            own[at] = changed(one, where=where, **({"message": said} if one[KIND] == "raised" else {}))
    return found


# ---- all or nothing


def test_an_existing_trace_is_replaced_and_has_the_usual_rights(write: Write, healthy: Run, hung: Run) -> None:
    path = write(healthy)
    path.chmod(0o600)
    write(hung)
    assert read_trace(path).header.digest == digest(hung.journals)
    reference = path.with_name("reference")
    reference.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(reference.stat().st_mode)


def test_a_link_stays_a_link(tmp_path: Path, write: Write, healthy: Run) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "trace.jsonl").symlink_to(tmp_path / "elsewhere" / "real.jsonl")
    assert write(healthy).is_symlink()
    read_trace(tmp_path / "elsewhere" / "real.jsonl")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_of_a_write_that_failed(
    error: BaseException, tmp_path: Path, write: Write, healthy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(type(error)):
        write(healthy)
    assert os.listdir(tmp_path) == []


def test_a_write_that_failed_leaves_the_old_trace(write: Write, healthy: Run) -> None:
    old = write(healthy).read_bytes()
    with pytest.raises(TraceError, match="not of set"):
        write(replace(healthy, journals=[[raw("decision", "plan", communicator="dp_cpu", value={1})], [], []]))
    assert write(healthy).read_bytes() == old


def test_check_writable_raises_for_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.jsonl")
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, code in (
        (tmp_path, errno.EISDIR),
        (tmp_path / "missing" / "x", errno.ENOENT),
        (tmp_path / "file" / "x", errno.ENOENT),
        (tmp_path / "loop", errno.ELOOP),
        (Path("/dev/null"), errno.EINVAL),
    ):
        with pytest.raises(OSError, match=str(path.parent)) as raised:
            check_writable(path)
        assert raised.value.errno == code
        assert raised.value.filename


# ---- what the reader rejects


def edit_header(lines: list[bytes], **changes: Any) -> list[bytes]:
    row = json.loads(lines[0]) | changes
    return [json.dumps({key: value for key, value in row.items() if value != "DROP"}).encode() + b"\n", *lines[1:]]


HEADERS = [
    ({"version": 1}, "this dpsim reads format 3. Record the run again: dpsim run SCENARIO --trace FILE"),
    ({"version": 2}, "a trace of format 2, which does not say how long a get waits for a message"),
    ({"version": 4}, "version 4 of the format is unknown; this dpsim reads version 3"),
    ({"format": "flight-recorder"}, 'expected a header with "format":"dpsim-trace"'),
    ({"digest": "DROP"}, "the header lacks digest; expected digest, records, backend"),
    ({"more": 1}, "the header has unknown more"),
    ({"digest": "12"}, 'digest: expected 64 hexadecimal digits, got "12"'),
    ({"records": -1}, "records: expected a number of lines"),
    ({"records": True}, "records: expected a number of lines"),
    ({"verdict": "fine"}, "verdict: expected held or violated"),
    ({"ends": []}, "ends: expected for each rank one of finished, blocked, raised, died"),
    ({"ends": ["asleep"] * 3}, "ends: expected for each rank"),
    ({"ends": [{}] * 3}, "ends: expected for each rank"),
    ({"verdict": []}, "verdict: expected"),
    ({"waited_ns": [1]}, "3 ends, but 1 waited_ns"),
    ({"elapsed_ns": 1.5}, "elapsed_ns: expected"),
    ({"versions": {"x": 1}}, "versions: expected"),
    ({"scenario": "agreed"}, "scenario: expected a scenario as an object"),
    ({"class": 5}, "class: expected the class of a finding, or null"),
]


@pytest.mark.parametrize(("changes", "said"), HEADERS, ids=[said[:30] for _, said in HEADERS])
def test_a_wrong_header(changes: dict[str, Any], said: str, write: Write, healthy: Run) -> None:
    path = write(healthy)
    path.write_bytes(b"".join(edit_header(lines_of(path), **changes)))
    with pytest.raises(TraceError) as raised:
        read_trace(path)
    assert str(raised.value).startswith(f"{path}:1: ")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"name: quickstart\n", "not a trace: expected .* got name: quickstart"),
        (b"\x7fELF\x00\x01", r"not a trace: .* got \\x7fELF"),
        (b'{"format":"dpsim-trace","vers', "cut off: the header has no end"),
        (b'{"format":"dpsim-trace",}\n', "the header is no JSON object"),
        (b'{"format":' + b"[" * 100_000 + b"\n", "the header is no JSON object"),
    ],
)
def test_another_kind_of_file(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said) as raised:
        read_trace(path)
    assert str(raised.value).startswith(f"{path}:1: ")


EDITS: list[tuple[str, Callable[[list[bytes]], object], str]] = [
    ("a line is gone", lambda lines: lines.pop(5), r":\d+: cut off: the header says \d+ records, but the body ends"),
    ("only the header", lambda lines: lines.__delitem__(slice(1, None)), ":2: cut off: .* the body ends after 0"),
    ("the end is gone", lambda lines: lines.__delitem__(slice(20, None)), ":21: cut off: .* the body ends after 19"),
    ("cut in a record", lambda lines: lines.__setitem__(slice(8, None), [lines[8][:30]]), ":9: cut off in the middle"),
    ("no places", lambda lines: lines.__delitem__(slice(-2, None)), r":\d+: cut off: expected the section 'places'"),
    ("no messages", lambda lines: lines.pop(), r":\d+: cut off: expected the section 'messages'"),
    ("cut in a section", lambda lines: lines.append(lines.pop()[:9]), "cut off: expected the section 'messages', got"),
    ("sections swapped", lambda lines: lines.append(lines.pop(-2)), 'expected {"section":"places"'),
    ("odd places", lambda lines: lines.__setitem__(-2, b'{"section":"places","places":[]}\n'), "a form that"),
    (
        "odd messages",
        lambda lines: lines.__setitem__(-1, b'{"section":"messages","messages":{"1":2}}\n'),
        "a form that",
    ),
    ("more lines", lambda lines: lines.append(b"{}\n"), "expected the end of the file, got {}"),
    ("a line twice", lambda lines: lines.insert(5, lines[5]), 'expected {"section":"places"'),
    ("two lines swapped", lambda lines: lines.insert(5, lines.pop(6)), "the body was changed after it was written"),
    (
        "another number",
        lambda lines: lines.__setitem__(1, lines[1].replace(b'"step":0', b'"step":7')),
        "the body was changed after it was written",
    ),
    (
        "another place",
        lambda lines: lines.__setitem__(3, lines[3].replace(b'"rank":0', b'"rank":2')),
        ":5: a record of rank 0 after",
    ),
    (
        "a rank too many",
        lambda lines: lines.__setitem__(1, lines[1].replace(b'"rank":0', b'"rank":9')),
        ":2: a record of rank 9",
    ),
    (
        "a negative rank",
        lambda lines: lines.__setitem__(1, lines[1].replace(b'"rank":0', b'"rank":-1')),
        ":2: a record of rank -1",
    ),
    (
        "unknown kind",
        lambda lines: lines.__setitem__(2, lines[2].replace(b"learned", b"learnt")),
        ":3: unknown record kind 'learnt'",
    ),
    ("spaces", lambda lines: lines.__setitem__(2, lines[2].replace(b",", b", ")), ":3: not in canonical form"),
    ("windows", lambda lines: lines.__setitem__(2, lines[2].replace(b"\n", b"\r\n")), ":3: not in canonical form"),
]


@pytest.mark.parametrize(("change", "said"), [edit[1:] for edit in EDITS], ids=[edit[0] for edit in EDITS])
def test_a_changed_file(change: Callable[[list[bytes]], object], said: str, write: Write, healthy: Run) -> None:
    path = write(healthy)
    lines = lines_of(path)
    change(lines)
    path.write_bytes(b"".join(lines))
    trace = read_trace(path)
    with pytest.raises(TraceError, match=said) as raised:
        list(trace.journals())
    assert str(raised.value).startswith(str(path))


def test_check_finds_a_change_by_the_digest_of_the_body(write: Write, healthy: Run) -> None:
    path = write(healthy)
    read_trace(path).check()
    path.write_bytes(path.read_bytes().replace(b'"outcome":1', b'"outcome":2', 1))
    with pytest.raises(TraceError, match="the body was changed"):
        read_trace(path).check()


def test_a_file_that_changes_while_it_is_read(write: Write, healthy: Run, hung: Run) -> None:
    trace = read_trace(write(healthy))
    write(hung)
    with pytest.raises(TraceError, match="the header was changed after the trace was opened"):
        list(trace.journals())


def test_a_trace_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "missing.jsonl")
