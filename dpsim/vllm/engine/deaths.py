"""Which participants of a group of engines watch each other for deaths, and the error that follows a death.

    an engine watches        the other engines and all front ends (monitor thread), and the coordinator (main thread)
    the coordinator watches  all front ends
    a front end watches      all engines and the coordinator

A front end is the parent of the other processes, as vLLM's launcher is, and ends last. An engine that ends normally
sends LEFT to the others before, and the coordinator sends STOP.

    >>> parents(Layout(size=2, workers=1, frontends=1)), children(Layout(size=2, workers=1, frontends=1))
    ((3,), (0, 1, 2))
"""

from __future__ import annotations

from dpsim.vllm.engine.layout import Layout

DEATHS = "deaths"
"""The mailbox in which an engine's monitor receives notices of deaths."""


class EngineDeadError(RuntimeError):
    """A participant is gone, so the group has to end. The name is vLLM's."""


def parents(layout: Layout) -> tuple[int, ...]:
    """The numbers of the front ends."""
    return tuple(layout.frontend(number) for number in range(layout.frontends))


def children(layout: Layout) -> tuple[int, ...]:
    """The numbers of the engines and, if there is one, of the coordinator."""
    engines = [layout.rank(engine) for engine in range(layout.size)]
    return *engines, *[layout.frontend(0) - 1] * layout.coordinated
