"""Tests of reading the recorder's files: complete ones, ones in use, half-written and damaged ones."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsim.cli.app import app
from dpsim.contract import recording as layout
from dpsim.contract.words import BadInput
from dpsim.diagnose.recordings.reading import RecordingError, read_recording
from tests.diagnose.recordings.made import MadeJob
from tests.explained import explain_recordings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    job = MadeJob(tmp_path, 2, slots=16)
    for _ in range(20):
        job.all("all_reduce")
    job.all("broadcast", peer=1)
    return job.gathered()


def a_file(folder: Path) -> Path:
    return next(iter(sorted(folder.glob("*.recording"))))


def changed(path: Path, at: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


def test_the_newest_records_are_kept_in_order(folder: Path) -> None:
    recording = read_recording(a_file(folder))
    assert [record.number for record in recording.records] == [*range(7, 22)]
    assert recording.wrapped
    last = recording.records[-1]
    assert (last.op, last.peer, last.dtype, last.input_size, last.place.line) == (
        "broadcast",
        1,
        "float32",
        16,
        "train.py:42",
    )
    assert last.end > 0


def test_a_slot_half_written_by_a_kill_is_left_out(folder: Path) -> None:
    """Reads a slot whose write a kill interrupted. The slot still has the number of its previous record."""
    path = a_file(folder)
    first = layout.HEADER_BYTES + layout.TABLE_BYTES
    at = first + 21 % 16 * layout.SLOT.size + layout.SLOT.size - 8
    changed(path, at, (5).to_bytes(8, "little"))
    recording = read_recording(path)
    assert [record.number for record in recording.records] == [*range(6, 21)]


@pytest.mark.parametrize(
    ("at", "data", "said"),
    [
        (0, b"x", "does not begin as a recording"),
        (16, b"\7", "of version 7"),
        (24, b"\xff\xff", "which its header does not say"),
        (28, b"\xff\xff\xff\xff", "rank -1"),
        (layout.END_AT, b"\x09", "ended in way 9"),
        (layout.HEADER_BYTES, b"\xff\xff\xff", "goes beyond the table"),
    ],
)
def test_a_damaged_file_is_one_clear_error(folder: Path, at: int, data: bytes, said: str) -> None:
    path = a_file(folder)
    changed(path, at, data)
    with pytest.raises(RecordingError, match=said) as error:
        read_recording(path)
    assert path.name in str(error.value)


def test_a_file_that_was_cut_off(folder: Path) -> None:
    path = a_file(folder)
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(RecordingError, match="was it cut off"):
        read_recording(path)


def test_the_command_ends_with_2(folder: Path) -> None:
    changed(a_file(folder), 0, b"x")
    done = CliRunner().invoke(app, ["explain", str(folder)])
    assert done.exit_code == 2
    assert "Traceback" not in done.output


@pytest.mark.parametrize("seed", range(60))
def test_random_damage_is_an_error_or_an_explanation(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    path = a_file(folder)
    whole = bytearray(path.read_bytes())
    used = layout.HEADER_BYTES + 1_000
    places = [*range(used), *range(layout.HEADER_BYTES + layout.TABLE_BYTES, len(whole))]
    for _ in range(draw.choice((1, 5, 50))):
        whole[draw.choice(places)] = draw.choice((0, 1, 255, draw.randrange(256)))
    path.write_bytes(whole)
    with contextlib.suppress(BadInput):
        explain_recordings(folder)
