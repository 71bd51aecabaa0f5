"""The participants of a group of engines, by name and number: engines, front ends, a coordinator.

An engine core is its own first worker here, as with vLLM's uniproc executor. Workers are ranks, all others services.

    >>> layout = Layout(size=2, workers=2, frontends=2)
    >>> layout.services
    ('coordinator', 'frontend.0', 'frontend.1')
    >>> layout.frontend(1), layout.engine(2), layout.rank(1), layout.others(1)
    (6, 1, 2, (3,))
    >>> layout.actor(3), layout.actor(4)
    ('engine 1', 'coordinator')

Source: specification chapter 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

COORDINATOR = "coordinator"
FRONTEND = "frontend"


@dataclass(frozen=True)
class Layout:
    """`size`: engines; `workers` of each; `frontends`: API servers, each with a client of the engines."""

    size: int
    workers: int
    frontends: int

    @property
    def coordinated(self) -> bool:
        return self.size > 1

    @property
    def services(self) -> tuple[str, ...]:
        names = [f"{FRONTEND}.{number}" for number in range(self.frontends)]
        return (*[COORDINATOR] * self.coordinated, *names)

    @property
    def stops(self) -> int:
        """The number of STOP messages to an engine: one of the coordinator, or, without one, one of each front end."""
        return 1 if self.coordinated else self.frontends

    def engine(self, rank: int) -> int:
        """The data-parallel rank of a worker."""
        return rank // self.workers

    def rank(self, engine: int) -> int:
        """An engine's own rank, that of its first worker."""
        return engine * self.workers

    def others(self, engine: int) -> tuple[int, ...]:
        """The ranks of its other workers."""
        return tuple(range(self.rank(engine) + 1, self.rank(engine + 1)))

    def frontend(self, number: int) -> int:
        """The number by which messages reach a front end."""
        return self.size * self.workers + self.coordinated + number

    def actor(self, number: int) -> str:
        """An actor in words."""
        ranks = self.size * self.workers
        return f"engine {self.engine(number)}" if number < ranks else self.services[number - ranks]
