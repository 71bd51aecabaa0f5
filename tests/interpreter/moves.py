"""What every instruction ends with: the thread at hand goes on to its next one, and may have learned something."""

from __future__ import annotations

from typing import Any

from tests.interpreter.language import learned
from tests.interpreter.state import Host, State


def goes_on(state: State, rank: int, host: Host) -> State:
    return state.with_host(rank, host._replace(pc=host.pc + 1, until=None, held=False))


def notes(state: State, rank: int, host: Host, value: Any) -> State:
    """The value is noted, and the number stays. Threads note in any order; the outcome does not tell of it."""
    return goes_on(state, rank, host._replace(learned=tuple(sorted((*host.learned, (host.pc, value)), key=_place))))


def learns(state: State, rank: int, host: Host, value: Any) -> State:
    return notes(state, rank, host._replace(number=learned(host.number, value)), value)


def _place(noted: tuple[int, Any]) -> int:
    return noted[0]
