"""The participants of a group of engines, by name and number: engines, workers, front ends, a coordinator.

Workers are ranks. Front ends and the coordinator are services, and their numbers follow those of the ranks. An engine
core runs in the process of its first worker, as with vLLM's uniproc executor.

    >>> layout = Layout(size=2, workers=2, frontends=2)
    >>> layout.services
    ('coordinator', 'frontend.0', 'frontend.1')
    >>> layout.frontend(1), layout.engine(2), layout.rank(1), layout.others(1)
    (6, 1, 2, (3,))
    >>> layout.actor(3), layout.actor(4)
    ('engine 1', 'coordinator')

Source: specification 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

COORDINATOR = "coordinator"
FRONTEND = "frontend"


@dataclass(frozen=True)
class Layout:
    """`size`: the engines. `workers`: those of each engine. `frontends`: the API servers."""

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
        """The STOP messages of an engine: one of the coordinator or, without one, of each front end."""
        return 1 if self.coordinated else self.frontends

    def engine(self, rank: int) -> int:
        """The engine (data-parallel rank) of a worker's rank."""
        return rank // self.workers

    def rank(self, engine: int) -> int:
        """The rank of an engine's first worker."""
        return engine * self.workers

    def others(self, engine: int) -> tuple[int, ...]:
        """The ranks of an engine's other workers."""
        return tuple(range(self.rank(engine) + 1, self.rank(engine + 1)))

    def frontend(self, number: int) -> int:
        """The number to which messages for a front end go."""
        return self.size * self.workers + self.coordinated + number

    def actor(self, number: int) -> str:
        """The name of a participant, for messages to users."""
        ranks = self.size * self.workers
        return f"engine {self.engine(number)}" if number < ranks else self.services[number - ranks]
