"""What looks on while a run of the simulation goes on: each record as a rank journals it, before the op does anything.

    with looking_on(mine):          # runs in this process, until the block ends
        replay(trace)

The record of a call is there before its effect, and the program stands in that call. So an onlooker may open a debugger
there, or end the run: what `noted` returns is raised in the call. Without an onlooker, a run does no more than before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from dpsim.contract.ops import RawRecord
from dpsim.sim.graph.machine import Machine


class Onlooker(Protocol):
    """`begins`: a run begins, with the journals that fill and the programs of all ranks. `noted`: a rank journals; the
    answer is what `machine.halt` gave, if the run is to end here.
    """

    def begins(self, machine: Machine, journals: Sequence[Sequence[RawRecord]], programs: Sequence[Any]) -> None: ...

    def noted(self, rank: int, raw: RawRecord) -> BaseException | None: ...


_present: list[Onlooker] = []


def onlooker() -> Onlooker | None:
    """The one that is present, if any is."""
    return _present[-1] if _present else None


@contextmanager
def looking_on(one: Onlooker) -> Iterator[None]:
    """It looks on at each run that begins in this process meanwhile."""
    _present.append(one)
    try:
        yield
    finally:
        _present.remove(one)


def looked_at(one: Onlooker, rank: int, append: Callable[[RawRecord], None]) -> Callable[[RawRecord], None]:
    """Where the records of a rank go."""

    def noted(raw: RawRecord) -> None:
        append(raw)
        ends = one.noted(rank, raw)
        if ends is not None:
            raise ends

    return noted
