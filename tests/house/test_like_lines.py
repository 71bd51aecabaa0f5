"""Checks what `like_lines` counts and what it skips. The counts have no limits, so no test compares them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.like_lines import main, pairs

SIX = """
total = first + second
if total > limit:
    total = limit
for item in items:
    total += item.size
report(total)
"""


def counted(*files: str) -> list[tuple[int, str, str]]:
    found = pairs({f"{number}.py": source for number, source in enumerate(files)})
    return [(pair.lines, str(pair.one), str(pair.other)) for pair in found]


def test_six_like_lines_are_a_pair() -> None:
    assert counted(SIX, SIX) == [(6, "0.py:2-7", "1.py:2-7")]
    assert counted(f"a = 1\n{SIX}", f"b = 2\n{SIX}c = 3\n") == [(6, "0.py:3-8", "1.py:3-8")]


def test_five_are_none() -> None:
    assert counted(SIX, SIX.replace("report", "show")) == []


def test_names_and_numbers_have_to_be_equal() -> None:
    assert counted(SIX, SIX.replace("item", "part")) == []


def test_a_pair_reaches_as_far_as_the_lines_are_like() -> None:
    more = f"{SIX}again(total)\nover = True\n"
    assert counted(f"{more}a = 1\n", f"{more}b = 1\n") == [(8, "0.py:2-9", "1.py:2-9")]


def test_three_places_are_three_pairs_and_the_longest_is_first() -> None:
    more = f"{SIX}again(total)\n"
    assert counted(SIX, more, more) == [
        (7, "1.py:2-8", "2.py:2-8"),
        (6, "0.py:2-7", "1.py:2-7"),
        (6, "0.py:2-7", "2.py:2-7"),
    ]


def test_two_places_of_one_file_do_not_overlap() -> None:
    assert counted(f"{SIX}between = 1\n{SIX}") == [(6, "0.py:2-7", "0.py:10-15")]
    assert counted("again()\n" * 11) == []
    assert counted("again()\n" * 12) == [(6, "0.py:1-6", "0.py:7-12")]


def test_comments_docstrings_imports_and_blanks_are_skipped() -> None:
    """Blank lines, comments, docstrings, imports and punctuation do not count, and they do not interrupt a sequence of
    like lines.
    """
    said = '"""An essay."""\nimport os\nfrom os import (\n    path,\n)\n\n'
    spread = SIX.replace("    total = limit\n", "    # why\n\n    total  =  limit  # and how\n")
    assert counted(f"{said}{SIX}", f"{said}{spread}") == [(6, "0.py:8-13", "1.py:8-15")]
    assert counted(*[said + "call(\n    [\n        1,\n    ]\n)\n" + '"""more\nof\nit\n"""\n'] * 2) == []


def test_like_lines_prints_the_number_and_the_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("dpsim/a.py", "real/b.py", "real/.hidden/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SIX)
    main([])
    assert capsys.readouterr().out == (
        "1 pairs of places share 6 or more like lines, 6 in all\n   6  dpsim/a.py:2-7  real/b.py:2-7\n"
    )
    main(["real"])
    assert capsys.readouterr().out.startswith("0 pairs")
