"""Tests of journals in files: the reader gets what the writer wrote, whatever happens to the writer's process."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.contract.ops import RawRecord
from real import journal_file
from real.journal_file import HEAD, LENGTH, WINDOW, JournalFile, NoJournal
from real.journal_reader import journal_size, last_step, read_journal, read_timed_journal, step_set
from tests.records import raw
from tests.trace.runs import records as any_records

pytest.importorskip("msgspec")

VALUE = (False, (8, 8), None, 1.5, "FULL")
RECORD = raw("decision", "plan", step=4, ordinal=4, where="a.py:88", communicator="dp_cpu", value=VALUE)
LAUNCH = raw("launch", "fill", step=5, where="a.py:1", stream="main", reads=(), writes=((3, 0, 8),))


def decided(value: Any) -> RawRecord:
    return raw("decision", "plan", communicator="dp_cpu", value=value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def in_a_fork(act: Callable[[], object]) -> int:
    """Forks this process, and returns the id of the child, which only calls `act`."""
    process = os.fork()
    if not process:
        try:
            act()
        finally:
            os._exit(0)
    return process


def test_each_record_has_the_time_at_which_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that each record has one time of the clock, in the order of the records."""
    clock = iter(range(100, 200, 7))
    monkeypatch.setattr("time.monotonic_ns", lambda: next(clock))
    path = tmp_path / "journal"
    file = JournalFile(str(path))
    for record in (RECORD, LAUNCH, RECORD):
        file.write(record)
    assert read_timed_journal(path) == ([RECORD, LAUNCH, RECORD], [100, 107, 114])
    assert last_step(path) == RECORD[1]
    file.close()


def test_a_journal_is_read_as_it_was_written(path: Path) -> None:
    assert (read_journal(path), journal_size(path), last_step(path)) == ([], 0, None)
    file = JournalFile(str(path))
    assert (read_journal(path), journal_size(path), last_step(path)) == ([], 0, None)
    file.write(RECORD)
    size = journal_size(path)
    file.write(LAUNCH)
    assert read_journal(path) == [RECORD, LAUNCH]
    assert 0 < size < journal_size(path) < path.stat().st_size
    assert last_step(path) == 5
    file.close()
    assert read_journal(path) == [RECORD, LAUNCH]


def test_a_step_that_was_set_is_seen_before_any_op_of_it(path: Path) -> None:
    assert step_set(path) == -1
    file = JournalFile(str(path))
    file.write(RECORD)
    assert step_set(path) == -1
    for step in (5, 3, 1 << 70):
        os.waitpid(in_a_fork(lambda step=step: file.reach(step)), 0)  # type: ignore[misc]
        assert (step_set(path), last_step(path)) == (max(5, min(step, (1 << 63) - 1)), 4)


def test_a_file_that_has_only_been_made_is_an_empty_journal(path: Path) -> None:
    for content in (b"", bytes(WINDOW)):
        path.write_bytes(content)
        assert (read_journal(path), journal_size(path), last_step(path)) == ([], 0, None)


def test_a_record_that_was_cut_short_is_left_out(path: Path) -> None:
    """Writes bytes of a record without the committed length, as a writer leaves them that is killed in between. The
    reader ignores them.
    """
    file = JournalFile(str(path))
    file.write(RECORD)
    with path.open("r+b") as more:
        more.seek(HEAD + journal_size(path))
        more.write(b'["finished",9,"en')
    assert (read_journal(path), last_step(path)) == ([RECORD], 4)
    file.write(LAUNCH)
    assert (read_journal(path), last_step(path)) == ([RECORD, LAUNCH], 5)
    file.close()


def test_a_reader_ignores_a_length_without_its_record(path: Path) -> None:
    """Writes a committed length before its record, as a processor may show it that reorders stores. The reader returns
    no step, and raises no error.
    """
    file = JournalFile(str(path))
    file.write(RECORD)
    file.close()
    end = HEAD + journal_size(path)
    for tail in (bytes(60), bytes(56) + LENGTH.pack(50), bytes(56) + LENGTH.pack(1 << 31), b"\x2a" + LENGTH.pack(1)):
        with path.open("r+b") as more:
            more.write((end + len(tail)).to_bytes(8, "little"))
            more.seek(end)
            more.write(tail)
        assert last_step(path) is None


def test_records_continue_after_a_window(path: Path) -> None:
    """Writes records across the ends of windows, and a record that is longer than a window."""
    file = JournalFile(str(path))
    records = [decided("x" * size) for size in (40_000,) * 60 + (WINDOW - 100, 3 * WINDOW, 7, 0)]
    for record in records:
        file.write(record)
    assert read_journal(path) == records
    assert last_step(path) == 0
    file.close()


class Plan(NamedTuple):
    ranks: int
    mode: str


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda children: st.lists(children, max_size=3).map(tuple) | st.builds(Plan, st.integers(), st.text()),
    max_leaves=8,
)


