"""Sameness: identifies what an exploration explores, in words and digests, so that it uses saved work of the same only.

    head(chosen, options, "as written")
    {"dpsim": "0.1.0 (sources 3f2a91c05d11)", "scenario": "wake (8b0c...)", "program": "mine.py (77aa...)", ...}

The identity covers the normalized text of the scenario, and the file that its parameters name. It covers the sources of
the modules that register the program, and of all imported modules in their folders. It covers the version and sources
of dpsim, and the version of Python. Other installed packages are not covered.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dpsim.campaign.subject import Subject
from dpsim.scenario import Scenario, dump_scenario
from dpsim.version import version

DPSIM = Path(__file__).parent.parent

DIGITS = 12
"""The number of digits of a digest that a user compares."""


def head(
    scenarios: Sequence[tuple[Scenario, Path | None]], settings: Mapping[str, Any], worlds: str = "as written"
) -> dict[str, Any]:
    """Returns what has to be equal so that a search with these settings can use saved work. `worlds`: which variants of
    each scenario it explores. Raises ScenarioError.
    """
    named = [f"{scenario.name} ({digest_of(scenario, base)[:DIGITS]})" for scenario, base in scenarios]
    return {
        "dpsim": f"{version()} (sources {digest_of_dpsim()[:DIGITS]})",
        "python": ".".join(platform.python_version_tuple()[:2]),
        "scenario": ", ".join(named),
        "program": ", ".join(dict.fromkeys(_of_program(scenario, base) for scenario, base in scenarios)),
        "choice of worlds": worlds,
        **settings,
    }


def digest_of(scenario: Scenario, base: Path | None) -> str:
    """Returns the digest of a scenario's text and of the file that it names."""
    digest = hashlib.sha256(dump_scenario(scenario).encode())
    if scenario.file is not None:
        digest.update(_bytes_of((base or Path()) / scenario.file))
    return digest.hexdigest()


def _of_program(scenario: Scenario, base: Path | None) -> str:
    """Returns name and digest of a protocol's sources that do not come with dpsim."""
    origin = Subject.of(scenario, base).origin
    assert origin is not None
    own = [Path(one.file) for one in origin.modules() if one.file]
    files = {one for one in own if not one.is_relative_to(DPSIM)}
    folders = {one.parent for one in files}
    loaded = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    for path in {Path(one) for one in loaded if one is not None}:
        if path.suffix == ".py" and any(path.is_relative_to(folder) for folder in folders):
            files.add(path)
    if not files:
        return f"{scenario.protocol.name} of dpsim"
    return f"{scenario.protocol.name} ({_digest(sorted(files))[:DIGITS]})"


@cache
def digest_of_dpsim() -> str:
    return _digest(sorted(DPSIM.rglob("*.py")))


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + _bytes_of(file) + b"\0")
    return digest.hexdigest()


def _bytes_of(file: Path) -> bytes:
    """Returns the content of a file; empty if it cannot be read, because its user reports that."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
