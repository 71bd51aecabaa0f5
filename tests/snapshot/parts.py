"""The parts of the snapshot, and the processes that compute their rows.

    for name, found in computed(PARTS["jobs"]):
        ...

Each part takes less than two minutes on two idle cores. Two processes compute the rows of a part. The pool of the
campaigns (`dpsim.campaign.processes`) distributes schedules of explorations. Most rows are no explorations, so the rows
have a separate pool. A row must not depend on the process that computes it, nor on the rows before it there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple
from zlib import crc32

from dpsim.backend.journal import call_site
from tests import ROOT
from tests.snapshot import files, jobs, worlds
from tests.snapshot.row import Found

PROCESSES = 2


class Part(NamedTuple):
    """A part: the names of its rows, and what computes one from its name. `about`: a line for `--list`."""

    name: str
    about: str
    names: Callable[[], Sequence[str]]
    compute: Callable[[str], Found]


def museum(which: int, of: int) -> Callable[[], Sequence[str]]:
    """Returns a function that lists a share of the exhibits. A new exhibit moves no other one to another share."""
    return lambda: [name for name in files.written(True) if crc32(name.encode()) % of == which - 1]


_ALL = (
    Part("run", "a run of each scenario file", partial(files.written, False), files.run),
    Part("run-museum-1", "a run of half of the exhibits", museum(1, 2), files.run),
    Part("run-museum-2", "a run of the other half", museum(2, 2), files.run),
    Part("explore", "some schedules of scenario files", files.explored, files.explore),
    Part("explore-museum-1", "some schedules of a third of the exhibits", museum(1, 3), files.explore),
    Part("explore-museum-2", "some schedules of another third", museum(2, 3), files.explore),
    Part("explore-museum-3", "some schedules of the last third", museum(3, 3), files.explore),
    Part("drawn", "drawn programs, explored", worlds.drawn, worlds.explore),
    Part("swarm", "a run of scenarios with drawn faults", worlds.swarms, worlds.run),
    Part("jobs", "dumps and recordings, explained and imported", jobs.names, jobs.explain),
)
PARTS = {part.name: part for part in _ALL}


def computed(part: Part, names: Sequence[str]) -> Iterator[tuple[str, Found]]:
    """Yields what is found for each name, in the order of the names."""
    with ProcessPoolExecutor(PROCESSES, get_context("spawn"), begin) as pool:
        yield from zip(names, pool.map(partial(compute, part.name), names), strict=True)


def begin() -> None:
    """Prepares a process: names of files are relative to the repository, and nothing keeps results."""
    os.chdir(ROOT)
    os.environ["DPSIM_RESULTS"] = "0"


def compute(part: str, name: str) -> Found:
    """Computes one row; a function of this module, which another process finds by name. An error is a row, too: it ends
    no comparison, and shows as a difference.
    """
    call_site.chains.clear()  # a process keeps the first chain of calls to a place, of whatever run
    call_site._places.clear()
    try:
        return PARTS[part].compute(name)
    except Exception as error:
        return Found({"verdict": "error", "class": type(error).__name__, "message": str(error)})
