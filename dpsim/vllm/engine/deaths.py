"""Who watches whom in a group of engines, and what is said by those who end because somebody is gone.

    engine        the other engines and all front ends, by its monitor; the coordinator, among its messages
    coordinator   all front ends
    front end     all engines and the coordinator

A front end is the parent, as vLLM's launcher is: it leaves last, when all the others have. So that a front end is gone
is never in order. An engine that leaves in order says LEFT to the others before, and a coordinator says STOP.
Whoever ends because another is gone is gone itself, so the news reaches those who do not watch the first.

    >>> parents(Layout(size=2, workers=1, frontends=1)), children(Layout(size=2, workers=1, frontends=1))
    ((3,), (0, 1, 2))
"""

from __future__ import annotations

from dpsim.vllm.engine.layout import Layout

DEATHS = "deaths"
"""The mailbox of an engine's monitor."""


class EngineDeadError(RuntimeError):
    """Somebody of the group is gone, and nothing can be done together any more; vLLM's name of it."""


def parents(layout: Layout) -> tuple[int, ...]:
    """The front ends, by number."""
    return tuple(layout.frontend(number) for number in range(layout.frontends))


def children(layout: Layout) -> tuple[int, ...]:
    """The engines and, if there is one, the coordinator, who stands before the front ends."""
    engines = [layout.rank(engine) for engine in range(layout.size)]
    return *engines, *[layout.frontend(0) - 1] * layout.coordinated
