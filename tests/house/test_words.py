"""The text of this repository keeps its budgets of odd words and long sentences, and each rule has its faulty twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.house.words import BUDGETS, MOST_WORDS, ODD, complaints, findings, main, read_budgets


def test_each_file_keeps_its_budget() -> None:
    found = complaints(ROOT)
    assert not found, "\n".join([f"{len(found)} files do not keep their budgets:", *found])


# ---- what is odd, and what is long

PHRASES = (
    *("nobody", "NOBODY", "whoever", "whomever", "for ever", "so many", "for want of"),
    *("is told", "ARE TOLD", "was not told", "been told", "is said", "are said"),
    *("comes to", "come to", "came to", "coming to", "of one's own", "of its own", "of their own", "of ours"),
)


def odd(text: str, file: str = "a.md") -> list[str]:
    return [str(finding) for finding in findings(file, text) if not finding.long]


@pytest.mark.parametrize("phrase", PHRASES)
def test_each_odd_phrase_is_found(phrase: str) -> None:
    [found] = odd(f"The router {phrase} this op.")
    assert found.startswith(f'a.md:1: "{phrase}": write ')


def test_each_entry_of_the_table_finds_one_of_the_phrases() -> None:
    found = {finding.partition("write ")[2] for phrase in PHRASES for finding in odd(phrase)}
    assert found == {*ODD.values()}


def test_healthy_text_has_no_finding() -> None:
    assert odd("The router told the engine. It comes too late, has its own stream, and waits forever.") == []
    assert odd("The function `nobody` calls not_nobody_else. The table is ours, and it says so: many rows.") == []
    assert odd("The label tells which messages are told apart.") == []


def test_a_phrase_may_have_a_line_break_within() -> None:
    assert odd("The rank waits.\nIt waits for\never here.\n") == [f'a.md:2: "{PHRASES[4]}": write without end']


def test_a_sentence_of_26_words_is_long() -> None:
    words = ["word"] * MOST_WORDS
    assert [*findings("a.md", f"{' '.join(words)}. {' '.join(words)}.")] == []
    [found] = findings("a.md", f"{' '.join(words)}.\n{' '.join(words)} more.")
    assert str(found) == 'a.md:2: 26 words, at most 25: "word word word word word word ..."'


def test_inline_code_and_a_placeholder_are_one_word() -> None:
    words = " ".join(["word"] * (MOST_WORDS - 1))
    assert [*findings("a.md", f"{words} `code of five words here`")] == []
    assert [*findings("a.py", f'f"{words} {{code + of + five + words + here}}"')] == []
    assert len([*findings("a.md", f"{words} two words")]) == 1
    assert len([*findings("a.py", f'print(f"{words} {{code}} more")')]) == 1


# ---- budgets

ODD_LINE = f"# {PHRASES[0]}\n"
LONG_LINE = f"# {'word ' * 26}.\n"
OLD, NEW, OTHER = "dpsim/old.py", "dpsim/new.py", "dpsim/other.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one file, whose budget is two odd words and a long sentence."""
    (tmp_path / "dpsim").mkdir()
    (tmp_path / "tests" / "house").mkdir(parents=True)
    (tmp_path / OLD).write_text(ODD_LINE * 2 + "x = 1\n" + LONG_LINE)
    assert main(["--begin"], tmp_path) == 0
    assert (tmp_path / BUDGETS).read_text() == f"{OLD} 2 1\n"
    return tmp_path


def test_a_tree_that_keeps_its_budgets(tree: Path) -> None:
    (tree / NEW).write_text("# New text is clean.\n")
    assert complaints(tree) == []


@pytest.mark.parametrize("more", [ODD_LINE, LONG_LINE])
def test_a_file_that_exceeds_its_budget(tree: Path, more: str) -> None:
    (tree / OLD).write_text((tree / OLD).read_text() + more)
    [complaint] = complaints(tree)
    assert complaint.startswith(f"{OLD}: has ")
    assert "its budget is 2 odd words and 1 long sentences" in complaint


def test_a_new_file_has_no_budget(tree: Path) -> None:
    (tree / NEW).write_text(ODD_LINE)
    [complaint] = complaints(tree)
    assert complaint.startswith(f"{NEW}: has 1 odd words and 0 long sentences, its budget is 0 odd words and 0 ")


