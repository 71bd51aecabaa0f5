"""Tests the result folders of failed tests. dpsim keeps the last ones, and `latest` is always valid. Processes that
write at the same time do not conflict.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from dpsim.campaign import pruning
from dpsim.campaign.pruning import KEPT, LATEST, REPORT, begin, publish


def fail(folder: Path, name: str, kept: int = KEPT) -> None:
    begin(folder / name)
    (folder / name / REPORT).write_text(name)
    publish(folder, name, kept)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != LATEST)


def aged(folder: Path, name: str, seconds: int) -> None:
    """Sets the time of the folder."""
    os.utime(folder / name, ns=(0, 10**18 + seconds * 10**9))


def test_pruning_keeps_the_newest_folders(tmp_path: Path) -> None:
    for number in range(5):
        fail(tmp_path, f"f{number}")
        aged(tmp_path, f"f{number}", number)
    fail(tmp_path, "f0", kept=3)  # this failure occurs again, so it is the newest
    assert names(tmp_path) == ["f0", "f3", "f4"]
    assert (tmp_path / LATEST / REPORT).read_text() == "f0"


def test_pruning_keeps_files_that_dpsim_did_not_write(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    fail(tmp_path, "one", kept=1)
    aged(tmp_path, "one", 0)
    fail(tmp_path, "two", kept=1)
    assert names(tmp_path) == ["mine", "notes.txt", "two"]


def test_pruning_never_deletes_the_folder_of_latest(tmp_path: Path) -> None:
    """The folder of `latest` stays, even if its time is wrong, and a killed process left a half-deleted folder."""
    for name in ("old", "new"):
        fail(tmp_path, name)
    (tmp_path / f"{pruning.GONE}1-x").mkdir()
    aged(tmp_path, "new", 0)
    aged(tmp_path, "old", 1)
    publish(tmp_path, "is not there", kept=1)
    assert names(tmp_path) == ["new", "old"]
    assert (tmp_path / LATEST / REPORT).is_file()


def test_a_folder_that_another_process_deletes_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.utime
    gone: list[Path] = []

    def utime(path: Path) -> None:
        if not gone:
            gone.append(path)
            path.rmdir()
        real(path)

    monkeypatch.setattr(os, "utime", utime)
    begin(tmp_path / "old")
    assert (tmp_path / "old").is_dir()
    assert gone


def many(folder: Path, worker: int) -> int:
    """Writes failures in one process. Returns how often `latest` led to no folder."""
    astray = 0
    for number in range(30):
        fail(folder, f"{worker}-{number}", kept=4)
        astray += not (folder / LATEST / REPORT).is_file()
    return astray


def astray_of(folder: Path) -> int:
    with ProcessPoolExecutor(3, mp_context=get_context("fork")) as pool:
        return sum(pool.map(many, [folder] * 3, range(3)))


def test_several_processes_may_prune_at_the_same_time(tmp_path: Path) -> None:
    assert astray_of(tmp_path) == 0
    assert len(names(tmp_path)) == 4
    assert all((tmp_path / name / REPORT).is_file() for name in names(tmp_path))


def test_twin_pruning_deletes_the_folder_of_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "LATEST", "another")
    for name in ("one", "two"):
        fail(tmp_path, name)
    (tmp_path / LATEST).symlink_to("one")
    aged(tmp_path, "one", 0)
    publish(tmp_path, "two", kept=1)
    assert not (tmp_path / LATEST / REPORT).is_file()
