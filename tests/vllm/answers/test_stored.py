"""Tests where dpsim looks for stored answers, and its message on a folder or file that it cannot use."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from dpsim_engine import stored
from dpsim_engine.stored import OWN, VARIABLE, NoAnswers, answers, folder


@pytest.fixture
def named(tmp_path: Path) -> Path:
    place = tmp_path / "named"
    place.mkdir()
    with gzip.open(place / "decide.jsonl.gz", "wt") as out:
        out.write('{"version": "0.33.0", "group": 1}\n{"version": "0.17.0", "group": 1}\n')
    return place


def test_the_folder_of_answers_comes_from_the_variable_or_the_package(
    named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert folder() == OWN
    monkeypatch.setenv(VARIABLE, str(named))
    assert folder() == named
    assert [row["version"] for row in answers("decide")] == ["0.33.0", "0.17.0"]
    assert answers("decide", "0.17.0") == [{"version": "0.17.0", "group": 1}]
    assert folder(OWN) != named


def test_folders_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(NoAnswers, match=r"holds no file \*\.jsonl\.gz .* \(named by --answers\)"):
        folder(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(NoAnswers, match=r"nowhere: is no folder .* \(named by DPSIM_ENGINE_ANSWERS\)"):
        folder()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"plain text", "line 1 cannot be read: Not a gzipped file"),
        (gzip.compress(b'{"version": "1.0"}\n{"vers'), "line 2 cannot be read: "),
        (gzip.compress(b"[]\n"), "line 1 cannot be read: expected a JSON object with a version"),
        (gzip.compress(b'{"version": 1}\n'), "expected a JSON object with a version"),
        (gzip.compress(b'{"version": "1.0"}\n')[:-9], "cannot be read: "),
        (gzip.compress(b'{"version": "new"}\n'), "line 1 cannot be read: the version 'new' is no release"),
        (gzip.compress(b"")[:10] + b"\xff" * 20, "line 1 cannot be read: Error -3"),
        (gzip.compress(b'{"version": "1.0", "a": [{"b": 1e9}]}\n'), "the number .* expected none beyond 100,000"),
        (gzip.compress(b""), r"decide.jsonl.gz: 0 rows; expected at least one"),
    ],
    ids=[
        "no gzip",
        "cut off in a line",
        "no object",
        "no version",
        "cut off",
        "no release",
        "no deflate",
        "huge",
        "no rows",
    ],
)
def test_files_that_cannot_be_read(named: Path, content: bytes, said: str) -> None:
    (named / "decide.jsonl.gz").write_bytes(content)
    with pytest.raises(NoAnswers, match=said):
        answers("decide", place=named)


@pytest.mark.parametrize("number", ["100001", "-100000.5", "2.5e5", "1E+06", "-Infinity", "NaN"])
def test_a_huge_number_is_found_in_each_spelling(named: Path, number: str) -> None:
    (named / "decide.jsonl.gz").write_bytes(gzip.compress(f'{{"version": "1.0", "a": [100000, {number}]}}\n'.encode()))
    with pytest.raises(NoAnswers, match=r"the number .* expected none beyond 100,000"):
        answers("decide", place=named)


@pytest.mark.parametrize(("count", "complete"), [("2", True), ("1,500", False), ("1", False)])
def test_a_file_has_as_many_rows_as_the_readme_says(named: Path, count: str, complete: bool) -> None:
    """dpsim refuses a file with fewer rows than the README declares.

    Without this rule, the answers of a file that was cut between two rows would be reported as equal.
    """
    other = "| `other.jsonl.gz` | 7 | nothing |"
    (named / "README.md").write_text(
        f"| file | lines |\n| --- | ---: |\n{other}\n| `decide.jsonl.gz` | {count} | x |\n"
    )
    if complete:
        assert len(answers("decide", place=named)) == 2
        return
    with pytest.raises(NoAnswers, match=rf"2 rows; expected {count}, as .*README\.md says"):
        answers("decide", place=named)


@pytest.mark.parametrize("name", ["decide.jsonl.gz", "README.md"])
def test_a_pipe_is_not_waited_for(named: Path, name: str) -> None:
    """dpsim refuses a named pipe in place of a file, because opening a pipe would block until a process writes."""
    (named / name).unlink(missing_ok=True)
    os.mkfifo(named / name)
    with pytest.raises(NoAnswers, match=f"{name}: not a regular file; expected stored answers of the engine"):
        answers("decide", place=named)


def test_no_more_of_a_readme_is_read_than_one_has(named: Path) -> None:
    readme = named / "README.md"
    readme.write_text("| `decide.jsonl.gz` | 2 | x |\n")
    os.truncate(readme, 4 << 30)
    assert stored.rows_of(named / "decide.jsonl.gz") == 2
