"""Tests of the table of classes: each class has one row, all places that list classes read it, and checks report no
other classes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dpsim
from dpsim.checks import classes
from dpsim.checks.classes import CLASSES, HEADINGS, Class, class_and_detail, row_of
from dpsim.checks.finding import Finding, can_match, pattern_problem
from dpsim.checks.judge import CHECKS
from dpsim.cli import completers, show_text
from dpsim.cli.app import app
from dpsim.contract.world import Run
from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.dumps.text import as_text
from dpsim.diagnose.evidence import kind_words
from dpsim.diagnose.report import report

ROOM = Path(dpsim.__file__).parent
OF_CHECKS = Path(classes.__file__).parent
WRITERS = [*OF_CHECKS.rglob("*.py"), *(ROOM / "diagnose").rglob("*.py")]
MOST_IN_A_LIST = 10


def said(file: Path) -> Iterator[tuple[int, str]]:
    """Yields the line and text of each string in a file that looks like a class or its beginning. A computed part is a
    star.
    """
    tree = ast.parse(file.read_text())
    inside = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            text = node.value
        else:
            continue
        if re.fullmatch(r"[A-Z]+(:[A-Z0-9_*]+)+", text):
            yield node.lineno, text


def without_row(file: Path) -> list[str]:
    """Returns the strings of a file that look like a class of a finding, and that no row of the table covers."""
    return [f"{file.name}:{line}: {text}" for line, text in said(file) if pattern_problem(text) is not None]


def lists_of_classes(file: Path) -> list[int]:
    """Returns the lines of a file at which a literal contains more than a few classes."""
    text = file.read_text()
    if sum(name in text for name in CLASSES) <= MOST_IN_A_LIST:
        return []
    literals = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.Set)
    ]
    named = {
        node.lineno: {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and one.value in CLASSES}
        for node in literals
    }
    return [line for line, names in named.items() if len(names) > MOST_IN_A_LIST]


# ---- each class has a row


def test_checks_and_diagnose_name_only_classes_that_have_a_row() -> None:
    unknown = [one for file in WRITERS for one in without_row(file)]
    assert not unknown, "add a row for each of these classes to dpsim/checks/classes.py"


@pytest.mark.parametrize("klass", ['"HANG:NO_SUCH"', 'f"MISMATCH:GROUPS:{what}"', '"ODDITY:STEP"'])
def test_a_finding_whose_class_has_no_row_is_refused(tmp_path: Path, klass: str) -> None:
    """The faulty twin: a check whose class is not in the table."""
    file = tmp_path / "steps.py"
    file.write_text(f'def check(what):\n    return [Finding("steps", {klass}, "message", None, (0, 0))]\n')
    assert [one.partition(": ")[0] for one in without_row(file)] == ["steps.py:2"]


def test_every_class_of_the_table_is_found_by_a_check() -> None:
    found = [text for file in OF_CHECKS.rglob("*.py") if file.name != "classes.py" for _, text in said(file)]
    assert not {known for known in CLASSES if not any(can_match(known, text) for text in found)}


def test_each_check_lists_exactly_the_classes_that_its_source_names() -> None:
    parts = {
        "stale": ("stale", "stale_replay"),
        "ledger": ("ledger", "transfers", "made_groups"),
        "deadlock": (
            *("deadlock", "crossed_transfers", "first_use", "given_up", "limits"),
            *("mail", "recorded_again", "stores", "stream_flags", "thread_hangs"),
            "blame/root_classes",
        ),
    }
    for name, check in CHECKS.items():
        texts = {text for part in parts.get(name, (name,)) for _, text in said(OF_CHECKS / f"{part}.py")}
        found = {known for known in CLASSES if any(can_match(known, text) for text in texts)}
        assert set(check.classes) == found, name


# ---- a class is one row


def test_the_rows_differ_and_say_all() -> None:
    rows = classes._ROWS
    assert len({one.name for one in rows}) == len(rows)
    assert not [one.name for one in rows if not (one.words and one.cure) or one.meaning == one.words]
    assert {one.family for one in rows} >= {*HEADINGS}


def test_a_class_of_any_word_has_the_row_of_its_family() -> None:
    assert row_of("CRASH:KEYERROR") == CLASSES["CRASH:<EXCEPTION>"]
    assert row_of("DISAGREEMENT:MODE") == CLASSES["DISAGREEMENT:<LABEL>"]
    assert row_of("STRANGE") == Class("STRANGE", "", "")


def test_a_class_has_at_most_two_words_and_the_detail_is_the_third() -> None:
    """The full name is class and detail, joined by a colon. So a pattern of the class selects all its details."""
    parts = {name: class_and_detail(name) for name in CLASSES}
    assert {name: ":".join(filter(None, part)) for name, part in parts.items()} == {name: name for name in CLASSES}
    assert {klass.count(":") for klass, _ in parts.values()} == {1}
    assert class_and_detail("DISAGREEMENT:A:B") == ("DISAGREEMENT:A:B", ""), "a label may have colons"
    assert class_and_detail("HANG:FLAG:OF_TOMORROW") == ("HANG:FLAG", "OF_TOMORROW")


def test_no_other_file_lists_the_classes(tmp_path: Path) -> None:
    """The faulty twin is a second table, of words by class."""
    assert {file.name for file in ROOM.rglob("*.py") if lists_of_classes(file)} == {"classes.py"}
    second = tmp_path / "words.py"
    second.write_text(f"import re\n\nWORDS = {dict.fromkeys(CLASSES, 'what happened')}\n")
    assert lists_of_classes(second) == [3]


NEW = [
    Class("HANG:STORE:ZZ_NEW", "a rank waits for a store of tomorrow", "Wait until tomorrow."),
    Class("ZZ_STEP:BACKWARDS", "a rank went back to an earlier step", "Count steps in one place."),
]


def places(new: Class) -> dict[str, bool]:
    """Returns for each place that lists classes, or explains one, whether it has this class with its texts."""
    found = Finding("steps", new.name, "rank 1 went back", None, (0, 0))
    lines = report(Run("sim", [[]], ["finished"], [0], 0, ""), [found], full=True)
    dumped = Explanation("hang", new.name, None, "", (), (), (), "low", ())
    shown = CliRunner().invoke(app, ["show", new.name]).output
    return {
        "completion": new.name in [*completers.names(new.name)],
        "names of show": new.name in show_text.names(),
        "show": new.words in shown and new.cure in shown,
        "show as data": [(one["family"], one["meaning"], one["cure"]) for one in show_text.meanings(new.name)]
        == [(new.family, new.words, new.cure)],
        "patterns": pattern_problem(new.name) is None,
        "advice for a pattern": new.name in str(pattern_problem("QQQ")),
        "first line": lines.startswith(
            f"VIOLATED  {class_and_detail(new.name)[0]}  {kind_words(new.name)}: {new.words}\n"
        ),
        "usual fix": new.cure in lines,
        "first line of dumps": new.words in as_text(dumped).splitlines()[0],
    }


@pytest.mark.parametrize("new", NEW, ids=lambda one: one.name)
def test_the_axis_of_growth_is_a_row(monkeypatch: pytest.MonkeyPatch, new: Class) -> None:
    """A row more, and each place has the class. Without the row, none has it. tests/vllm/reference has the page."""
    assert [place for place, has in places(new).items() if has] == []
    monkeypatch.setitem(CLASSES, new.name, new)
    assert [place for place, has in places(new).items() if not has] == []


def test_a_row_more_of_a_family_belongs_to_the_check_of_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLASSES, NEW[0].name, NEW[0])
    assert [name for name, check in CHECKS.items() if NEW[0].name in check.classes] == ["deadlock"]
