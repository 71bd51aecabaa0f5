"""The figures of the house: how many rooms, floors, arrows, circles and lines the tree has.

    python -m tests.house            # prints them beside the held ones
    measured(ROOT).numbers           # {"rooms": 17, "floors": 7, "arrows": 83, ...}

A *room* is a package directly in `dpsim/`, or one of the packages `real` and `benchmarks`. Floors and arrows are
counted between *parts*: the rooms, and the modules directly in `dpsim/`, such as `runner`. If modules had no floor,
the chain from `cli` through `runner` to `checks` would be lost. The front `dpsim/__init__.py` is the part `__init__`.
So a count of parts exceeds the count of rooms by the number of these modules.

* An *arrow* is a pair of parts of which the first imports the second, however often.
* A part that imports no other is on *floor* 1. Any other is one floor above the highest part that it imports. The parts
  of a circle count as a chain of all of them, so that no import lowers a floor.
* A *circle* is the largest set of parts, or of modules and folders of one package, that reach one another by imports.
  An import upward closes a circle, because floors follow from imports. If a module imports the `__init__` of its
  package, this closes none, as in the import contracts of `pyproject.toml`.
* *Arrows in circles* are the arrows between members of one circle. A test holds them too, because a circle that grows,
  or two that become one, would not increase the number of circles.
* *Lines* are all lines of the files `*.py`, with blank lines and docstrings.

The library grimp reads the imports, as it does for import-linter. It includes those in functions and those under
`TYPE_CHECKING`, because a reader follows both. It cannot see a module that a string names, such as an entry point or an
argument of `import_module`.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

TREES = ("dpsim", "real", "benchmarks")

Imports = Mapping[str, list[str]]
"""The modules that each module imports, by full name."""

Arrows = dict[str, set[str]]
"""The parts that each part imports."""

READ = """
import grimp, json, sys
graph = grimp.build_graph(*sys.argv[1:], cache_dir=None)
print(json.dumps({name: sorted(graph.find_modules_directly_imported_by(name)) for name in graph.modules}))
"""


def imports(root: Path, *packages: str) -> Imports:
    """Returns the imports within the packages of a tree. A separate process reads them, because grimp finds packages as
    Python does, and this process has imported one `dpsim` already.

    Raises ValueError with the last line of the error if a file cannot be read.
    """
    done = subprocess.run(
        [sys.executable, "-c", READ, *packages],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr.strip().rpartition("\n")[2])
    found: Imports = json.loads(done.stdout)
    return found


def part_of(module: str) -> str:
    """Returns the room of a module, or its name if it is directly in `dpsim/`."""
    tree, _, inside = module.partition(".")
    return (inside.partition(".")[0] or "__init__") if tree == "dpsim" else tree


def arrows(graph: Imports, part: Callable[[str], str] = part_of) -> Arrows:
    """Returns the arrows between parts. A module whose part is "" counts for nothing."""
    found: Arrows = {name: set() for module in graph if (name := part(module))}
    for module, imported in graph.items():
        for other in imported:
            if part(module) and part(other) and part(module) != part(other):
                found[part(module)].add(part(other))
    return found


def reached(between: Arrows, start: str) -> set[str]:
    """Returns the parts to which arrows lead from `start`, directly or not."""
    found: set[str] = set()
    todo = [*between[start]]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += between[one]
    return found


def circles(between: Arrows) -> list[list[str]]:
    """Returns the members of each circle."""
    to = {name: reached(between, name) for name in between}
    found = {tuple(sorted(other for other in to[name] if name in to[other])) for name in between}
    return [list(circle) for circle in sorted(found) if circle]


def floors(between: Arrows) -> dict[str, int]:
    """Returns the floor of each part, from 1. The parts of a circle are on the last floor of their chain."""
    together = {name: {name} for name in between} | {one: {*circle} for circle in circles(between) for one in circle}

    @functools.cache
    def floor(name: str) -> int:
        below = {other for one in together[name] for other in between[one]} - together[name]
        return len(together[name]) + max(map(floor, below), default=0)

    return {name: floor(name) for name in between}


def all_circles(graph: Imports) -> Iterator[tuple[str, list[str], int]]:
    """Yields each circle of parts, and of siblings in a package: the package, the members, the arrows between them."""
    packages = {name.rpartition(".")[0] for name in graph if name.count(".") >= 1} - {"dpsim"}

    def sibling(package: str, module: str) -> str:
        return module.removeprefix(package).split(".")[1] if module.startswith(f"{package}.") else ""

    levels = {"": part_of} | {package: functools.partial(sibling, package) for package in sorted(packages)}
    for package, part in levels.items():
        between = arrows(graph, part)
        for circle in circles(between):
            yield package, circle, sum(len(between[name] & {*circle}) for name in circle)


def lines(root: Path, room: str) -> int:
    """Returns the lines of the Python files in a folder."""
    return sum(len(file.read_text().splitlines()) for file in (root / room).rglob("*.py"))


class Measured(NamedTuple):
    """The figures of a tree. `numbers` by the name of the figure; `circles` in words; `floors` of all parts."""

    numbers: dict[str, int]
    arrows: Arrows
    circles: list[str]
    floors: dict[str, int]


def measured(root: Path) -> Measured:
    """Returns the figures of a tree."""
    graph = imports(root, *TREES)
    between, found = arrows(graph), list(all_circles(graph))
    rooms = {init.parent.name: f"dpsim/{init.parent.name}" for init in sorted((root / "dpsim").glob("*/__init__.py"))}
    rooms |= {tree: tree for tree in TREES[1:]}
    numbers = {
        "rooms": len(rooms),
        "floors": max(floors(between).values()),
        "arrows": sum(map(len, between.values())),
        "circles": len(found),
        "arrows in circles": sum(inside for _, _, inside in found),
        "lines of dpsim/ in all": lines(root, "dpsim"),
    }
    numbers |= {f"lines of {name}": lines(root, folder) for name, folder in rooms.items()}
    told = [f"{package or 'between rooms'}: {', '.join(circle)}" for package, circle, _ in found]
    return Measured(numbers, between, told, floors(between))
