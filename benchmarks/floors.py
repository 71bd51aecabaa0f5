"""Floors are the lowest counts so far, for each version of Python. `make bench` fails if a count is above its floor.

`python -m benchmarks --lower` writes lower counts as new floors, and adds floors that are missing. Only a manual edit
of floors.json raises a floor, and its commit message says why.

>>> above({"calls a rank-step": 391.2}, {"calls a rank-step": 390.6})
[]
>>> above({"calls a rank-step": 391.6}, {"calls a rank-step": 390.6})
['calls a rank-step: 391.6, has to be at most 390.6 (and 0.2 %)']
>>> lowered({"calls": 5.0, "instructions": 7.0}, {"calls": 4.0, "memory": 1.0})
{'calls': 4.0, 'instructions': 7.0, 'memory': 1.0}
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).parent / "floors.json"
VERSION = ".".join(platform.python_version_tuple()[:2])

TOLERANCE = 0.002
"""The tolerance of a count as a fraction: less than one call per rank-step."""
TOLERANCES = {"instructions a rank-step": 0.03, "MB, 1,024 ranks x 100 steps": 0.05, "MB, judged": 0.05}
"""The tolerances of counts that vary more between runs."""


def floors(file: Path = FILE, version: str = VERSION) -> dict[str, float]:
    """Returns the floors of a version of Python, or an empty mapping."""
    found: dict[str, float] = json.loads(file.read_text()).get(version, {}) if file.exists() else {}
    return found


def above(figures: Mapping[str, float], floors: Mapping[str, float]) -> list[str]:
    """Returns a line for each figure above its floor. It omits a figure without a floor, or without a count on this
    machine.
    """
    return [
        f"{name}: {_plain(figures[name])}, has to be at most {_plain(floor)} (and {100 * tolerance(name):g} %)"
        for name, floor in floors.items()
        if name in figures and figures[name] > floor * (1 + tolerance(name))
    ]


def below(figures: Mapping[str, float], floors: Mapping[str, float]) -> list[str]:
    """Returns the names of figures that are below their floor by more than the tolerance, or that have no floor."""
    return [name for name, is_now in figures.items() if is_now < floors.get(name, float("inf")) * (1 - tolerance(name))]


def lowered(figures: Mapping[str, float], floors: Mapping[str, float]) -> dict[str, float]:
    """Returns the floors, with those figures that are lower or have none."""
    return {
        name: min(table[name] for table in (figures, floors) if name in table)
        for name in dict.fromkeys([*figures, *floors])
    }


def lower(figures: Mapping[str, float], file: Path = FILE, version: str = VERSION) -> None:
    """Writes lower figures as new floors."""
    every = json.loads(file.read_text()) if file.exists() else {}
    rounded = {name: round(value, 2) for name, value in figures.items()}
    every[version] = lowered(rounded, every.get(version, {}))
    file.write_text(json.dumps(every, indent=1, sort_keys=True) + "\n")


def tolerance(name: str) -> float:
    return TOLERANCES.get(name, TOLERANCE)


def _plain(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 10_000 else f"{figure:g}"
