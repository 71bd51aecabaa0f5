"""Remote: sends a program to another machine, which executes units (some schedules each) of its exploration.

    source = Source.of(scenario, base)      # here
    do_there(source, unit, seconds=None)    # there: a UnitResult, or the exception to be dealt with here
    do_all_there(None, units, *sources)     # a list of these, up to the first failure

This process sends the scenario as text, and the names of the modules that register its program. It sends the sources of
these modules separately (`sources_of`). The other machine needs the same sources of dpsim. A file that the scenario
names must lie at the same path there.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dpsim.campaign.sameness import DPSIM, digest_of_dpsim
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, UnitResult, do, lost_by, portable
from dpsim.contract.words import BadInput
from dpsim.scenario import Scenario, dump_scenario
from dpsim.scenario.yaml.reader import parse_scenario


class OtherVersion(BadInput):
    """The other machine has other sources of dpsim."""


class Source(NamedTuple):
    """What another machine makes a program from. `dpsim`: a digest of its sources. `repeats`: as of `Subject`."""

    text: str
    base: str | None
    modules: tuple[str, ...]
    dpsim: str
    repeats: bool = True

    @staticmethod
    def of(scenario: Scenario, base: Path | None, repeats: bool = True) -> Source:
        """Returns the data of a scenario. Raises ScenarioError for one that cannot run."""
        where = None if base is None else str(base.resolve())
        modules = tuple(modules_of(Subject.of(scenario, base)))
        return Source(dump_scenario(scenario), where, modules, digest_of_dpsim(), repeats)

    def subject(self) -> Subject:
        """Makes the program on this machine. Raises OtherVersion and ScenarioError."""
        if self.dpsim != digest_of_dpsim():
            raise OtherVersion("another machine has other sources of dpsim; install the same version on all of them")
        for module in self.modules:
            importlib.import_module(module)
        base = None if self.base is None else Path(self.base)
        subject = Subject.of(parse_scenario(self.text, base=base), base)
        return replace(subject, repeats=self.repeats)


def modules_of(subject: Subject) -> Iterable[str]:
    """Returns the modules that register the program, except those of dpsim."""
    assert subject.origin is not None
    return [one.name for one in subject.origin.modules() if one.file and not Path(one.file).is_relative_to(DPSIM)]


def sources_of(modules: Iterable[str]) -> dict[str, bytes]:
    """Returns the sources of modules, their packages and folders, by the path below a folder of the search path."""
    named = [sys.modules[one] for one in modules if one in sys.modules]
    roots = {one.__name__.partition(".")[0] for one in named}
    folders = {Path(one.__file__).parent for one in named if one.__file__ and "." not in one.__name__}
    found: dict[str, bytes] = {}
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or name == "__main__":
            continue
        if name.partition(".")[0] in roots or ("." not in name and Path(file).parent in folders):
            path = name.replace(".", "/") + ("/__init__.py" if hasattr(module, "__path__") else ".py")
            found[path] = Path(file).read_bytes()
    return found


MADE = 64

_made: dict[Source, Subject] = {}


def do_there(source: Source, unit: Unit, seconds: float | None = None) -> UnitResult | Exception:
    """Executes a unit of a program in this process. `seconds`: after this time it begins no further run."""
    try:
        subject = _made.get(source)
        if subject is None:
            if len(_made) == MADE:
                _made.clear()
            subject = _made[source] = source.subject()
        end = None if seconds is None else time.monotonic() + seconds
        return do(unit, subject, end)
    except Exception as error:  # the process that issues units handles it
        return lost_by(error) or portable(error)


def do_all_there(seconds: float | None, units: Sequence[Unit], *sources: Source) -> list[UnitResult | Exception]:
    """Executes units in turn, each with its source. Ends at the first failure or exception."""
    end = None if seconds is None else time.monotonic() + seconds
    answers: list[UnitResult | Exception] = []
    for unit, source in zip(units, sources, strict=True):
        left = None if end is None else max(end - time.monotonic(), 0.0)
        answers.append(do_there(source, unit, left))
        last = answers[-1]
        if isinstance(last, Exception) or last.exploration.failures:
            break
    return answers
