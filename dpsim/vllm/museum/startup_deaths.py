"""Variants of a start-up in which a process dies and another one does not notice: mutants of invariant I-ST-10.

The invariant says that a front end notices a failed participant while others wait (specification 9.3). The death
itself, and the exits of the processes that notice it, are not mistakes. So the museum's scenarios switch off these
findings, and report only the processes that wait without end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_variant
from dpsim.vllm.startup.watched import WatchedWorker, WatchingEngine


def mutant(name: str, expected: str) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="startup_watched", form="0.33", expected=expected)


@mutant("startup-no-sentinel", "HANG:MAILBOX:DEAD_RANK")
class NoSentinel(WatchingEngine):
    """An engine core waits for answers of its workers, but does not watch their processes.

    A killed worker sends no answer, so the engine core and its front end wait without end.
    """

    def watched(self) -> tuple[str, ...]:
        return ()


@mutant("startup-no-death-pipe", "HANG:COLLECTIVE:DEAD_RANK")
class NoDeathPipe(WatchedWorker):
    """A worker does not watch its engine core, so it stays in a collective after the engine core has exited."""

    async def death_pipe(self, rank: Rank) -> None:
        return
