"""The forward of one engine, as small as possible: one agreement between hosts, one expert collective on devices.

    execute(3)   3 tokens: dp_cpu agrees on the tokens of all ranks; kernel; ep sums; the host waits for the result
    execute(0)   nothing at all: no forward, and no collective (chapter 10.1)
    dummy()      the same collectives without tokens, and the host does not wait for the device (2.7)

Every forward of one rank meets one of each other rank, so ranks that launch different numbers of them hang (I-EL-1). A
real forward checks its result: the tokens of all ranks, and the version of each rank's weights. A user calls
`update_weights` between a pause and a resume. It is a collective of all engines on another communicator, and it writes
what forwards read.

An engine is its own first worker. It calls its other workers by message for each operation, as an executor does by RPC
(`dpsim.vllm.engine.workers`). It waits for their answers where a user does: not for those of a forward.

A larger engine replaces this step by its own: `execute`, `dummy`, `synchronize`, `update_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, Frozen, Rank

REAL, DUMMY = "engine.real_forward", "engine.dummy_forward"


RPC = "rpc"


class EngineForward:
    """The forwards of one worker. `others`: the ranks that it calls, if it is the first worker of an engine."""

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
        """Run a batch, if it has tokens. Returns whether it had any."""
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
        """Take part without a token. The host does not wait for the device."""
        self.call("dummy")
        self.rank.probe(DUMMY)
        hidden, _ = await self.run(0)
        hidden.free()

    async def run(self, tokens: int) -> tuple[Buffer, int]:
        """Run one forward. Returns its result on the device, and the tokens of all ranks."""
        counts = np.zeros(self.agreement.size, np.int32)
        counts[self.agreement.index] = tokens
        counts = await self.agreement.all_reduce(counts, site="dp.agree")
        hidden = self.main.alloc(1, "int32", "forward.hidden")
        self.main.launch("forward.kernel", forward, reads=[self.weights], writes=[hidden], args=(tokens,))
        self.experts.all_reduce(hidden, self.main, site="forward.experts")
        return hidden, int(counts.sum())

    async def synchronize(self) -> None:
        """Wait until all devices of the engine are idle."""
        self.call("synchronize")
        await self.main.record().synchronize("forward.synchronize")
        await self.answered()

    async def update_weights(self, version: int) -> None:
        """Rank 0 has new weights and broadcasts them, on a separate stream."""
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
        """Let all other workers run an operation."""
        for worker in self.others:
            self.rank.send(worker, RPC, (what, *arguments), f"engine.{what}")

    async def answered(self) -> None:
        """Wait for the answers of all other workers."""
        for _ in self.others:
            await self.rank.mailbox(RPC).get("engine.answers")


MANY = 1 << 16
"""More than the tokens of all ranks: a forward's result has these below, and all versions of weights above."""


def load(weights: Any) -> None:
    """Kernel: write the first version."""
    weights[:] = 0


def write(weights: Any, version: int) -> None:
    """Kernel: write another version."""
    weights[:] = version


def forward(weights: Any, hidden: Any, tokens: int) -> None:
    """Kernel: this rank's tokens, and the version of its weights."""
    hidden[:] = tokens + weights * MANY
