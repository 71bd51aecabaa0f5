"""The workers of an engine besides the first: each worker runs the calls that the engine sends.

    engine, its own first worker     the others
    forward.execute(3)   ---rpc--->  execute(3)
    forward.dummy()      ---rpc--->  dummy()
    forward.synchronize() --rpc--->  synchronize(), and an answer

Sources: specification 2.7 and 10.1.
"""

from __future__ import annotations

from dpsim.contract.interface import Rank
from dpsim.vllm.engine.forward import RPC, EngineForward


class EngineWorker:
    """One worker. `engine`: the rank of its engine's first worker."""

    def __init__(self, rank: Rank, engine: int, forward: EngineForward) -> None:
        self.rank = rank
        self.engine = engine
        self.forward = forward

    async def run(self) -> None:
        """Run calls until the engine sends "stop". Raises TypeError for an unknown call."""
        calls = self.rank.mailbox(RPC)
        self.rank.step = 0
        while True:
            match await calls.get("worker.idle", idle=True):
                case "execute", int(tokens):
                    await self.forward.execute(tokens)
                    self.rank.step += 1
                case ("dummy",):
                    await self.forward.dummy()
                    self.rank.step += 1
                case ("synchronize",):
                    await self.forward.synchronize()
                    self.answer()
                case "update_weights", int(version):
                    await self.forward.update_weights(version)
                    self.answer()
                case ("stop",):
                    return
                case call:
                    raise TypeError(f"rank {self.rank.rank} knows no call {call!r}")

    def answer(self) -> None:
        self.rank.send(self.engine, RPC, "done", "worker.answer")
