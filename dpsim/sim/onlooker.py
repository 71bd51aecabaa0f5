"""An onlooker watches a run of the simulation: it gets each record when a rank writes it, before the call has any
effect.

    with looking_on(mine):          # for all runs in this process, until the block ends
        replay(trace)

`dpsim replay` uses an onlooker for breakpoints. A rank writes the record of a call first, while the program is inside
that call. So an onlooker may open a debugger there. It may also end the run: if `noted` returns an exception, the call
raises it. Without an onlooker, a run has no additional cost per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from dpsim.contract.ops import RawRecord
from dpsim.sim.graph.machine import Machine


class Onlooker(Protocol):
    """`begins`: a run begins; the arguments are its machine, the journals that it will fill, and the programs of all
    ranks. `noted`: a rank has written a record. Returns the result of `machine.halt` if the run has to end here, else
    None.
    """

    def begins(self, machine: Machine, journals: Sequence[Sequence[RawRecord]], programs: Sequence[Any]) -> None: ...

    def noted(self, rank: int, raw: RawRecord) -> BaseException | None: ...


_present: list[Onlooker] = []


def onlooker() -> Onlooker | None:
    """Returns the present onlooker, or None."""
    return _present[-1] if _present else None


@contextmanager
def looking_on(one: Onlooker) -> Iterator[None]:
    """Shows each run that begins in this process to an onlooker, while the block lasts."""
    _present.append(one)
    try:
        yield
    finally:
        _present.remove(one)


def looked_at(one: Onlooker, rank: int, append: Callable[[RawRecord], None]) -> Callable[[RawRecord], None]:
    """Returns a function that appends a record of a rank and shows it to the onlooker."""

    def noted(raw: RawRecord) -> None:
        append(raw)
        ends = one.noted(rank, raw)
        if ends is not None:
            raise ends

    return noted
