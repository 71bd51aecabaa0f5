"""Museum there: makes rows of the museum (results for one known bug each) on other machines.

    with RayCluster.at("auto") as cluster:
        exhibition(entries, files, elsewhere=elsewhere(cluster))

This process sends only text: the name of the variant, and the scenario that shows it. The other machines need the same
sources of dpsim.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dpsim.campaign.museum import Elsewhere, Row, exhibit, row_of
from dpsim.campaign.remote import OtherVersion, modules_of
from dpsim.campaign.sameness import digest_of_dpsim
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import lost_by, portable
from dpsim.contract import registry
from dpsim.contract.registry import VariantEntry
from dpsim.contract.schedule import OutOfTime
from dpsim.contract.world import Lost
from dpsim.explore import Exploration
from dpsim.scenario import dump_scenario
from dpsim.scenario.yaml.reader import parse_scenario


class Machines(Protocol):
    """Other machines (`dpsim.campaign.ray_cluster`)."""

    def each(
        self, function: Callable[..., Any], arguments: Sequence[Any], modules: Iterable[str], end: float | None
    ) -> Iterator[tuple[int, Any]]:
        """Executes a task for each argument."""


class RowRequest(NamedTuple):
    """A request for a row. `text`: the scenario of the exhibit in `file`. `dpsim`: a digest of the sources of dpsim."""

    name: str
    text: str
    file: str
    limit: int
    modules: tuple[str, ...]
    dpsim: str


def elsewhere(machines: Machines) -> Elsewhere:
    """Returns a function that makes rows on these machines."""

    def rows(
        entries: Sequence[VariantEntry], files: Mapping[str, Path], limit: int, end: float | None
    ) -> Iterator[tuple[int, Row]]:
        request = [_request(entry, files[entry.name.lower()], limit) for entry in entries]
        modules = {module for one in request for module in one.modules}
        for number, answer in machines.each(row_there, request, modules, end):
            if isinstance(answer, Lost):
                raise Lost(f"{entries[number].name}: {answer}")
            if isinstance(answer, Exception):
                raise answer
            yield number, replace(answer, entry=entries[number], file=files[entries[number].name.lower()])

    return rows


def _request(entry: VariantEntry, file: Path, limit: int) -> RowRequest:
    scenario = exhibit(entry, file)
    modules = tuple(modules_of(Subject.of(scenario, file.parent)))
    return RowRequest(entry.name, dump_scenario(scenario), str(file.resolve()), limit, modules, digest_of_dpsim())


def row_there(request: RowRequest, seconds: float | None) -> Row | Exception:
    """Makes a row in this process. `seconds`: when to stop."""
    end = None if seconds is None else time.monotonic() + seconds

    def expired() -> bool:
        return end is not None and time.monotonic() > end

    try:
        if request.dpsim != digest_of_dpsim():
            raise OtherVersion("another machine has other sources of dpsim; install the same version on all of them")
        for module in request.modules:
            importlib.import_module(module)
        file = Path(request.file)
        made = row_of(
            registry.variant(request.name), parse_scenario(request.text, base=file.parent), file, request.limit, expired
        )
    except OutOfTime:
        return OutOfTime()
    except Exception as error:  # the requesting process handles it
        return lost_by(error) or portable(error)
    searches = {name: [*map(_plain, found)] for name, found in made.searches.items()}
    return replace(made, entry=None, subjects=(), searches=searches, twin=_plain(made.twin))  # type: ignore[arg-type]  # the requesting process has the entry


def _plain(found: Exploration) -> Exploration:
    """Returns counts and failures without the runs that are their evidence."""
    failures = {
        what: replace(failure, problem=failure.problem._replace(evidence=None))
        for what, failure in found.failures.items()
    }
    return replace(found, failures=failures, classes=set(), fresh=[])
