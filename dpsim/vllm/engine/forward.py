"""The forward of one engine, as small as it can be: one agreement between hosts, one expert collective on devices.

    execute(3)   3 tokens: dp_cpu agrees on how many all ranks bring; kernel; ep sums; the host waits for the result
    execute(0)   nothing at all: no forward, and no collective (chapter 10.1)
    dummy()      the same collectives for no token, and nobody waits for the device (2.7)

Every forward of one rank meets one of each other rank, so ranks that launch another number of them hang (I-EL-1). What
a real one computes is checked: tokens of all ranks, and the version of the weights of each. `update_weights` is
what users do between a pause and a resume: a collective of all engines on another communicator, which writes what
forwards read.

An engine is its own first worker, and calls its others by message for everything it does, as an executor by RPC
(`dpsim.vllm.engine.workers`). It waits for their answers where a user does: not for those of a forward.

A bigger engine puts its own step in place of this one: `execute`, `dummy`, `synchronize`, `update_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, Frozen, Rank

REAL, DUMMY = "engine.real_forward", "engine.dummy_forward"


RPC = "rpc"


class EngineForward:
    """Of one worker. `others`: the ranks of those that it calls, if it is an engine's first."""

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
        """Run a batch, if it has tokens: whether it had."""
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
        """Take part without a token. The answer does not wait for the device."""
        self.call("dummy")
        self.rank.probe(DUMMY)
        hidden, _ = await self.run(0)
        hidden.free()

    async def run(self, tokens: int) -> tuple[Buffer, int]:
        """One forward: its result on the device, and how many tokens all ranks have."""
        counts = np.zeros(self.agreement.size, np.int32)
        counts[self.agreement.index] = tokens
        counts = await self.agreement.all_reduce(counts, site="dp.agree")
        hidden = self.main.alloc(1, "int32", "forward.hidden")
        self.main.launch("forward.kernel", forward, reads=[self.weights], writes=[hidden], args=(tokens,))
        self.experts.all_reduce(hidden, self.main, site="forward.experts")
        return hidden, int(counts.sum())

    async def synchronize(self) -> None:
        """Until all devices of the engine have done what they were given."""
        self.call("synchronize")
        await self.main.record().synchronize("forward.synchronize")
        await self.answered()

    async def update_weights(self, version: int) -> None:
        """Rank 0 has new weights and broadcasts them, on a stream of its own."""
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
        """Let all others run something."""
        for worker in self.others:
            self.rank.send(worker, RPC, (what, *arguments), f"engine.{what}")

    async def answered(self) -> None:
        """Wait for the answers of all others."""
        for _ in self.others:
            await self.rank.mailbox(RPC).get("engine.answers")


MANY = 1 << 16
"""More than the tokens of all ranks: a forward's result is these, and the versions of all ranks' weights above."""


def load(weights: Any) -> None:
    """Kernel: the first version."""
    weights[:] = 0


def write(weights: Any, version: int) -> None:
    """Kernel: another version."""
    weights[:] = version


def forward(weights: Any, hidden: Any, tokens: int) -> None:
    """Kernel: this rank's tokens, and the version of its weights."""
    hidden[:] = tokens + weights * MANY
