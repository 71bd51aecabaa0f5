"""Historical bugs of deaths and shutdowns, area 6: one participant is gone, and another one does not learn of it.

Each is `engine_watched` with one watch or one message less. A death, and the end of those that learn of it, are not
mistakes of the protocol. So the exhibits switch these classes off, and report those that wait without end.

    protocol: {name: engine_watched, variant: silent-engine-death}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpsim.contract.interface import HostArray, Rank
from dpsim.contract.registry import register_variant
from dpsim.vllm.engine.monitor import Monitor
from dpsim.vllm.engine.survivors import Agreement, Breaking
from dpsim.vllm.engine.watched import WatchedFrontEnd, WatchedLoop


def mutant(name: str, expected: str) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="engine_watched", form="0.33", expected=expected)


@mutant("silent-engine-death", "HANG:MAILBOX:DEAD_RANK")
class ToldByMessage(WatchedFrontEnd):
    """An engine reports its own death by a message. If it is killed it sends none, and its front end waits on.

    Vllm pull request 21728, which looks at the processes.
    """

    def gone(self, child: int) -> None:
        if self.stopping:
            super().gone(child)


class NoDeathPipe(Monitor):
    """It does not watch the parents."""

    def watched(self) -> tuple[int, ...]:
        return tuple(other for other in super().watched() if other < self.layout.size)


@mutant("orphaned-engine", "HANG:MAILBOX:DEAD_RANK")
class Orphan(WatchedLoop):
    """An engine does not watch its front end. When that is killed, the engine stays and keeps its memory.

    Vllm pull request 55846.
    """

    monitor = NoDeathPipe


def mutant_of_survivors(name: str, expected: str) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="dp_survivors", expected=expected)


@mutant_of_survivors("dead-rank-all2all", "HANG:COLLECTIVE:DEAD_RANK")
class Uninterrupted(Breaking):
    """Survivors wait in a device all-to-all with a dead rank, which the host cannot interrupt.

    Vllm issue 39942 and pull request 44428.
    """

    def abort_device(self, rank: Rank, dead: int | None) -> None:
        pass


@mutant_of_survivors("dead-columns", "CRASH:ASSERTIONERROR")
class ColumnsOfAll(Agreement):
    """The empty column of a dead rank counts: the least mode is eager, and the token counts differ."""

    def columns(self, table: HostArray, living: Sequence[int]) -> HostArray:
        return table
