"""Variants of a death that another process does not notice: historical bugs, each the healthy program with one mistake.

Each variant removes one watch or one message. The death itself, and the exits of the processes that notice it, are not
mistakes. So the museum's scenarios switch off these findings, and report only the processes that wait without end.
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
    """A front end learns of an engine's death only from a message of that engine, so a killed engine stays unnoticed.

    The killed engine sends no message, and its front end waits for answers without end. Vllm pull request 21728 lets
    the front end watch the engine's process instead.
    """

    def gone(self, child: int) -> None:
        if self.stopping:
            super().gone(child)


class NoDeathPipe(Monitor):
    """An engine's monitor that does not watch the front ends, which are the parents of the engine."""

    def watched(self) -> tuple[int, ...]:
        return tuple(other for other in super().watched() if other < self.layout.size)


@mutant("orphaned-engine", "HANG:MAILBOX:DEAD_RANK")
class Orphan(WatchedLoop):
    """An engine does not watch its front end: after the front end is killed, the engine keeps running and keeps its
    memory.

    Vllm pull request 55846 repairs this.
    """

    monitor = NoDeathPipe


def mutant_of_survivors(name: str, expected: str) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="dp_survivors", expected=expected)


@mutant_of_survivors("dead-rank-all2all", "HANG:COLLECTIVE:DEAD_RANK")
class Uninterrupted(Breaking):
    """Survivors wait in a device all-to-all with a dead rank, and the host cannot interrupt the kernel.

    Vllm issue 39942 and pull request 44428 describe this.
    """

    def abort_device(self, rank: Rank, dead: int | None) -> None:
        pass


@mutant_of_survivors("dead-columns", "CRASH:ASSERTIONERROR")
class ColumnsOfAll(Agreement):
    """The agreement also reads the empty column of a dead rank.

    So the smallest mode is eager and the token counts differ.
    """

    def columns(self, table: HostArray, living: Sequence[int]) -> HostArray:
        return table
