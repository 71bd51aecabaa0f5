"""The forward of one engine, reduced to its collectives: one agreement between hosts, one expert collective on devices.

    execute(3)   3 tokens: dp_cpu agrees on the tokens of all ranks; kernel; ep sums; the host waits for the result
    execute(0)   nothing at all: no forward, and no collective (specification 10.1)
    dummy()      the same collectives without tokens, and the host does not wait for the device

Each forward of a rank needs one forward of every other rank, so ranks that launch different numbers of forwards hang
(invariant I-EL-1). A real forward checks its result, which contains the tokens of all ranks and the version of each
rank's weights. `update_weights`, between pause and resume, is a collective of all engines that writes these weights.

An engine core is also its first worker, and calls the others (`EngineWorker`) by messages. It waits for their answers
to `synchronize` and `update_weights`, but not to a forward (specification 2.7). Whole engines use other classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, Frozen, Rank

REAL, DUMMY = "engine.real_forward", "engine.dummy_forward"


RPC = "rpc"


class EngineForward:
    """The forwards of one worker. `others`: the other workers, if this one is the first of its engine."""

    def __init__(self, rank: Rank, others: Sequence[int] = ()) -> None:
        self.rank = rank
        self.others = others
        self.main = rank.stream("main")
        self.agreement = rank.host("dp_cpu")
        self.experts = rank.device("ep")
        self.weights = self.main.alloc(1, "int32", "forward.weights")
        self.main.launch("forward.load", load, writes=[self.weights])
        self.version = 0

    async def execute(self, tokens: int) -> bool:
        """Run a batch of `tokens` tokens, if there are any. Returns whether there were any.

        Raises AssertionError if the result has other tokens or weights than the ranks agreed on.
        """
        if not tokens:
            return False
        self.call("execute", tokens)
        self.rank.probe(REAL)
        hidden, whole = await self.run(tokens)
        (value,) = await hidden.read("forward.read")
        hidden.free()
        parts = self.experts.size // self.agreement.size
        expected = parts * whole + self.experts.size * MANY * self.version
        assert value == expected, f"a forward gave {value}, where {whole} tokens and weights {self.version} are agreed"
        return True

    async def dummy(self) -> None:
        """Take part in a forward without tokens. The host does not wait for the device."""
        self.call("dummy")
        self.rank.probe(DUMMY)
        hidden, _ = await self.run(0)
        hidden.free()

    async def run(self, tokens: int) -> tuple[Buffer, int]:
        """Run one forward. Returns its result on the device, and the number of tokens of all ranks."""
        counts = np.zeros(self.agreement.size, np.int32)
        counts[self.agreement.index] = tokens
        counts = await self.agreement.all_reduce(counts, site="dp.agree")
        hidden = self.main.alloc(1, "int32", "forward.hidden")
        self.main.launch("forward.kernel", forward, reads=[self.weights], writes=[hidden], args=(tokens,))
        self.experts.all_reduce(hidden, self.main, site="forward.experts")
        return hidden, int(counts.sum())

    async def synchronize(self) -> None:
        """Wait until the devices of all workers are idle."""
        self.call("synchronize")
        await self.main.record().synchronize("forward.synchronize")
        await self.answered()

    async def update_weights(self, version: int) -> None:
        """Broadcast new weights from the first rank of the group, on a separate stream, and wait for them on all
        workers.
        """
        self.call("update_weights", version)
        stream, group = self.rank.stream("weights"), self.rank.device("dp")
        if group.index == 0:
            stream.launch("weights.write", write, writes=[self.weights], args=(version,))
        group.broadcast(self.weights, group.ranks[0], stream, site="weights.broadcast")
        await stream.record().synchronize("weights.synchronize")
        self.version = version
        await self.answered()

    # ---- the other workers

    def call(self, what: str, *arguments: Frozen) -> None:
        """Send an operation to all other workers."""
        for worker in self.others:
            self.rank.send(worker, RPC, (what, *arguments), f"engine.{what}")

    async def answered(self) -> None:
        """Wait for an answer from each of the other workers."""
        for _ in self.others:
            await self.rank.mailbox(RPC).get("engine.answers")


MANY = 1 << 16
"""More than the tokens of all ranks. The result of a forward is the tokens plus this number times the versions of
weights.
"""


def load(weights: Any) -> None:
    """Kernel: write version 0 of the weights."""
    weights[:] = 0


def write(weights: Any, version: int) -> None:
    """Kernel: write another version of the weights."""
    weights[:] = version


def forward(weights: Any, hidden: Any, tokens: int) -> None:
    """Kernel: write this rank's tokens, plus `MANY` times the version of its weights."""
    hidden[:] = tokens + weights * MANY


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
