"""The tests near a change: those of the changed rooms, and of the rooms above them.

    make near                               # prints which tests it runs, and why; then runs them
    python -m tests.house.near --list       # prints them only
    python -m tests.house.near -x -k hang   # with other options for pytest

A change is all that differs from the point at which the branch left `origin/main`, or `main` if there is none. It
includes uncommitted changes and new files. The imports of `tests.house.figures` decide. A file of tests runs for one of
these reasons:

* It has changed, or something in its folder of tests that is no file of tests, such as a helper or `conftest.py`.
* It is in the folder of a changed room, or of a room above one. A room is *above* those that it imports, directly or by
  way of others.
* It imports a changed room, or a changed folder of tests.
* It tests several rooms (`OF_SEVERAL` of `tests.house.tree`), and imports one that is changed or above.
* It is in `tests/house`, because each change of a room may break a rule of the tree.

A change elsewhere needs `make test`, and the command says so. Examples are `pyproject.toml`, docs, scenarios, and
helpers of all tests. The command does not see what a test starts by name, such as a command or an entry point. So only
`make test` tells whether a change is complete.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests import ROOT
from tests.house.figures import TREES, Imports, arrows, imports, part_of, reached
from tests.house.tree import OF_SEVERAL

NO_ROOM = ("__init__", "__main__")
"""Parts of `dpsim/` without tests of their part."""

HOUSE = "tests/house"
TEST = re.compile(r"^ *(?:async )?def test_", re.MULTILINE)


class Near(NamedTuple):
    """The reason for each file of tests that runs, and the changed files that need `make test`."""

    why: dict[str, str]
    elsewhere: list[str]


def changed(root: Path) -> list[str]:
    """Returns the files that differ from the point at which the branch left main, by their path in the tree.

    Raises ValueError if there is no git repository with a branch `origin/main` or `main`.
    """
    for main in ("origin/main", "main"):
        base = _git(root, "merge-base", "HEAD", main)
        if base.returncode == 0:
            break
    else:
        raise ValueError(f"expected a branch origin/main or main; git says: {base.stderr.strip()}")
    differing = _git(root, "diff", "--name-only", "--no-renames", "--relative", "-z", base.stdout.strip()).stdout
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z").stdout
    return sorted({*differing.split("\0"), *new.split("\0")} - {""})


def _git(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)


def part_of_file(file: str) -> str:
    """Returns what a changed file belongs to: a room, a folder of tests, or itself if it is a file of tests. Returns ""
    for any other file.
    """
    tree, *inside = file.split("/")
    if tree == "tests":
        is_test = re.fullmatch(r"test_\w+\.py", inside[-1]) is not None
        return file if is_test else "/".join([tree, *inside[:-1]]) if inside[1:] else ""
    if tree not in TREES or (tree == "dpsim" and not (inside[1:] or file.endswith(".py"))):
        return ""
    room = part_of(".".join([tree, *inside]).removesuffix(".py"))
    return "" if room in NO_ROOM else room


def parts_of_test(module: str) -> list[str]:
    """Returns what a module of tests belongs to: itself, its folders, and the room that its first folder names."""
    folders = module.split(".")[:-1]
    around = ["/".join(folders[:number]) for number in range(len(folders), 1, -1)]
    return [f"{module.replace('.', '/')}.py", *around, *folders[1:2]]


def reasons(parts: Sequence[str], graph: Imports) -> dict[str, str]:
    """Returns why the tests of a part run: for each changed part, and for each room above one."""
    found = {part: f"{part} has changed" for part in parts}
    between = arrows(graph, lambda module: part_of(module).removeprefix("tests"))
    for room in sorted({*between} - {*parts}):
        if below := sorted(reached(between, room) & {*parts}):
            found[room] = f"{room} is above {', '.join(below)}"
    return found


def near(files: Sequence[str], graph: Imports) -> Near:
    """Returns the tests near the changed files. `graph`: the imports of all rooms and tests."""
    modules = sorted(name for name in graph if part_of(name) == "tests")
    known = {*map(part_of, graph)} | {part for name in modules for part in parts_of_test(name)}
    parts = {file: part if (part := part_of_file(file)) in known else "" for file in files}
    changed_parts = {*parts.values()} - {""}
    why_part = reasons(sorted(changed_parts), graph)
    of_tree = {HOUSE: "rules of the tree"} if changed_parts & {*map(part_of, graph)} else {}
    own = of_tree | why_part
    why: dict[str, str] = {}
    for module in modules:
        file, *around = parts_of_test(module)
        if Path(file).name.startswith("test_"):
            imported = {part for other in graph[module] for part in _parts(other)}
            if not _of_several(file):
                imported &= changed_parts
            told = [own[part] for part in (file, *around) if part in own]
            told += [f"imports {part}: {why_part[part]}" for part in sorted(imported) if part in why_part]
            if told:
                why[file] = told[0]
    return Near(why, [file for file, part in parts.items() if not part])


def _of_several(file: str) -> bool:
    """Returns whether a file of tests is in no room's folder, or in one that tests several rooms."""
    folder = file.removeprefix("tests/").rpartition("/")[0]
    return not folder or folder in OF_SEVERAL


def _parts(module: str) -> list[str]:
    """Returns what an imported module belongs to. A test that imports a helper of `tests/sim` does not test `sim`."""
    return [part for part in parts_of_test(module) if "/" in part] if part_of(module) == "tests" else [part_of(module)]


def told(found: Near, root: Path) -> Iterator[str]:
    """Yields a line for each folder and reason, the number of tests, and the files that need `make test`."""
    tests = {file: len(TEST.findall((root / file).read_text())) for file in found.why}
    rows: dict[tuple[str, str], list[int]] = {}
    for file, why in found.why.items():
        rows.setdefault(("/".join(file.split("/")[:2]), why), []).append(tests[file])
    for (folder, why), each in rows.items():
        yield f"{folder:32}{len(each):4} files{sum(each):6} tests   {why}"
    yield f"{sum(tests.values())} tests in {len(tests)} files, each with one set of parameters or several"
    yield from (f"{file}: is in no room, so this change needs `make test`" for file in found.elsewhere)


def command(found: Near, others: Sequence[str]) -> list[str]:
    """Returns the command that runs the tests, with other options for pytest."""
    return [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", *others, *found.why]


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Returns the exit code of pytest, or 0 if it has nothing to run."""
    parser = argparse.ArgumentParser(prog="python -m tests.house.near", description="Runs the tests near a change.")
    parser.add_argument("--list", action="store_true", help="print what would run, and run nothing")
    options, others = parser.parse_known_args(arguments)
    try:
        found = near(changed(root), imports(root, *TREES, "tests"))
    except ValueError as error:
        parser.error(str(error))
    print("\n".join(told(found, root)), flush=True)
    if options.list or not found.why:
        return 0
    return subprocess.run(command(found, others), cwd=root, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
