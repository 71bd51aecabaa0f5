"""Who takes part in a group of engines, by name and number: engines, front ends, a coordinator.

An engine core is a rank, as with vLLM's uniproc executor, or, where it has workers, a service; all others are services.

    >>> layout = Layout(size=2, frontends=2)
    >>> layout.services
    ('coordinator', 'frontend.0', 'frontend.1')
    >>> layout.frontend(1), layout.engine(1)
    (4, 1)
    >>> apart = Layout(size=2, frontends=1, workers=4)
    >>> apart.services, apart.core(1), apart.engine(5)
    (('engine.0', 'engine.1', 'coordinator', 'frontend.0'), 5, 1)

Source: specification chapter 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

COORDINATOR = "coordinator"
FRONTEND = "frontend"
ENGINE = "engine"


@dataclass(frozen=True)
class Layout:
    """`size`: engines; `frontends`: API servers, each with a client of the engines; `workers`: ranks that are none."""

    size: int
    frontends: int
    workers: int = 0

    @property
    def coordinated(self) -> bool:
        return self.size > 1

    @property
    def services(self) -> tuple[str, ...]:
        engines = [f"{ENGINE}.{number}" for number in range(self.size if self.workers else 0)]
        names = [f"{FRONTEND}.{number}" for number in range(self.frontends)]
        return (*engines, *[COORDINATOR] * self.coordinated, *names)

    @property
    def stops(self) -> int:
        """How many tell an engine to stop: the coordinator, or, where there is none, all front ends."""
        return 1 if self.coordinated else self.frontends

    def engine(self, rank: int) -> int:
        """The data-parallel rank of an engine core, of which this is the number."""
        return rank - self.workers

    def core(self, engine: int) -> int:
        """The number by which messages reach an engine."""
        return self.workers + engine

    def frontend(self, number: int) -> int:
        """The number by which messages reach a front end."""
        return self.workers + self.size + self.coordinated + number


__all__ = ["COORDINATOR", "ENGINE", "FRONTEND", "Layout"]
