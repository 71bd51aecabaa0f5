"""One kind of question to vLLM: the two functions that answer it, and the comparison of their answers.

    kind = Comparison("need_mask", "need_mask", "vllm.v1....compute_need_sampled_mask", ours, answered, expected)
    for one in kind.of_release("0.33.0"):
        result = compare(kind, one, rows)
        result.equal, result.departed, result.differing    # numbers of rows

A row is a question with vLLM's answer (`answers/README.md`). A kind of question (`Comparison`) translates both
answers to vLLM's field names. For an exception, the comparison reads only its type and the point at which a function
raised it, not its message.

A row *departs* if it differs only in fields that `Ours.departures` lists with a reason. Every other difference is
reported. A test can replace dpsim's function by a faulty twin, and so prove that the comparison notices
a mistake:

    assert differing(kind, rows, ours) == [] and differing(kind, rows, faulty)
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from dpsim.contract import words
from dpsim.contract.words import BadInput
from dpsim.scenario.errors import shown
from dpsim.vllm.releases import Absent, Release, registered

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Row = dict[str, Any]

NUMBERS = ("group", "question", "configuration", "batch", "split", "history", "case", "drawn")
"""The fields that may number a row. Rows with one question for several releases have the same number."""

_ANSWERS = {"answer", "answers", "sent", "first_dispatch"}


@dataclass(frozen=True)
class Ours(Generic[T_co]):
    """A function of dpsim that answers as `release` does.

    `name`: the name of the form, if a release has two. `departures`: fields of an answer that differ on purpose, each
    with the reason.
    """

    release: str
    answers: T_co
    name: str = ""
    departures: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """File, line and name of dpsim's function or class. The file is relative to the folder that contains `dpsim`.

        >>> Ours("0.33.0", Difference).where.partition(":")[0], Ours("0.33.0", Difference).where.split()[-1]
        ('tools/engine/dpsim_engine/comparison.py', 'Difference')
        """
        piece: Any = self.answers[-1] if isinstance(self.answers, tuple) else self.answers
        piece = piece if inspect.isclass(piece) or inspect.isfunction(piece) else type(piece)
        file = Path(inspect.getsourcefile(piece) or "?")
        root = Path(words.__file__).parents[2]
        shown = file.relative_to(root) if file.is_relative_to(root) else file
        return f"{shown.as_posix()}:{inspect.getsourcelines(piece)[1]} {piece.__qualname__}"


def plain_question(row: Row) -> Row:
    """Returns a row without its answer."""
    return {name: value for name, value in row.items() if name not in _ANSWERS}


@dataclass(frozen=True)
class Comparison(Generic[T]):
    """A kind of question.

    `file`: the file of its stored answers. `asks`: vLLM's function. `ours`: dpsim's functions, sorted by release.
    `answered(row, ours)` and `expected(row)`: dpsim's and vLLM's answer, in the same words. `applies(row)`: whether the
    row contains a question of this kind. `question(row)`: a row without its answer. `last`: the last release that
    contains vLLM's function, "" if the newest one does. `piece`: the piece of a release record that answers, for
    releases of other packages.
    """

    name: str
    file: str
    asks: str
    ours: tuple[Ours[T], ...]
    answered: Callable[[Row, T], Any]
    expected: Callable[[Row], Any]
    applies: Callable[[Row], bool] = lambda row: True
    question: Callable[[Row], Row] = plain_question
    last: str = ""
    piece: Callable[[Release], T | Absent] | None = None

    def of_release(self, release: str) -> tuple[Ours[T], ...]:
        """Returns dpsim's functions for a release: those of the release itself, or of the newest release before it.

        The result is empty for releases before the oldest known one, and for those after `last`.
        """
        known = self.ours if self.piece is None else (*self.ours, *ours_of(self.piece, *registered()))
        before = [one.release for one in known if series(one.release) <= series(release)]
        if not before or (self.last and series(release) > series(self.last)):
            return ()
        nearest = max(before, key=numbers)
        return tuple(one for one in known if one.release == nearest)

    @property
    def known(self) -> str:
        """The releases that contain the function, in words."""
        return self.last if self.last == self.ours[0].release else f"{self.ours[0].release} to {self.last or 'now'}"


def ours_of(piece: Callable[[Release], T | Absent], *records: Release) -> tuple[Ours[T], ...]:
    """Returns the pieces of the given records that answer, without records that lack the piece."""
    found = ((record.version, piece(record)) for record in records)
    return tuple(Ours(version, one) for version, one in found if not isinstance(one, Absent))


class Difference(NamedTuple):
    """A row with two different answers. `fields`: the fields that differ."""

    row: str
    fields: tuple[str, ...]
    question: Row
    engine: Any
    dpsim: Any


class Compared(NamedTuple):
    """The result for the rows of one release and one function of dpsim.

    `reasons`: the reasons of the departures that occurred, by field.
    """

    kind: str
    asks: str
    release: str
    ours: str
    where: str
    rows: int
    departed: int
    reasons: dict[str, str]
    differing: int
    first: Difference | None

    @property
    def equal(self) -> int:
        return self.rows - self.departed - self.differing


class UnreadableRow(BadInput):
    """A row does not fit its kind. The message names the file and the row."""


def compare(kind: Comparison[T], ours: Ours[T], rows: Iterable[Row], release: str = "") -> Compared:
    """Compares the rows of one release with dpsim's answers. It skips rows with a question of another kind.

    Raises UnreadableRow for a row that lacks a field of this kind.
    """
    applicable = [row for row in rows if readable(kind, row, kind.applies)]
    found = [difference for row in applicable if (difference := difference_of(kind, ours, row)) is not None]
    real = [one for one in found if not set(one.fields) <= set(ours.departures)]
    departing = Counter(name for one in found if one not in real for name in one.fields)
    return Compared(
        kind.name,
        kind.asks,
        release or ours.release,
        ours.name or ours.release,
        ours.where,
        len(applicable),
        len(found) - len(real),
        {name: ours.departures[name] for name in sorted(departing)},
        len(real),
        real[0] if real else None,
    )


def differing(kind: Comparison[T], rows: Iterable[Row], answers: T) -> list[Difference]:
    """Returns the rows for which the function `answers` returns another answer. No departures are allowed."""
    ours = Ours("", answers)
    applicable = [row for row in rows if kind.applies(row)]
    assert applicable, f"no row asks {kind.name}"
    return [one for row in applicable if (one := difference_of(kind, ours, row)) is not None]


def difference_of(kind: Comparison[T], ours: Ours[T], row: Row) -> Difference | None:
    theirs = readable(kind, row, kind.expected)
    mine = readable(kind, row, lambda row: _answer(kind, ours, row))
    if theirs == mine:  # most rows; the next comparison takes longer
        return None
    theirs, mine = without_words(theirs), without_words(mine)
    if theirs == mine:
        return None
    fields = tuple(sorted(fields_that_differ(theirs, mine)))
    return Difference(row_name(row), fields, readable(kind, row, kind.question), theirs, mine)


def _answer(kind: Comparison[T], ours: Ours[T], row: Row) -> Any:
    """Returns dpsim's answer. An exception that the kind did not expect is an answer, too."""
    try:
        return kind.answered(row, ours.answers)
    except (AssertionError, ValueError) as error:
        return {"raises": type(error).__name__}


