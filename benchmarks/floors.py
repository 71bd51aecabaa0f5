"""The lowest counts that were reached, by version of Python. `make bench` fails on a count above its floor.

Floors only sink: `python -m benchmarks --lower` writes what is lower now, and adds what has no floor. To raise one,
edit floors.json, and say in the commit what it buys.

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
"""Less than one call a rank-step."""
TOLERANCES = {"instructions a rank-step": 0.03, "MB, 1,024 ranks x 100 steps": 0.05, "MB, judged": 0.05}
"""What varies more from run to run."""


def floors(file: Path = FILE, version: str = VERSION) -> dict[str, float]:
    """Those of a version of Python; empty if it has none."""
    found: dict[str, float] = json.loads(file.read_text()).get(version, {}) if file.exists() else {}
    return found


def above(figures: Mapping[str, float], floors: Mapping[str, float]) -> list[str]:
    """A line for each figure above its floor. A figure that has no floor, or was not counted here, is left out."""
    return [
        f"{name}: {_plain(figures[name])}, has to be at most {_plain(floor)} (and {100 * tolerance(name):g} %)"
        for name, floor in floors.items()
        if name in figures and figures[name] > floor * (1 + tolerance(name))
    ]


def below(figures: Mapping[str, float], floors: Mapping[str, float]) -> list[str]:
    """The names of figures that are well below their floor, or have none."""
    return [name for name, is_now in figures.items() if is_now < floors.get(name, float("inf")) * (1 - tolerance(name))]


def lowered(figures: Mapping[str, float], floors: Mapping[str, float]) -> dict[str, float]:
    """The floors, with the figures that are lower or have none."""
    return {
        name: min(table[name] for table in (figures, floors) if name in table)
        for name in dict.fromkeys([*figures, *floors])
    }


def lower(figures: Mapping[str, float], file: Path = FILE, version: str = VERSION) -> None:
    """Write what is lower now."""
    every = json.loads(file.read_text()) if file.exists() else {}
    rounded = {name: round(value, 2) for name, value in figures.items()}
    every[version] = lowered(rounded, every.get(version, {}))
    file.write_text(json.dumps(every, indent=1, sort_keys=True) + "\n")


def tolerance(name: str) -> float:
    return TOLERANCES.get(name, TOLERANCE)


def _plain(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 10_000 else f"{figure:g}"
