"""The rules of the tree: which file belongs where. Functions return a complaint for each violation.

    complaints(ROOT)       # a line for each violation; empty if there is none

* `dpsim/` itself has only the packages and those modules that users may import by name.
* The docstring of a package is its map: it names each of its modules (`name.py`) and packages (`name/`), and no others.
* A folder of tests has the name of what it tests, or is one of the few that test more than one package.
* No file has more than 300 lines, except for a few, each with a reason.
* Every function has less than 70 lines.
* Only the class names in NAMESAKES belong to more than one class.

The author of a new package must add its name to the list in this file. So a package cannot appear by accident.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = ("dpsim", "real", "tools/engine/dpsim_engine")

MODULES = ("mark", "pytest_plugin", "runner", "version")
"""The modules in dpsim/ itself."""

ROOMS = (
    "alone",
    "backend",
    "campaign",
    "checks",
    "cli",
    "contract",
    "diagnose",
    "explore",
    "recorded",
    "scenario",
    "sim",
    "testing",
    "torch",
    "trace",
    "vllm",
)
"""The packages of dpsim, also called its rooms."""

OF_SEVERAL = {
    "beginner": "mistakes of a first protocol, on sim and gloo: the page that shows what `dpsim run` prints",
    "blame": "whom the checks blame in drawn protocols of many kinds: sim and checks",
    "blame/kinds": "the kinds of these protocols",
    "blame/kinds_held": "more kinds, by another author",
    "determinism": "the same again, whatever runs it: all of dpsim and real",
    "house": "the tree itself",
    "interpreter": "all that the contract allows, read off the contract alone: sim, explore and checks",
    "interpreter/hosts": "the same for hosts alone, with aborts and stores",
    "plugin": "dpsim/pytest_plugin.py, in separate projects",
    "real": "the package real",
    "snapshot": "what dpsim finds in many worlds and jobs, as rows that a refactoring is compared with",
    "soundness": "what exploring must not call proven: sim, explore and checks together",
    "real/record": "the recorder, which is a folder of `real`",
    "torch/programs": "programs of torch.distributed, which tests run as targets",
    "vllm/answers": "dpsim_engine, the package in tools/engine",
    "vllm/answers/live": "its package live",
    "vllm/blame": "culprits of planted faults in random worlds of an engine: checks and blame",
    "vllm/cli": "the commands of dpsim, with scenarios of an engine",
    "vllm/determinism": "digests of runs of the shipped scenarios",
    "vllm/reference": "the pages of docs/ that are generated: commands, keys, classes, exit codes, objects",
    "vllm/reference/json_fields": "the keys of each object that `--json` prints",
    "vllm/reports": "reports of twelve kinds of trouble, kept as files",
    "vllm/torch": "files of an engine as programs of torch.distributed",
    "vllm/torch/programs": "programs around files of an engine, which tests run as targets",
    "vllm/planted": "mistakes in the healthy protocols, and what of the project notices each",
    "vllm/real": "programs of an engine on real processes",
    "worlds": "small worlds with all their schedules: sim, explore and checks, and the benchmarks",
}
"""Folders of tests without a package of the same name, and what they test."""

NAME = r"(?:^|(?<=  ))\w+(?:\.py|/)(?=\s|$)"
"""Matches a module or package in a map, at the beginning of a line or of a column."""

MOST_LINES = 300
MOST_OF_A_FUNCTION = 69
"""The most lines of a function, from `def` to its end, with the signature and the docstring."""

LONG = {
    "dpsim/contract/interface.py": "the contract, one file on purpose: to be read from top to bottom",
    "dpsim/contract/ops.py": "every record of a journal and the names of its fields: one table",
    "dpsim/pytest_plugin.py": "pytest takes all hooks from one module, and other projects import no more",
}
"""Files that may be longer, each with a reason."""


NAMESAKES = {"Group": 2, "Problem": 2}
"""Names of several classes of the framework (without dpsim/vllm and tools), and how many classes each may have."""


def complaints(root: Path) -> list[str]:
    """Returns a line for each violation."""
    rules = (_rooms, _maps, _folders_of_tests, _lengths, _functions, _class_names)
    return [complaint for rule in rules for complaint in rule(root)]


def _rooms(root: Path) -> Iterator[str]:
    modules, packages = contents(root / "dpsim")
    for name in sorted({*modules} - {*MODULES}):
        yield f"dpsim/{name}.py: belongs into one of the packages"
    for name in sorted({*packages} - {*ROOMS}):
        yield f"dpsim/{name}/: is no room of the list"
    for name in [*sorted({*MODULES} - {*modules}), *sorted({*ROOMS} - {*packages})]:
        yield f"dpsim/{name}: is in the list and not there"


def _maps(root: Path) -> Iterator[str]:
    for init in sorted(init for package in PACKAGES for init in (root / package).rglob("__init__.py")):
        modules, packages = contents(init.parent)
        there = {*(f"{name}.py" for name in modules), *(f"{name}/" for name in packages)}
        text = ast.get_docstring(ast.parse(init.read_text()), clean=False) or ""
        named = set(re.findall(NAME, text, re.MULTILINE))
        for name in sorted(there - named):
            yield f"{init.relative_to(root)}: its docstring does not name {name}"
        for name in sorted(named - there):
            yield f"{init.relative_to(root)}: its docstring names {name}, which is not there"


def _folders_of_tests(root: Path) -> Iterator[str]:
    for folder in sorted({file.parent for file in (root / "tests").rglob("*.py")} - {root / "tests"}):
        name = folder.relative_to(root / "tests").as_posix()
        tested = root / "dpsim" / name
        if not (folder / "__init__.py").exists():
            yield f"tests/{name}: is no package, it has no __init__.py"
        if not (tested.is_dir() or tested.with_suffix(".py").exists() or name in OF_SEVERAL):
            yield f"tests/{name}: has no namesake in dpsim/ and is none of {', '.join(OF_SEVERAL)}"


def _lengths(root: Path) -> Iterator[str]:
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            name, lines = file.relative_to(root).as_posix(), len(file.read_text().splitlines())
            if lines > MOST_LINES and name not in LONG:
                yield f"{name}: has {lines} lines, more than {MOST_LINES}"
            if lines <= MOST_LINES and name in LONG:
                yield f"{name}: is no longer long; take it out of LONG"


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of statements that have statements."""