def readable(kind: Comparison[T], row: Row, read: Callable[[Row], Any]) -> Any:
    """Returns `read(row)`. Raises UnreadableRow if it fails, because a damaged row may lack anything at any depth."""
    try:
        return read(row)
    except MemoryError:
        raise
    except Exception as error:
        error_text = shown(f"{type(error).__name__}: {error}", 200)
        raise UnreadableRow(
            f"{kind.file}: {row_name(row)} is no question of the kind {kind.name} ({error_text})"
        ) from error


# ---- rows


def row_name(row: Row) -> str:
    """Returns the name and number of a row.

    >>> row_name({"version": "0.33.0", "group": 7})
    'group 7'
    """
    return next((f"{name} {shown(row[name])}" for name in NUMBERS if name in row), "a row without a number")


def without_words(answer: Any) -> Any:
    """Returns an answer whose exceptions have no messages, and whose tuples are lists.

    >>> without_words({"raises": "AssertionError", "message": "no graph", "when": "after the all-reduce"})
    {'raises': 'AssertionError', 'when': 'after the all-reduce'}
    """
    if isinstance(answer, dict):
        silent = "message" if "raises" in answer else None
        return {name: without_words(value) for name, value in answer.items() if name != silent}
    return [without_words(one) for one in answer] if isinstance(answer, list | tuple) else answer


def fields_that_differ(theirs: Any, ours: Any, name: str = "answer") -> set[str]:
    """Returns the innermost names under which two answers differ.

    >>> sorted(fields_that_differ({"a": 1, "b": [{"c": 2, "d": 3}]}, {"a": 0, "b": [{"c": 2, "d": 4}]}))
    ['a', 'd']
    """
    if theirs == ours:
        return set()
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        return set().union(*(fields_that_differ(theirs[inner], ours[inner], inner) for inner in theirs))
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return set().union(*(fields_that_differ(*both, name) for both in zip(theirs, ours, strict=True)))
    return {name}


def numbers(release: str) -> tuple[int, ...]:
    """Returns a release as numbers, which can be sorted.

    >>> numbers("0.33.0"), numbers("0.34.0rc1.dev7+g1a2b3c4")
    ((0, 33, 0), (0, 34, 0))
    """
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def series(release: str) -> tuple[int, ...]:
    """Returns a release without its patch number, because patches change no function signature.

    >>> series("0.33.2") == series("0.33")
    True
    """
    return numbers(release)[:2]