def exact(value: Any) -> Any:
    """Returns a value with its types, because 1 == 1.0 == True. A named tuple becomes a plain one."""
    return [exact(item) for item in value] if isinstance(value, tuple) else (type(value), value)


@settings(max_examples=30)
@given(st.lists(plain, max_size=10), st.lists(any_records(), max_size=3))
def test_plain_data_are_read_as_they_were_written(values: list[Any], records: list[RawRecord]) -> None:
    """Writes records of all kinds with all fields, and plain data. MessagePack lacks some of them: large integers and
    halves of surrogate pairs. A tag is inside a record's references.
    """
    records = [*records, *(decided(value) for value in values)]
    records += [raw("launch", "fill", stream="main", reads=((3, 0, 8, value),), writes=()) for value in values]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        file = JournalFile(str(path))
        for record in records:
            file.write(record)
        file.close()
        assert exact(tuple(read_journal(path))) == exact(tuple(records))


@pytest.mark.parametrize("value", [{1}, b"x", frozenset(), object()])
def test_a_journal_refuses_values_that_are_no_plain_data(path: Path, value: Any) -> None:
    file = JournalFile(str(path))
    with pytest.raises(TypeError, match="is not JSON serializable"):
        file.write(decided(value))
    file.write(LAUNCH)
    assert read_journal(path) == [LAUNCH]
    file.close()


# ---- a full disk


def test_a_disk_without_room_for_a_window(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = JournalFile(str(path))
    file.write(LAUNCH)

    def full(file: int, first: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(journal_file, "take_room", full)
    with pytest.raises(NoJournal, match="the journal could not be written: no space left on device"):
        file.write(decided("x" * WINDOW))
    with pytest.raises(NoJournal, match="no space left"):
        file.write(LAUNCH)  # there would be room for this record
    assert file.failed == "the journal could not be written: no space left on device"
    assert read_journal(path) == [LAUNCH]
    file.close()
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    with pytest.raises(OSError, match="No space left"):
        JournalFile(str(path) + ".other")
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)


def test_nothing_is_written_to_a_journal_that_was_closed(path: Path) -> None:
    file = JournalFile(str(path))
    write = file.write
    file.close()
    with pytest.raises(NoJournal):
        write(decided("x" * WINDOW))


# ---- a writer that is stuck or dead


def test_a_journal_is_readable_while_its_writer_holds_pythons_lock(path: Path) -> None:
    heard, tell = os.pipe()

    def stuck() -> None:
        file = JournalFile(str(path))
        file.write(LAUNCH)
        os.write(tell, b"!")
        ctypes.PyDLL(None).pause()  # endless, in C; no other Python thread runs

    process = in_a_fork(stuck)
    try:
        assert os.read(heard, 1)
        assert (read_journal(path), last_step(path)) == ([LAUNCH], 5)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(heard)
        os.close(tell)


def test_no_record_is_lost_whose_write_returned(path: Path) -> None:
    """Kills a writer that writes as fast as it can. Shared memory counts the writes that returned, and none of them is
    lost.
    """
    shared = mmap.mmap(-1, 8)
    returned = memoryview(shared).cast("Q")

    def writes() -> None:
        file = JournalFile(str(path))
        while True:
            number = returned[0]
            file.write(raw("probe", "late", step=number // 10, ordinal=number, where="x" * (number % 200)))
            returned[0] = number + 1

    process = in_a_fork(writes)
    while returned[0] < 20_000:  # more than two windows; the test reads meanwhile
        step = last_step(path)
        assert step is None or step <= returned[0] // 10
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    found = read_journal(path)
    assert len(found) in (returned[0], returned[0] + 1)
    for number, record in enumerate(found):
        assert record == raw("probe", "late", step=number // 10, ordinal=number, where="x" * (number % 200))
    assert last_step(path) == (len(found) - 1) // 10


@pytest.mark.parametrize("whole", [False, True])
def test_a_reader_ignores_a_record_whose_writer_was_killed(
    path: Path, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills a writer after half of a record's bytes, or after all of them. The committed length comes last, so the
    reader ignores the record.
    """

    class Dies(mmap.mmap):
        def __setitem__(self, place: Any, data: Any) -> None:
            if b"finished" in data:
                end = place.stop if whole else (place.start + place.stop) // 2
                super().__setitem__(slice(place.start, end), data[: end - place.start])
                os.kill(os.getpid(), signal.SIGKILL)
            super().__setitem__(place, data)

    def writes() -> None:
        monkeypatch.setattr(mmap, "mmap", Dies)
        file = JournalFile(str(path))
        file.write(LAUNCH)
        file.write(raw("finished", "end"))

    _, status = os.waitpid(in_a_fork(writes), 0)
    assert status == signal.SIGKILL
    assert read_journal(path) == [LAUNCH]