@pytest.mark.parametrize(("text", "budgets"), [(ODD_LINE, {OLD: (1, 0)}), ("", {}), (None, {})])
def test_a_budget_that_is_too_high_has_to_be_lowered(
    tree: Path, text: str | None, budgets: dict[str, tuple[int, int]]
) -> None:
    (tree / OLD).unlink() if text is None else (tree / OLD).write_text(text)
    [complaint] = complaints(tree)
    assert complaint.startswith(f"{OLD}: {'is gone' if text is None else 'has'}")
    assert "`python -m tests.house.words --lower`" in complaint
    assert main(["--lower"], tree) == 0
    assert complaints(tree) == []
    assert read_budgets(tree) == budgets


def test_lower_raises_nothing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / OLD).write_text(ODD_LINE)
    (tree / NEW).write_text(ODD_LINE)
    assert main(["--lower"], tree) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{NEW}: has 1 odd words")
    assert read_budgets(tree) == {OLD: (2, 1)}


def test_a_budget_moves_with_its_file(tree: Path) -> None:
    (tree / OLD).rename(tree / NEW)
    assert len(complaints(tree)) == 2
    assert main(["--moved", OLD, NEW], tree) == 0
    assert complaints(tree) == []
    assert read_budgets(tree) == {NEW: (2, 1)}


def test_the_parts_of_a_file_share_its_budget(tree: Path) -> None:
    (tree / OLD).write_text(LONG_LINE)
    (tree / NEW).write_text(ODD_LINE)
    (tree / OTHER).write_text(ODD_LINE)
    assert main(["--moved", OLD, NEW, OTHER], tree) == 0
    assert complaints(tree) == []
    assert read_budgets(tree) == {OLD: (0, 1), NEW: (1, 0), OTHER: (1, 0)}


def test_two_files_that_become_one(tree: Path) -> None:
    (tree / OLD).rename(tree / NEW)
    (tree / OTHER).write_text(ODD_LINE)
    (tree / BUDGETS).write_text(f"{OLD} 2 1\n{OTHER} 1 0\n")
    (tree / OTHER).unlink()
    (tree / NEW).write_text((tree / NEW).read_text() + ODD_LINE)
    assert main(["--moved", OLD, NEW, "--moved", OTHER, NEW], tree) == 0
    assert read_budgets(tree) == {NEW: (3, 1)}


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({NEW: ODD_LINE * 3}, "have 3 odd words and 0 long sentences in total, their budgets are 2 odd words and 1 "),
        ({NEW: LONG_LINE, OTHER: LONG_LINE}, "have 0 odd words and 2 long sentences in total"),
        ({}, f"{NEW}: no file with text has this name"),
    ],
)
def test_a_move_raises_no_total(
    tree: Path, parts: dict[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / OLD).unlink()
    for name, text in parts.items():
        (tree / name).write_text(text)
    assert main(["--moved", OLD, *(parts or [NEW])], tree) == 1
    assert says in capsys.readouterr().out
    assert read_budgets(tree) == {OLD: (2, 1)}


def test_a_move_needs_a_new_path(tree: Path) -> None:
    with pytest.raises(SystemExit):
        main(["--moved", OLD], tree)


def test_budgets_begin_once(tree: Path) -> None:
    (tree / OLD).write_text(ODD_LINE * 9)
    assert main(["--begin"], tree) == 1
    assert read_budgets(tree) == {OLD: (2, 1)}


def test_it_prints_the_place_the_phrase_and_the_suggestion(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    (tree / NEW).write_text(f"x = 1\n{ODD_LINE}")
    (tree / "dpsim" / ".hidden").mkdir()
    (tree / "dpsim" / ".hidden" / "a.py").write_text(ODD_LINE)
    suggestion = next(iter(ODD.values()))
    assert main([NEW], tree) == 0
    assert capsys.readouterr().out == (
        f'{NEW}:2: "{PHRASES[0]}": write {suggestion}\n1 odd words and 0 long sentences\n'
    )
    for paths in ([], ["dpsim/"]):
        assert main(paths, tree) == 0
        assert capsys.readouterr().out.endswith("\n3 odd words and 1 long sentences\n")
