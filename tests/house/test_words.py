"""Checks that the text of this repository has no odd words and no long sentences. For each rule, a test checks that a
text which breaks it is found.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.house.words import MOST_WORDS, ODD, all_findings, findings, main


def test_no_file_has_an_odd_word_or_a_long_sentence() -> None:
    found = all_findings(ROOT)
    assert not found, "\n".join([f"{len(found)} findings:", *map(str, found)])


# ---- what is odd, and what is long

PHRASES = (
    *("somebody", "anybody", "everybody", "who knows"),
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


def test_words_reads_short_messages_of_assert_and_names_of_tests() -> None:
    first, suggestion = next(iter(ODD.items()))
    expected = [f'a.py:1: "{first}": write {suggestion}']
    assert odd(f'assert x, "{first} yet"', "a.py") == odd(f"def test_{first}_waits() -> None: ...", "a.py") == expected
    assert odd(f"def {first}_waits() -> None: ...\nassert {first}(x)", "a.py") == []


def test_a_phrase_may_have_a_line_break_within() -> None:
    assert odd("The rank waits.\nIt waits for\never here.\n") == [f'a.md:2: "{PHRASES[8]}": write without end']


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


def test_words_prints_the_place_the_phrase_and_the_suggestion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = next(iter(ODD))
    (tmp_path / "dpsim" / ".hidden").mkdir(parents=True)
    for name in ("new.py", ".hidden/a.py"):
        (tmp_path / "dpsim" / name).write_text(f"x = 1\n# {first}\n")
    (tmp_path / "README.md").write_text(f"{'word ' * 26}.\n")
    place = f'dpsim/new.py:2: "{first}": write {ODD[first]}\n'
    assert main(["dpsim/new.py"], tmp_path) == 0
    assert capsys.readouterr().out == f"{place}1 odd words and 0 long sentences\n"
    assert main(["dpsim/"], tmp_path) == 0
    assert capsys.readouterr().out == f"{place}1 odd words and 0 long sentences\n"
    (tmp_path / "tools/engine/dpsim_engine").mkdir(parents=True)
    (tmp_path / "tools/engine/pyproject.toml").write_text(f"# {first}\n")
    (tmp_path / "tools/engine/dpsim_engine/new.py").write_text(f"# {first}\n")
    assert main(["tools"], tmp_path) == 0
    assert capsys.readouterr().out.endswith("\n2 odd words and 0 long sentences\n")
    assert main([], tmp_path) == 0
    assert capsys.readouterr().out.endswith("\n3 odd words and 1 long sentences\n")
