"""Finds odd words and long sentences in the text of this repository. A test requires that there are none.

    python -m tests.house.words [PATH...]            # prints the findings, in these files and folders or everywhere

An odd word is one that a reader of technical English does not expect. `ODD` lists the odd words, each with better ones.
A sentence is long if it has more than 25 words. `tests.house.prose` finds the sentences.
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

FOLDERS = ("dpsim", "real", "benchmarks", "tests", "tools", "scenarios", "docs")
PATTERNS = (
    *("*.py", "*.md", "Makefile", "pyproject.toml", "tools/*/pyproject.toml", "scenarios/**/*.yaml"),
    *(f"{folder}/**/*.{end}" for folder in FOLDERS for end in ("py", "md")),
)
"""These files have text that a user or a maintainer reads."""

BE = "(?:is|are|was|were|be|been|being)(?: not| never| also| then| first)?"

ODD = {
    "nobody": "no rank, no thread, no user",
    "(?:some|any|every)body": "a rank, any thread, every user",
    "who knows": "which rank or thread knows",
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
    """An odd phrase or a long sentence."""

    file: str
    line: int
    long: bool
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


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


def show(root: Path, paths: Sequence[str]) -> None:
    """Prints the findings in the given files and folders, or in the whole tree."""
    inside = tuple(f"{path.rstrip('/')}/" for path in paths)
    found = [finding for finding in all_findings(root) if not paths or f"{finding.file}/".startswith(inside)]
    for finding in found:
        print(finding)
    long = sum(finding.long for finding in found)
    print(f"{len(found) - long} odd words and {long} long sentences")


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house.words", description="Odd words and long sentences.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="print the findings in this file or folder")
    show(root, parser.parse_args(arguments).paths)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
