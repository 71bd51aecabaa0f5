"""Which participant of a group of engines watches which, and the error of those that end because of a death.

    engine        the other engines and all front ends, by its monitor; the coordinator, among its messages
    coordinator   all front ends
    front end     all engines and the coordinator

A front end is the parent, as vLLM's launcher is: it leaves last, after all the others. So a front end that is gone has
never left in order. An engine that leaves in order sends LEFT to the others before, and a coordinator sends STOP.
A participant that ends because of a death is gone itself. So the news reaches those that do not watch the first one.

    >>> parents(Layout(size=2, workers=1, frontends=1)), children(Layout(size=2, workers=1, frontends=1))
    ((3,), (0, 1, 2))
"""

from __future__ import annotations

from dpsim.vllm.engine.layout import Layout

DEATHS = "deaths"
"""The mailbox of an engine's monitor."""


class EngineDeadError(RuntimeError):
    """A participant is gone, and the group cannot go on. The name is vLLM's."""


def parents(layout: Layout) -> tuple[int, ...]:
    """The front ends, by number."""
    return tuple(layout.frontend(number) for number in range(layout.frontends))


def children(layout: Layout) -> tuple[int, ...]:
    """The engines and, if there is one, the coordinator, whose number precedes those of the front ends."""
    engines = [layout.rank(engine) for engine in range(layout.size)]
    return *engines, *[layout.frontend(0) - 1] * layout.coordinated
