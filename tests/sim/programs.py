"""Runs small programs on the simulated machine, with time and under chosen schedules, and checks their findings.

A program here is a coroutine `async def script(rank)`. Its return value is what that rank learned. A *twin* is one
program with a switch: with `right=True` it is healthy, with `right=False` it contains one mistake.

    twins = Twins()

    @twins("RACE:BUFFER", learned=[(7,)])
    async def a_side_stream_waits_for_what_it_reads(rank, right):
        ...
        if right:
            side.wait_stream(main)

The tests run both sides of each twin in all `MODES`. One mode simulates time. In the six others a function chooses the
schedule: always the first event, always the last, and four that pick by a checksum. In every mode the healthy program
finishes, returns the given values and has no finding. In every mode, or in those that `modes` names, the faulty program
has a finding of the named class. All its findings have this class, or one that `also` allows.

The journal records what a rank learned as a decision in a group of one rank. So comparisons of journals include it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dpsim.checks.finding import Finding, matches
from dpsim.checks.judge import judge
from dpsim.contract.interface import Buffer, HostArray, Rank, Stream
from dpsim.contract.ops import DECISION_VALUE, SITE, DType
from dpsim.contract.schedule import Choose
from dpsim.contract.world import CommunicatorSpec, Run, World
from tests.programs import OWN, Script, run, world_of

Switched = Callable[[Rank, bool], Coroutine[Any, Any, Any]]

# ---- kernels


def fill(target: Any, *values: Any) -> None:
    for at, value in enumerate(values):  # numpy takes a tuple at once, torch does not
        target[at] = value


def filled(
    stream: Stream, values: int | Sequence[Any], site: str = "x", cost: int = 1_000, dtype: DType = "int32"
) -> Buffer:
    """Returns a buffer, and launches a kernel of cost `cost` ns that fills it with `values`. A single number fills two
    elements.
    """
    values = (values, values) if isinstance(values, int) else tuple(values)
    buffer = stream.alloc(len(values), dtype, site)
    stream.launch(f"fill.{site}", fill, writes=[buffer], args=values, cost=cost)
    return buffer


# ---- worlds and modes


def usual_world(ranks: int = 2, groups: Sequence[str] = ("d", "e"), **more: Any) -> World:
    """Returns a world whose ranks are all in the device communicators `groups` and in the host communicators h
    and g.
    """
    world = world_of(ranks, ["h", "g"], groups, **more)
    own = [CommunicatorSpec(OWN, f"{OWN} {rank}", "host", (rank,)) for rank in range(ranks)]
    return replace(world, communicators=(*world.communicators, *own))


def first(label: str, options: Sequence[str]) -> int:
    return 0


def last(label: str, options: Sequence[str]) -> int:
    return len(options) - 1


def seeded(seed: int) -> Choose:
    """Returns a function that picks an option by a checksum of all options. Unlike a generator, it has no state, so a
    repeated run makes the same picks.
    """

    def choose(label: str, options: Sequence[str]) -> int:
        return zlib.crc32(f"{seed} {label} {options}".encode()) % len(options)

    return choose


MODES: dict[str, Choose | None] = {
    "timed": None,
    "first": first,
    "last": last,
    **{f"seed {seed}": seeded(seed) for seed in range(4)},
}


# ---- runs


@dataclass(frozen=True)
class Seen:
    """A run, and the findings of the checks about it."""

    mode: str
    run: Run
    findings: list[Finding]

    @property
    def classes(self) -> list[str]:
        return [finding.klass for finding in self.findings]

    @property
    def learned(self) -> list[Any]:
        """Returns for each rank what its program returned, or None if it did not finish."""
        last = [
            next((raw for raw in reversed(journal) if raw[SITE] == "learned"), None) for journal in self.run.journals
        ]
        return [raw[DECISION_VALUE] if raw is not None else None for raw in last]


def see(script: Script, world: World | None = None, mode: str = "timed", **options: Any) -> Seen:
    """Runs a script in one mode. `options` are arguments of the backend."""
    world = world or usual_world()
    done = run(world, script, choose=MODES[mode], **options)
    return Seen(mode, done, judge(world, done))


def everywhere(script: Script, world: World | None = None, **options: Any) -> list[Seen]:
    """Runs a script in every mode."""
    return [see(script, world, mode, **options) for mode in MODES]


def holds(script: Script, learned: Sequence[Any] | None, world: World | None = None, **options: Any) -> None:
    """Checks that in every mode all ranks finish, return `learned` (None: anything), and the run has no finding."""
    for seen in everywhere(script, world, **options):
        assert not seen.findings, f"{seen.mode}: {seen.findings}"
        assert seen.run.finished, f"{seen.mode}: {seen.run.ends}"
        assert learned is None or seen.learned == list(learned), f"{seen.mode}: learned {seen.learned}, not {learned}"


# ---- twins


@dataclass(frozen=True)
class Twin:
    """A program with a switch, and the expected results of its healthy and its faulty side."""

    script: Switched
    klass: str
    learned: Sequence[Any] | None
    world: World
    also: Sequence[str]
    modes: Sequence[str]
    options: dict[str, Any]

    def __str__(self) -> str:
        return self.script.__name__

    def switched(self, right: bool) -> Script:
        async def script(rank: Rank) -> Any:
            return await self.script(rank, right)

        script.__qualname__ = f"{self.script.__qualname__}({right})"
        return script

    def check_right(self) -> None:
        holds(self.switched(True), self.learned, self.world, **self.options)

    def check_wrong(self) -> None:
        for mode in MODES:
            seen = see(self.switched(False), self.world, mode, **self.options)
            strange = [
                klass for klass in seen.classes if not any(matches(klass, one) for one in (self.klass, *self.also))
            ]
            assert not strange, f"{mode}: {seen.findings}"
            found = any(matches(klass, self.klass) for klass in seen.classes)
            assert found or mode not in self.modes, f"{mode}: {self.klass} was not found in {seen.classes}"


class Twins(list[Twin]):
    """The twins of a test module, in the order of their definition."""

    def __call__(
        self,
        klass: str,
        learned: Sequence[Any] | None = None,
        world: World | None = None,
        *,
        also: Sequence[str] = (),
        modes: Sequence[str] = tuple(MODES),
        **options: Any,
    ) -> Callable[[Switched], Switched]:
        """Adds a program with a switch. Without `world`, the world has a rank for each value of `learned`, or two
        ranks.
        """

        def take(script: Switched) -> Switched:
            ranks = 2 if learned is None else len(learned)
            self.append(Twin(script, klass, learned, world or usual_world(ranks), also, modes, options))
            return script

        return take

    def tests(self) -> tuple[Callable[[Twin], None], Callable[[Twin], None]]:
        """Returns two tests of all twins so far: the healthy programs hold, and the checks catch the faulty ones."""
        each = pytest.mark.parametrize("twin", list(self), ids=str)

        def holds_(twin: Twin) -> None:
            twin.check_right()

        def is_caught(twin: Twin) -> None:
            twin.check_wrong()

        return each(holds_), each(is_caught)


def numbers(array: HostArray) -> tuple[int, ...]:
    """Returns an array as a tuple of numbers, which can be compared and recorded."""
    return tuple(np.asarray(array).reshape(-1).tolist())
