"""Prints the figures of the house (`tests.house.figures`), and holds them.

    python -m tests.house            # each figure, now and held; the parts by floor; the circles
    python -m tests.house --hold     # writes each figure that fell into figures.toml

A test fails if a figure is greater than the held one. No command raises a figure, because a raise needs a reason. The
author edits `figures.toml` in the commit of an issue that names the allowance. The message of the commit says why.

The file also holds the arrows themselves, so that a complaint can name the new ones. An arrow may replace another.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests import ROOT
from tests.house.figures import Arrows, Measured, measured

FILE = ROOT / "tests" / "house" / "figures.toml"

HEAD = """\
# The figures of the house (tests/house/figures.py), none of which may grow. `python -m tests.house --hold` writes those
# that fell. Raise one by hand, in the commit of an issue that names its allowance, and say why in the message.
"""


ADVICE = "raise it in figures.toml, in the commit of an issue that names its allowance, and say why in the message"


def write(file: Path, numbers: dict[str, int], between: Arrows) -> None:
    """Writes held figures. The figure "arrows" is the number of those that the file lists."""
    kept = (f"{json.dumps(name)} = {number}\n" for name, number in numbers.items() if name != "arrows")
    listed = (f"{name} = {json.dumps(sorted(others))}\n" for name, others in sorted(between.items()) if others)
    file.write_text("".join([HEAD, "\n[figures]\n", *kept, "\n[arrows]\n", *listed]))


def held(file: Path) -> tuple[dict[str, int], Arrows]:
    """Returns the held figures and arrows of a file."""
    read = tomllib.loads(file.read_text())
    between = {name: {*others} for name, others in read["arrows"].items()}
    return read["figures"] | {"arrows": sum(map(len, between.values()))}, between


def complaints(now: Measured, file: Path) -> list[str]:
    """Returns a line for each figure that is greater than the held one. A room that is not held may have no line."""
    before, between = held(file)
    new = [f"{one} -> {other}" for one, others in now.arrows.items() for other in others - between.get(one, set())]
    more = {"arrows": f" (new: {', '.join(sorted(new))})", "circles": f" ({'; '.join(now.circles)})"}
    return [
        f"{name}: held {before.get(name, 0)}, now {number}{more.get(name, '')}; {ADVICE}"
        for name, number in now.numbers.items()
        if number > before.get(name, 0)
    ]


def hold(now: Measured, file: Path) -> list[str]:
    """Writes the figures that fell, and returns a line for each. Forgets rooms that are gone."""
    before, between = held(file)
    numbers = {name: min(number, before[name]) for name, number in now.numbers.items() if name in before}
    write(file, numbers, now.arrows if now.numbers["arrows"] <= before["arrows"] else between)
    return [f"{name}: {before[name]} -> {number}" for name, number in numbers.items() if number < before[name]]


def table(now: Measured, file: Path) -> str:
    """Returns the figures beside the held ones, the parts by floor, and the circles."""
    before, _ = held(file)
    rows = [f"{'':24}{'now':>8}{'held':>8}"]
    rows += [f"{name:24}{number:8}{before.get(name, 0):8}" for name, number in now.numbers.items()]
    rows.append("")
    for floor in range(1, now.numbers["floors"] + 1):
        rows.append(f"floor {floor}   {' '.join(sorted(name for name, at in now.floors.items() if at == floor))}")
    return "\n".join([*rows, "", *(f"circle    {circle}" for circle in now.circles)])


def main(arguments: Sequence[str], root: Path = ROOT, file: Path = FILE) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house", description="The figures of the house.")
    parser.add_argument("--hold", action="store_true", help="write each figure that fell into figures.toml")
    now = measured(root)
    print("\n".join(hold(now, file)) if parser.parse_args(arguments).hold else table(now, file))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
