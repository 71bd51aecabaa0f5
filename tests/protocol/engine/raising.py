"""Engines of which one raises: as a piece, and as a program that worker processes find by its name."""

from __future__ import annotations

from types import MappingProxyType

from dpsim.protocol.engine.loop import EngineLoop
from dpsim.protocol.engine.watched import Watched, WatchedLoop
from dpsim.registry import register_protocol


class Raises(WatchedLoop):
    """Engine 1 raises in its second step."""

    async def step(self) -> bool:
        if self.index == 1 and self.steps == 1:
            raise ValueError("no memory")
        return await super().step()


@register_protocol("engine_raises", forms=("0.33",))
class EngineRaises(Watched):
    """The program `engine_watched` with this engine."""

    replaced = MappingProxyType({**Watched.replaced, EngineLoop: Raises})
