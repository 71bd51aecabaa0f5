"""Who takes part where engine cores are processes of their own: services behind all workers.

    >>> layout = CoreLayout(size=2, workers=2, frontends=1)
    >>> layout.services
    ('engine.0', 'engine.1', 'coordinator', 'frontend.0')
    >>> layout.rank(1), layout.engine(5), layout.frontend(0), layout.others(1)
    (5, 1, 7, (2, 3))
    >>> layout.actor(3), layout.actor(4)
    ('rank 3', 'engine.0')

Source: specification chapter 2.1.
"""

from __future__ import annotations

from dpsim.vllm.engine.layout import Layout

CORE = "engine"


class CoreLayout(Layout):
    """`rank` of an engine is the number by which messages reach its core."""

    @property
    def services(self) -> tuple[str, ...]:
        return (*[f"{CORE}.{number}" for number in range(self.size)], *super().services)

    def engine(self, rank: int) -> int:
        """The data-parallel rank of a core."""
        return rank - self.size * self.workers

    def rank(self, engine: int) -> int:
        return self.size * self.workers + engine

    def others(self, engine: int) -> tuple[int, ...]:
        """The ranks of its workers, all of them."""
        return tuple(range(engine * self.workers, (engine + 1) * self.workers))

    def frontend(self, number: int) -> int:
        return self.size + super().frontend(number)

    def actor(self, number: int) -> str:
        return f"rank {number}" if number < self.size * self.workers else super().actor(number)
