"""Generates docs/keys.md: the meaning of keys such as I-EL-7, M-EL-7 and A-15, and the files that name them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from dpsim.contract import registry
from dpsim.vllm.keys import AREAS, EXAMPLES, INVARIANTS, SECTIONS, SOURCES
from tests import ROOT
from tests.vllm.reference.tables import code, table

KEY = re.compile(r"\b(?:[IM]-[A-Z]{2}-\d+|A-\d+)\b")
"""The pattern of an invariant, a mutant or an example."""

SAME = "M-UB-2"
"""A mutant of the specification that is the same as another one, M-DP-5."""

MADE_UP = ("M-DP-99", "M-DP-999")
"""The variant that CONTRIBUTING.md adds, and a name that a test mistypes."""

OPENING = """\
# Keys

dpsim's reports, docstrings and pages contain keys such as I-EL-7, M-EL-7 or 2.12. This page explains them. They come
from a specification of vLLM's behaviour, which dpsim's authors wrote while they read vLLM's source. dpsim's model of
vLLM follows this specification, which is not part of the repository.

* `source-000` to `source-004`, or "page 000" to "page 004", are five published files of vLLM. If a scenario selects the
  form `source-000` of a program, the program follows that file.
* 2.12 is a section of the specification, and "chapter 2" a chapter. Each chapter describes one area, such as EL, the
  engine loop. `dpsim show 2.12` prints the subject of the section.
* I-EL-7 is an invariant: rule 7 of the area EL. A test or an assertion checks it. `dpsim show I-EL-7` prints it.
* M-EL-7 is a mutant: a mistake that breaks a rule of the area EL, without relation to I-EL-7. `dpsim museum M-EL-7`
  describes it.
* A-15 is a worked example with numbers.
* M-UB-2 is another name of M-DP-5.
* Variants with other names, such as `port-toctou`, are known bugs. `dpsim list variants` prints all of them.

[The five source pages](pages.md) lists rule by rule the module of dpsim that implements a rule, and the tests that
check it. `python -m tests.vllm.reference` writes this page from the code.
"""


def page() -> str:
    """Returns the text of docs/keys.md."""
    sources = [(code(name), code(file), subject) for name, (file, subject) in SOURCES.items()]
    chapters = [(str(number), name, subject, *sections(number)) for name, (number, subject) in AREAS.items()]
    invariants = [(anchored(key), rule, places(key)) for key, rule in INVARIANTS.items()]
    examples = [(key, subject, places(key)) for key, subject in EXAMPLES.items()]
    mistakes = [(anchored(key), *row) for key, row in mutants().items()]
    tables = {
        "Source pages": table(["name", "file of vLLM", "subject"], sources),
        "Chapters": table(["chapter", "area", "subject", "sections", "further sections"], chapters),
        "Invariants": table(["key", "rule", "named in"], invariants),
        "Mutants": table(["key", "mistake", "found as", "named in"], mistakes),
        "Examples": table(["key", "subject", "named in"], examples),
    }
    return "\n".join([OPENING, *(f"## {title}\n\n{rows}\n" for title, rows in tables.items())])


def anchored(key: str) -> str:
    """Returns a key with an anchor for links, as in `keys.md#i-el-7`."""
    return f'<a id="{key.lower()}"></a>{key}'


def sections(chapter: int) -> tuple[str, str]:
    """Returns the sections of a chapter, in two cells."""
    named = [f"{chapter}.{at} {subject}" for at, subject in enumerate(SECTIONS[chapter].split("; "), 1)]
    half = (len(named) + 1) // 2
    return ", ".join(named[:half]), ", ".join(named[half:])


def mutants() -> Mapping[str, tuple[str, str, str]]:
    """Returns the mistake, the class and the files of each mutant, in the order of the areas."""
    found = {one.name: one for one in registry.variants() if KEY.fullmatch(one.name)}
    order = [*AREAS]
    names = sorted(found, key=lambda name: (order.index(name[2:4]), int(name.split("-")[2])))
    return {name: (found[name].summary, found_as(found[name]), places(name)) for name in names}


def found_as(entry: registry.VariantEntry) -> str:
    """Returns the class that a variant shows, or the beginning of the reason for which no check reports it."""
    return code(entry.expected) if entry.expected else f"nothing: {entry.reason.partition(':')[0]}"


@cache
def files() -> dict[str, str]:
    """Returns the texts that a user may read: modules, pages and scenarios, by path."""
    patterns = ("dpsim/**/*.py", "docs/**/*.md", "scenarios/**/*.yaml", "*.md")
    paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    return {
        path.relative_to(ROOT).as_posix(): path.read_text() for path in paths if path.name not in ("keys.md", "keys.py")
    }


@cache
def named() -> dict[str, list[str]]:
    """Returns for each key the files that contain it, those of the tests last."""
    tests = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(ROOT.glob("tests/**/*.py"))}
    found: dict[str, list[str]] = {}
    for name, text in (files() | tests).items():
        for key in set(KEY.findall(text)):
            found.setdefault(key, []).append(name)
    return found


def places(key: str) -> str:
    """Returns the files that contain a key: modules of dpsim, or tests if no module contains it."""
    all_files = [name for name in named().get(key, []) if name.endswith(".py")]
    seen = [name for name in all_files if not name.startswith("tests/")] or all_files
    short = [name.removeprefix("dpsim/vllm/") for name in seen]
    return ", ".join(map(code, short[:4])) + f" and {len(short) - 4} more" * (len(short) > 4)


def unexplained(texts: Mapping[str, str]) -> Iterator[str]:
    """Yields the keys in texts that the page does not explain, with the first file of each."""
    known = {*INVARIANTS, *EXAMPLES, *mutants(), *MADE_UP, SAME}
    seen: set[str] = set()
    for name, text in texts.items():
        for key in KEY.findall(text):
            if key not in known and key not in seen:
                seen.add(key)
                yield f"{name}: {key}"


def chapters_unknown(text: str) -> list[str]:
    """Returns the sections that a text names and that no chapter has."""
    return [
        found
        for found in re.findall(r"\bchapters? (\d+\.\d+)", text)
        if not _known_section(*map(int, found.split(".")))
    ]


def _known_section(chapter: int, section: int) -> bool:
    return chapter in SECTIONS and section <= len(SECTIONS[chapter].split("; "))