@functools.cache
def _defined(source: str) -> tuple[tuple[str, bool, int], ...]:
    """Returns each function and class of a file, also those within others: name, whether it is a class, and lines."""
    found, todo = [], [ast.parse(source)]
    while todo:
        node: Any = todo.pop()
        for block in BLOCKS:
            todo += getattr(node, block, ())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            found.append((node.name, isinstance(node, ast.ClassDef), lines))
    return tuple(found)


def _functions(root: Path) -> Iterator[str]:
    for package in (*PACKAGES, "benchmarks"):
        for file in sorted((root / package).rglob("*.py")):
            for name, is_class, lines in _defined(file.read_text()):
                if lines > MOST_OF_A_FUNCTION and not is_class:
                    yield f"{file.relative_to(root)}: {name} has {lines} lines, more than {MOST_OF_A_FUNCTION}"


def _class_names(root: Path) -> Iterator[str]:
    places: dict[str, list[str]] = {}
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            if {"vllm", "tools"} & {*file.relative_to(root).parts}:
                continue
            for name, is_class, _ in _defined(file.read_text()):
                if is_class and not name.startswith("_"):
                    places.setdefault(name, []).append(str(file.relative_to(root)))
    for name, files in sorted(places.items()):
        if len(files) > NAMESAKES.get(name, 1):
            yield f"{files[-1]}: {name} is a class of {', '.join(files[:-1])} already"
    for name in sorted(NAMESAKES):
        if len(places.get(name, ())) < NAMESAKES[name]:
            yield f"{name}: stands for fewer classes than NAMESAKES allows; take it out"


def contents(folder: Path) -> tuple[list[str], list[str]]:
    """Returns the names of a package's modules and packages, without `__init__` and `__main__`."""
    modules = [file.stem for file in folder.glob("*.py") if not file.stem.startswith("__")]
    return sorted(modules), sorted(init.parent.name for init in folder.glob("*/__init__.py"))
