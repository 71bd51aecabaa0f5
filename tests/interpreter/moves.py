"""The end of every instruction: the current thread continues at its next instruction, and may have learned a value."""

from __future__ import annotations

from typing import Any

from tests.interpreter.language import learned
from tests.interpreter.state import Host, State


def goes_on(state: State, rank: int, host: Host) -> State:
    return state.with_host(rank, host._replace(pc=host.pc + 1, until=None, held=False))


def notes(state: State, rank: int, host: Host, value: Any) -> State:
    """Notes the value and keeps the number. The noted values are sorted by place, so the outcome does not show the
    order in which threads noted them.
    """
    return goes_on(state, rank, host._replace(learned=tuple(sorted((*host.learned, (host.pc, value)), key=_place))))


def learns(state: State, rank: int, host: Host, value: Any) -> State:
    return notes(state, rank, host._replace(number=learned(host.number, value)), value)


def _place(noted: tuple[int, Any]) -> int:
    return noted[0]
