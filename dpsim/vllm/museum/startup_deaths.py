"""Variants of the start-up that do not notice a death: the mutants of I-ST-10 (specification 9.3).

A death, and the end of those that learn of it, are not mistakes of the protocol. So the exhibits switch these classes
off, and report those that wait without end.

    protocol: {name: startup_watched, variant: startup-no-sentinel}
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
    """An engine core waits for answers of its workers and does not watch their processes. One that is killed sends no
    answer, and the front end waits with the engine core.
    """

    def watched(self) -> tuple[str, ...]:
        return ()


@mutant("startup-no-death-pipe", "HANG:COLLECTIVE:DEAD_RANK")
class NoDeathPipe(WatchedWorker):
    """A worker does not watch its engine core, and stays in its collective when that has given up."""

    async def death_pipe(self, rank: Rank) -> None:
        return
