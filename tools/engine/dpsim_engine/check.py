"""Compares all kinds of questions with stored answers, or with the answers of an installed vLLM.

    stored(place)                                  # all releases with stored answers
    live(place, "0.33.0", as_release="0.33.0")     # stored questions of the nearest release, and random ones

The check may be unable to put one kind of question to the installed release, such as `dispatch`. It then reports this
kind and continues with the others. For some kinds this is intended, for example if they have stored answers only. In
all other cases this is *trouble*: the model may differ from vLLM in this kind. With trouble, and without a difference
in the other kinds, the check returns "no verdict".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dpsim.contract.words import counted
from dpsim_engine.comparison import Compared, Comparison, Row, compare, numbers, series
from dpsim_engine.kinds import KINDS
from dpsim_engine.live.adapters import adapter, ask
from dpsim_engine.live.draws import drawn
from dpsim_engine.live.installed import NotAsked
from dpsim_engine.stored import answers, files_in

Verdict = Literal["equal", "different", "no verdict"]


class Unasked(NamedTuple):
    """A kind of question that the check did not compare, and the reason.

    `trouble`: whether the check should have been able to compare it.
    """

    kind: str
    release: str
    reason: str
    trouble: bool


class Checked(NamedTuple):
    """The result of a check.

    `release`: the installed release, "" for stored answers. `as_release`: the release as which the check treats it.
    """

    folder: Path
    release: str
    as_release: str
    compared: list[Compared]
    unasked: list[Unasked]

    @property
    def verdict(self) -> Verdict:
        if any(one.differing for one in self.compared):
            return "different"
        asked = any(one.rows for one in self.compared)
        return "equal" if asked and not any(one.trouble for one in self.unasked) else "no verdict"


Progress = Callable[[int, int | None], None]


def stored(place: Path, progress: Progress = lambda done, total: None) -> Checked:
    """Compares every stored answer in the folder `place`. Raises NoAnswers and UnreadableRow."""
    there = files_in(place)
    compared: list[Compared] = []
    unasked = [
        Unasked(file, "", "no kind of question has a file of this name", False)
        for file in there
        if file not in {kind.file for kind in KINDS}
    ]
    for number, kind in enumerate(KINDS):
        progress(number, len(KINDS))
        if kind.file not in there:
            unasked.append(Unasked(kind.name, "", f"{place} has no answers of the file {kind.file}", False))
            continue
        rows = answers(kind.file, place=place)
        for release in sorted({row["version"] for row in rows}, key=numbers):
            of_release = [row for row in rows if row["version"] == release]
            forms = kind.of_release(release)
            compared += [compare(kind, ours, of_release, release) for ours in forms]
            if not forms and (own := [row for row in of_release if kind.applies(row)]):
                left = f"{counted(len(own), 'row')} left out: dpsim knows this of releases {kind.known}"
                unasked.append(Unasked(kind.name, release, left, False))
    return Checked(place, "", "", compared, unasked)


def live(
    place: Path,
    release: str,
    as_release: str = "",
    draws: int = 0,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Checked:
    """Compares the answers of the installed release.

    `as_release` treats it as another release. `draws` is the number of random questions for each kind that has some,
    and `seed` selects them. Raises NoAnswers and UnreadableRow.
    """
    taken = as_release or release
    compared: list[Compared] = []
    unasked: list[Unasked] = []
    for number, kind in enumerate(KINDS):
        progress(number, len(KINDS))
        try:
            rows = _asked(kind, taken, [*_nearest(kind, taken, place), *drawn(kind.file, taken, draws, seed)])
        except NotAsked as error:
            unasked.append(Unasked(kind.name, release, str(error), not error.by_design))
            continue
        compared += [compare(kind, ours, rows, release) for ours in kind.of_release(taken)]
    return Checked(place, release, as_release, compared, unasked)


def _nearest(kind: Comparison[Any], release: str, place: Path) -> list[Row]:
    """Returns the stored questions of the newest release that is not newer than `release`, else of the oldest one."""
    rows = answers(kind.file, place=place) if kind.file in files_in(place) else []
    versions = sorted({row["version"] for row in rows}, key=numbers)
    before = [version for version in versions if series(version) <= series(release)]
    nearest = (before or versions)[-1 if before else 0] if versions else ""
    return [row for row in rows if row["version"] == nearest]


def _asked(kind: Comparison[Any], release: str, rows: list[Row]) -> list[Row]:
    by = adapter(kind, release)
    asked = [row for row in rows if kind.applies(row)]
    if not asked:
        raise NotAsked(f"there are no questions in a file {kind.file}", by_design=True)
    return [answered for row in asked if (answered := ask(kind, row, by)) is not None]
