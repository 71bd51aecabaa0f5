"""docs/output.md explains each line and each noun that `run` and `explore` print, and the name of a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.cli.commands import dpsim_, write
from tests.cli.protocols import scenario

PAGE = (ROOT / "docs/output.md").read_text()
MODULE = ("--module", "tests.cli.protocols")
LINE = re.compile(r"^([a-z][a-z -]*?(?: \d+ [a-z]+)?)(?:  +|: )\S")
NOUN = re.compile(r"(?<=\d )(?:of them )?([a-z]+)")
OF_SCHEDULES = ("schedules", "schedule", "explored")
"""Lines that count the parts of schedules."""
OF_REPORTS = {
    "culprit",
    "observed",
    "turning",
    "to mend",
    "then",
    "waits",
    "ground",
    "note",
    "agreed",
    "first",
    "results",
}
"""Lines of a failure's report, which docs/programs/batch.md explains, and the folder of its results."""
NOT_COUNTED = {"in", "with", "of", "schedule", "schedules"}

COMMANDS = {
    "run": ("run", "t_look.yaml", "--trace", "a.jsonl"),
    "ran": ("run", "t_cross_late.yaml"),
    "explore": ("explore", "t_look.yaml", "--schedules", "2"),
    "bounded": ("explore", "t_look.yaml", "--preemptions", "1"),
    "failed": ("explore", "t_second.yaml"),
    "in one order": ("explore", "t_lost.yaml"),
    "sets": ("explore", "t_look.yaml", "--all-up-to", "ranks=3", "--schedules", "1"),
    "budget": ("explore", "t_look.yaml", "--all-up-to", "ranks=3", "--budget", "0s"),
    "swarm": ("explore", "t_look.yaml", "--swarm", "2:delay"),
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command prints."""
    folder = tmp_path_factory.mktemp("printed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, ranks in (("t_look", 3), ("t_second", 3), ("t_lost", 2)):
            write(Path(f"{name}.yaml"), scenario(name, ranks))
        write(Path("t_cross_late.yaml"), scenario("t_look", 12))
        return {title: dpsim_(*words, *MODULE).out for title, words in COMMANDS.items()}


def lines_of(text: str) -> Iterator[str]:
    """The names of the lines of an output, with N for the number of a rank."""
    for line in text.splitlines():
        if (found := LINE.match(line)) is not None:
            yield re.sub(r"\d+", "N", found[1])


def nouns_of(text: str) -> Iterator[str]:
    for line in text.splitlines():
        found = LINE.match(line)
        if found is not None and found[1] in OF_SCHEDULES:
            yield from NOUN.findall(line)


def unexplained(page: str, printed: dict[str, str]) -> list[str]:
    """The lines and nouns of outputs that the page does not explain."""
    lines = {re.sub(":$", "", name) for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in names(row)}
    nouns = re.findall(r"^\* \*\*(\w+)\*\*", page, re.MULTILINE)
    known = {one for noun in nouns for one in (noun.lower(), f"{noun.lower()}s", f"{noun.lower()}es")}
    missing = {name for text in printed.values() for name in lines_of(text)} - lines - OF_REPORTS
    other = {noun for text in printed.values() for noun in nouns_of(text)} - known - NOT_COUNTED
    return sorted(missing | other)


def names(row: str) -> list[str]:
    return re.findall(r"`([^`]*)`", row)


def test_the_page_explains_each_line_and_noun(printed: dict[str, str]) -> None:
    assert unexplained(PAGE, printed) == []


@pytest.mark.parametrize(
    ("removed", "found"),
    [
        ("| `not begun` |", "not begun"),
        ("| `rank N waited` |", "rank N waited"),
        ("`next` |", "next"),
        ("`assumes:` |", "assumes"),
        ("* **Choice**", "choices"),
        ("* **Switch**", "switch"),
        ("* **Class**", "classes"),
    ],
)
def test_a_line_that_the_page_leaves_out_is_found(removed: str, found: str, printed: dict[str, str]) -> None:
    """The twins of the page."""
    assert removed in PAGE
    assert found in unexplained(PAGE.replace(removed, ""), printed)


def failures(*words: str) -> list[tuple[str, str]]:
    """The `what` and the fingerprint of each failure that a search finds."""
    write(Path("t_second.yaml"), scenario("t_second", 3))
    [row] = dpsim_("explore", "t_second.yaml", *MODULE, *words, "--json", "--no-results").json["scenarios"]
    return [(one["what"], one["fingerprint"]) for one in row["failures"]]


def test_the_name_of_a_failure() -> None:
    """Searches that end at the first failure name it by their schedule; complete ones agree, and so does `what`."""
    short = [failures("--strategy", "random", "--seed", str(seed)) for seed in range(4)]
    assert len({what for [(what, _)] in short}) == 1
    assert len({fingerprint for [(_, fingerprint)] in short}) > 1, (
        "the twin: different searches give the same failure different fingerprints"
    )
    whole = [
        failures("--strategy", by, "--keep-going", "--jobs", jobs) for by, jobs in (("dpor", "1"), ("portfolio", "2"))
    ]
    assert whole[0] == whole[1]
    assert whole[0][0][0] == short[0][0][0]
