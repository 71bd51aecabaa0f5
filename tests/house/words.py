"""Counts odd words and long sentences in the text of this repository, and holds each file to its budget.

    python -m tests.house.words [PATH...]            # prints the findings, in these files and folders or everywhere
    python -m tests.house.words --lower              # lowers the budgets to what the files have
    python -m tests.house.words --moved OLD NEW...   # shares the budget of OLD with the files that now have its text
    python -m tests.house.words --begin              # writes the budgets for the first time, and never again

An odd word is one that a reader of technical English does not expect. `ODD` lists the odd words, each with better ones.
A sentence is long if it has more than 25 words. `tests.house.prose` finds the sentences.

`word_budgets.txt` has a line for each file with findings: its path, its odd words, its long sentences. A file without
a line has a budget of zero, so new text has no findings. `--lower` and `--moved` never raise the total of the budgets,
and `--begin` refuses to run if the file of budgets exists.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests import ROOT
from tests.house.prose import sentences

BUDGETS = "tests/house/word_budgets.txt"

FOLDERS = ("dpsim", "real", "benchmarks", "tests", "scenarios", "docs")
PATTERNS = (
    *("*.py", "*.md", "Makefile", "pyproject.toml", "scenarios/**/*.yaml"),
    *(f"{folder}/**/*.{end}" for folder in FOLDERS for end in ("py", "md")),
)
"""These files have text that a user or a maintainer reads."""

BE = "(?:is|are|was|were|be|been|being)(?: not| never| also| then| first)?"

ODD = {
    "nobody": "no rank, no thread, no user",
    "who(?:m|so)?ever": "the user who, the rank that",
    "for ever": "without end",
    "so many": "this number of, as many as",
    "for want of": "because there is no",
    f"{BE} told(?! apart)": "receives, learns, or an actor who tells",
    f"{BE} said": "an actor who says: the report names",
    "(?:come|comes|came|coming) to": "reaches, calls, arrives at",
    "of (?:one['\u2019]s|my|your|his|her|its|our|their) own": "its own, before the noun",
    "of ours": "our, before the noun",
}
"""The keys are regular expressions for the odd phrases. The values say what to write instead."""

ODD_PHRASE = re.compile(rf"\b(?:{'|'.join(f'({phrase})' for phrase in ODD)})\b", re.IGNORECASE)
SUGGESTIONS = tuple(ODD.values())

MOST_WORDS = 25


class Finding(NamedTuple):
    """A finding is an odd phrase or a long sentence."""

    file: str
    line: int
    long: bool
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class Count(NamedTuple):
    """A count says how much a file has, or how much its budget allows."""

    odd: int = 0
    long: int = 0

    def within(self, other: Count) -> bool:
        return self.odd <= other.odd and self.long <= other.long

    def __str__(self) -> str:
        return f"{self.odd} odd words and {self.long} long sentences"


def findings(file: str, source: str) -> Iterator[Finding]:
    """Yields the odd phrases and the long sentences of a file."""
    for sentence in sentences(file, source):
        for found in ODD_PHRASE.finditer(sentence.text):
            suggestion = SUGGESTIONS[(found.lastindex or 0) - 1]
            yield Finding(file, sentence.line, False, f'"{found[0]}": write {suggestion}')
        words = sentence.words()
        if words > MOST_WORDS:
            begin = " ".join(sentence.text.split()[:6])
            yield Finding(file, sentence.line, True, f'{words} words, at most {MOST_WORDS}: "{begin} ..."')


def texts(root: Path) -> dict[str, Path]:
    """Returns the files with text by their path in the tree, without those of hidden folders."""
    files = {file.relative_to(root): file for pattern in PATTERNS for file in root.glob(pattern)}
    shown = (path for path in sorted(files) if not any(part.startswith(".") for part in path.parts))
    return {path.as_posix(): files[path] for path in shown}


def all_findings(root: Path) -> list[Finding]:
    found = [finding for name, file in texts(root).items() for finding in findings(name, file.read_text())]
    return sorted(found)


def counts(found: Sequence[Finding]) -> dict[str, Count]:
    """Returns the count of each file with findings."""
    result: dict[str, Count] = {}
    for finding in found:
        odd, long = result.get(finding.file, Count())
        result[finding.file] = Count(odd + (not finding.long), long + finding.long)
    return result


# ---- budgets


def read_budgets(root: Path) -> dict[str, Count]:
    if not (root / BUDGETS).exists():
        return {}
    lines = (line.rsplit(maxsplit=2) for line in (root / BUDGETS).read_text().splitlines())
    return {name: Count(int(odd), int(long)) for name, odd, long in lines}


def write_budgets(root: Path, budgets: dict[str, Count]) -> None:
    lines = (f"{name} {count.odd} {count.long}\n" for name, count in sorted(budgets.items()) if any(count))
    (root / BUDGETS).write_text("".join(lines))


def complaints(root: Path) -> list[str]:
    """Returns a line for each file whose count is not its budget."""
    budgets, found = read_budgets(root), counts(all_findings(root))
    return [*exceeded(budgets, found), *_not_lowered(root, budgets, found)]


def exceeded(budgets: dict[str, Count], found: dict[str, Count]) -> list[str]:
    """Returns a line for each file that exceeds its budget."""
    show = "`python -m tests.house.words PATH` shows them"
    return [
        f"{name}: has {count}, its budget is {budgets.get(name, Count())}; {show}"
        for name, count in found.items()
        if not count.within(budgets.get(name, Count()))
    ]


def _not_lowered(root: Path, budgets: dict[str, Count], found: dict[str, Count]) -> Iterator[str]:
    lower = "`python -m tests.house.words --lower` lowers the budget"
    for name, budget in budgets.items():
        count = found.get(name, Count())
        if not (root / name).exists():
            yield f"{name}: is gone and has a budget; {lower}, and --moved OLD NEW moves it"
        elif count.within(budget) and count != budget:
            yield f"{name}: has {count}, its budget is {budget}; {lower}"


def begin(root: Path) -> list[str]:
    """Writes all budgets for the first time. Returns the reason if it refuses."""
    if (root / BUDGETS).exists():
        return [f"{BUDGETS}: the file exists, and --begin never overwrites it; --lower lowers its budgets"]
    write_budgets(root, counts(all_findings(root)))
    return []


def lower(root: Path) -> list[str]:
    """Lowers all budgets to what the files have. Writes nothing if a file exceeds its budget."""
    budgets, found = read_budgets(root), counts(all_findings(root))
    refused = exceeded(budgets, found)
    if not refused:
        write_budgets(root, found)
    return refused


def move(root: Path, moves: Sequence[Sequence[str]]) -> list[str]:
    """Shares the budget of each old file with its new files. Writes nothing if these files exceed it in total.

    A move is an old path and its new paths. Moves that have a path in common share one total.
    """
    budgets, found, there = read_budgets(root), counts(all_findings(root)), texts(root)
    refused = [f"{name}: no file with text has this name" for _, *new in moves for name in new if name not in there]
    groups: list[set[str]] = []
    for names in moves:
        common = [group for group in groups if not group.isdisjoint(names)]
        groups = [*(group for group in groups if group not in common), set(names).union(*common)]
    for group in groups:
        allowed, needed = _total(budgets, group), _total(found, group)
        if not needed.within(allowed):
            refused.append(f"{', '.join(sorted(group))}: have {needed} in total, their budgets are {allowed}")
        budgets |= {name: found.get(name, Count()) for name in group}
    if not refused:
        write_budgets(root, budgets)
    return refused


def _total(known: dict[str, Count], names: set[str]) -> Count:
    of_names = [known.get(name, Count()) for name in names]
    return Count(sum(count.odd for count in of_names), sum(count.long for count in of_names))


def show(root: Path, paths: Sequence[str]) -> None:
    """Prints the findings in the files and folders, or in the whole tree."""
    inside = tuple(f"{path.rstrip('/')}/" for path in paths)
    found = [finding for finding in all_findings(root) if not paths or f"{finding.file}/".startswith(inside)]
    for finding in found:
        print(finding)
    long = sum(finding.long for finding in found)
    print(Count(len(found) - long, long))


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house.words", description="Odd words and long sentences.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="print the findings in this file or folder")
    command = parser.add_mutually_exclusive_group()
    command.add_argument("--lower", action="store_true", help="lower the budgets to what the files have")
    command.add_argument("--moved", nargs="+", action="append", metavar=("OLD", "NEW"), help="share a budget")
    command.add_argument("--begin", action="store_true", help="write all budgets for the first time")
    options = parser.parse_args(arguments)
    if any(len(names) < 2 for names in options.moved or []):
        parser.error("--moved needs the old path and at least one new path")
    if not (options.lower or options.moved or options.begin):
        show(root, options.paths)
        return 0
    refused = lower(root) if options.lower else begin(root) if options.begin else move(root, options.moved)
    print("\n".join(refused) if refused else f"{BUDGETS} is up to date")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
