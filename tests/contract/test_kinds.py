"""The table of kinds: each kind has a row, and readers ask its sets. The few readers with own sets or tables have
decided about each kind.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from dpsim.contract import kinds
from dpsim.contract.kinds import KINDS, Traits, learns
from dpsim.contract.ops import RECORDS

ROOT = Path(__file__).parents[2]
TABLE = "dpsim/contract/kinds.py"

OWN = {
    "dpsim/backend/journal/repetition.py": "what a loop may do without progress; docs/your-own-protocol.md lists it",
    "dpsim/campaign/swarm.py": "where faults are drawn: more places would change each drawn world",
    "dpsim/checks/agreed_result.py": "calls whose number depends on the schedule",
    "dpsim/checks/blame/steps.py": "what a list of a step's calls names",
    "dpsim/checks/limits.py": "calls that may wait for a slot of the device",
    "dpsim/checks/memory/own_order.py": "what touches no memory: any other kind ends the short proof",
    "dpsim/checks/received.py": "what ends a step, before the program sets the next one",
    "dpsim/checks/thread_positions.py": "what takes no position in a step",
    "dpsim/checks/usual_step.py": "the calls of which each step of a program has the same number",
    "dpsim/diagnose/last_ops.py": "which ops a report shows",
    "dpsim/diagnose/pictures/journal_ops.py": "how an op is drawn",
    "dpsim/sim/hosts/recurrence.py": "what a run may do and still be in the same state again",
}
"""Files with an own set of kinds, each with the reason."""

DECIDED = """
    abort alloc ask capture collective decision ended finished flag flag_wait free fresh group injected kept launch
    learned look mark post probe raised read receive_any replay sleep store take thread transfer used wait watch
"""
"""The kinds about which the files of OWN, and those with a dictionary by kind, have decided."""

QUOTED = re.compile(r'"(\w+)"')


def literals(path: Path) -> Iterator[tuple[bool, int]]:
    """Yields the line of each literal of two or more kinds, and whether it is a dictionary by kind."""
    text = path.read_text()
    if len(RECORDS.keys() & {*QUOTED.findall(text)}) < 2:
        return
    nodes = [*ast.walk(ast.parse(text))]
    typed = {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)}
    for node in nodes:
        by_kind = isinstance(node, ast.Dict)
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", []) * (id(node) not in typed)
        values = {getattr(item, "value", None) if isinstance(item, ast.Constant) else None for item in items}
        if len(values) > 1 and values <= RECORDS.keys():
            yield by_kind, getattr(node, "lineno", 0)


@functools.cache
def readers(root: Path) -> dict[str, list[tuple[bool, int]]]:
    """Returns the literals of each file that has some, except for the table."""
    paths = sorted(path for folder in ("dpsim", "real") for path in (root / folder).rglob("*.py"))
    found = {path.relative_to(root).as_posix(): [*literals(path)] for path in paths}
    return {name: some for name, some in found.items() if some and name != TABLE}


def complaints(root: Path, names: Collection[str] = RECORDS.keys()) -> list[str]:
    """Returns a line for each literal set outside of the table, each needless reason, and each reader that has not
    decided about a kind.
    """
    sets = {name: [line for by_kind, line in some if not by_kind] for name, some in readers(root).items()}
    found = [
        f"{name}:{line}: a set of kinds; ask a set of {TABLE}"
        for name, lines in sets.items()
        for line in lines
        if name not in OWN
    ]
    found += [f"{name}: has no set of kinds; take it out of OWN" for name in OWN if not sets.get(name)]
    new = sorted({*names} - {*DECIDED.split()})
    return found + [f"{name}: decide about {', '.join(new)}" for name in sets if new]


def test_each_kind_has_a_row_and_each_reader_has_decided() -> None:
    assert KINDS.keys() == RECORDS.keys() == {*DECIDED.split()}
    assert complaints(ROOT) == []


def test_a_new_kind_names_the_readers_that_have_to_decide() -> None:
    found = complaints(ROOT, [*RECORDS, "reset"])
    assert {one.partition(":")[0] for one in found} > {*OWN}
    assert "dpsim/checks/happens_before/hosts.py: decide about reset" in found


def test_a_row_without_a_decision_is_an_error() -> None:
    fields = KINDS["launch"]._asdict()
    for name in fields:
        with pytest.raises(TypeError, match=name):
            Traits(**{field: value for field, value in fields.items() if field != name})


@pytest.mark.parametrize("text", ['A = frozenset({"take", "look"})', 'if kind in ("take", "look"): pass'])
def test_a_set_of_kinds_outside_of_the_table_is_found(tmp_path: Path, text: str) -> None:
    for name in ("dpsim/checks/one.py", TABLE, *OWN):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert complaints(tmp_path) == [f"dpsim/checks/one.py:1: a set of kinds; ask a set of {TABLE}"]
    readers.cache_clear()
    (tmp_path / "dpsim/checks/one.py").write_text('HOW = {"take": 1, "look": 2}\nOf: Literal["take", "look"]\n')
    (tmp_path / "dpsim/checks/limits.py").write_text('A = {"take"}\n')
    assert complaints(tmp_path) == ["dpsim/checks/limits.py: has no set of kinds; take it out of OWN"]


def test_no_two_sets_of_the_table_are_equal() -> None:
    """Two names for one set are one idea too many, unless the table separates them by another meaning."""
    sets = {name: value for name, value in vars(kinds).items() if isinstance(value, frozenset) and name.isupper()}
    assert all(value <= RECORDS.keys() for name, value in sets.items() if not name.startswith("_"))
    assert len({*sets.values()}) == len(sets)


def test_pictures_draw_each_kind_in_one_way() -> None:
    from dpsim.diagnose.pictures.journal_ops import INSTANT, ON_STREAMS, SILENT, WAITS

    drawn = [*SILENT, "learned", *kinds.MEETS, *ON_STREAMS, *INSTANT, *WAITS, "look"]
    assert sorted(drawn) == sorted(RECORDS)


HEAD = (0, "main", "site", 0, "p.py:1")


@pytest.mark.parametrize(
    ("raw", "awaited"),
    [
        (("read", *HEAD, "main", 4, "int32", ()), True),
        (("receive_any", *HEAD, "world", 0, 4, "int32"), True),
        (("collective", *HEAD, None, "world", 0, "barrier", 0, "int32", None, None, (), (), ()), True),
        (("collective", *HEAD, "main", "world", 0, "barrier", 0, "int32", None, None, (), (), ()), False),
        (("flag", *HEAD, "go", "wait"), True),
        (("flag", *HEAD, "go", "set"), False),
        (("thread", *HEAD, "more", "start"), False),
        (("store", *HEAD, 0, 7000, "add", "key", 1), True),
        (("store", *HEAD, 0, 7000, "close", "", None), False),
        (("launch", *HEAD, "main", (), ()), False),
    ],
)
def test_a_host_learns_from_the_calls_that_it_awaits(raw: tuple[object, ...], awaited: bool) -> None:
    assert learns(raw) is awaited
