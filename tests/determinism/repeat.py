"""Repeats a sample of the test suite's simulated runs, and fails a test whose second run differs from the first.

For the whole session, `tests/conftest.py` wraps `SimBackend.run_program` into a `Repeats`, which repeats 5 % of the
runs. A checksum selects these runs. It covers the test, the world, the program's name, and the number of earlier equal
runs in the test. So the choice is the same on every machine and with any number of workers. If the runs differ, the
test fails, and the message names the first record that differs:

  the simulation is not deterministic: program "waves" on 4 ranks (5 % of runs are repeated)
   rank 2, record 17
   first:  ('decision', 3, 'plan', 3, 'waves.py:120', 'dp_cpu', 8)
   second: ('decision', 3, 'plan', 3, 'waves.py:120', 'dp_cpu', 9)

A run under a strategy of exploration is repeated by a strict replay of its schedule, because the strategy itself has
moved on. The strategy and the test's backend do not observe the second run.

`DPSIM_REPEAT=100 pytest` repeats all runs, and `DPSIM_REPEAT=0 pytest` none. The marker `runs_once` is for a test whose
program or strategy cannot run twice, for example because it consumes an iterator. A program may write into an object of
the test, such as a list that the test reads later. `Repeats` does not repeat such a program, because a second run would
change what the test sees.

Prior art: TigerBeetle's and FoundationDB's simulators replay seeds in CI to find what is not controlled by the seed.
"""

from __future__ import annotations

import copy
import functools
import inspect
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from dpsim.contract.ops import RawRecord
from dpsim.contract.schedule import ByLabel
from dpsim.contract.world import Progress, Run, World
from dpsim.explore.strategies.base import Picker
from dpsim.explore.strategies.replay import Mismatch, ScheduleReplay

Runner = Callable[..., Run]
MANY_RECORDS = 200_000
"""Longer runs are not repeated, because a few of them would take more time than all others. `test_digests` repeats
some.
"""


class NotDeterministic(AssertionError):
    """The same program on the same world gave another run."""


@dataclass
class Repeats:
    """Repeats a share of the runs. `active`: whether the running test, `test`, allows this."""

    percent: float = 5.0
    active: bool = True
    test: str = ""
    runs: int = 0
    repeated: int = 0
    left_alone: list[str] = field(default_factory=list)
    _seen: Counter[int] = field(default_factory=Counter)  # checksums of this test's runs

    def begin(self, test: str, active: bool) -> None:
        """Starts a test."""
        self.test, self.active = test, active
        self._seen.clear()

    def around(self, run_program: Runner) -> Runner:
        """Returns `run_program` with the check."""

        @functools.wraps(run_program)
        def checked(backend: Any, world: World, program: Any, prepared: Any, progress: Progress | None = None) -> Run:
            if not (self.active and self.chosen(world, program)):
                self.runs += 1
                return run_program(backend, world, program, prepared, progress)
            before, asked = captured((program, prepared)), len(taken(backend.strategy))
            first = run_program(backend, world, program, prepared, progress)
            self.runs += 1
            written = captured((program, prepared)) != before
            if another(backend, asked) is None or written or sum(map(len, first.journals)) > MANY_RECORDS:
                self.left_alone.append(name(program))
                return first

            def compared(before: Run) -> tuple[str | None, Run | None]:
                repeating = another(backend, asked)
                try:
                    after = run_program(repeating, world, program, prepared)
                    if isinstance(repeating.strategy, ScheduleReplay):
                        repeating.strategy.end(whole=True)
                except Mismatch as mismatch:
                    return f"  {mismatch}", None
                return None if after.lost else difference(before, after), after  # trouble of the machine is no verdict

            found, second = compared(first)
            if found is not None and second is not None and program.apart:  # the first run made imports
                found, _ = compared(second)
            self.repeated += 1
            if found is not None:
                what = f'program "{name(program)}" on {world.size} ranks ({self.percent:g} % of runs are repeated)'
                raise NotDeterministic(f"the simulation is not deterministic: {what}\n{found}")
            return first

        return checked

    def chosen(self, world: World, program: Any) -> bool:
        """Returns whether the sample contains the next run of this program on this world."""
        base = zlib.crc32(f"{self.test} {name(program)} {world}".encode())
        self._seen[base] += 1
        return zlib.crc32(f"{base} {self._seen[base]}".encode()) % 10_000 < 100 * self.percent


def taken(strategy: Any) -> list[str]:
    """Returns the schedule of the strategy's current or last run; empty if the strategy records none."""
    return strategy.schedule if isinstance(strategy, Picker) else []


def another(backend: Any, asked: int) -> Any:
    """Returns a copy of the backend that repeats its last run, or None if this is impossible. `asked`: the length of
    the strategy's schedule before that run.
    """
    strategy, again = backend.strategy, copy.copy(backend)
    if isinstance(strategy, Picker):
        again.strategy = ScheduleReplay(taken(strategy)[asked:])
        again.strategy.begin()
    elif not (strategy is None or isinstance(strategy, ByLabel)):
        return None
    return again


def name(program: Any) -> str:
    """Returns a program's name. If the program wraps functions, the name contains the functions' names."""
    functions = [value for value in vars(program).values() if inspect.isfunction(value)]
    return " ".join([type(program).__qualname__, *(function.__qualname__ for function in functions)])


def captured(value: Any, depth: int = 6) -> str:
    """Returns the text of all objects that a program could write into: its attributes, and what its functions close
    over. Of classes, it contains only those that a function created, because others belong to no test.
    """
    if inspect.isfunction(value):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        parts = [*cells, *(value.__defaults__ or ())]
    elif isinstance(value, type):
        parts = [*vars(value).values()] if "<locals>" in value.__qualname__ else []
    elif isinstance(value, tuple):
        parts = [*value]
    elif hasattr(value, "__dict__") and not inspect.ismodule(value):
        parts = [*vars(value).values(), *([type(value)] if "<locals>" in type(value).__qualname__ else [])]
    else:
        return repr(value)
    return f"{type(value).__qualname__}({', '.join(captured(part, depth - 1) for part in parts if depth)})"


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # a name that the function binds later
        return False


def difference(first: Run, second: Run) -> str | None:
    """Returns the first difference of two runs: a record with its rank and index, an end, or a time. None if equal."""
    nothing: list[RawRecord] = []
    for rank, (a, b) in enumerate(zip_longest(first.journals, second.journals, fillvalue=nothing)):
        if a == b:
            continue
        for index, (one, other) in enumerate(zip_longest(a, b)):
            if one != other and repr(one) != repr(other):  # nan is not equal to itself
                return f"  rank {rank}, record {index}\n  first:  {_shown(one)}\n  second: {_shown(other)}"
    for what in ("ends", "waited_ns", "elapsed_ns", "observed"):
        a, b = getattr(first, what), getattr(second, what)
        if a != b:
            return f"  {what}\n  first:  {a}\n  second: {b}"
    return None


def _shown(record: Any) -> str:
    return "no record: the journal ends" if record is None else repr(record)
