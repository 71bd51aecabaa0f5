"""The forward of one engine, as small as it can be: one agreement between hosts, one expert collective on devices.

    execute(3)   3 tokens: dp_cpu agrees on how many all ranks bring; kernel; ep sums; the host waits for the result
    execute(0)   nothing at all: no forward, and no collective (chapter 10.1)
    dummy()      the same collectives for no token, and nobody waits for the device (2.7)

Every forward of one rank meets one of each other rank, so ranks that launch another number of them hang (I-EL-1). What
a real one computes is checked: tokens of all ranks, and the version of the weights of each. `update_weights` is
what users do between a pause and a resume: a collective of all engines on another communicator, which writes what
forwards read.

A bigger engine puts its own step in place of this one: `execute`, `dummy`, `synchronize`, `update_weights`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.interface import Buffer, Rank

REAL, DUMMY = "engine.real_forward", "engine.dummy_forward"


class Forward:
    """Of one engine that is its own worker, as with vLLM's uniproc executor."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
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
        self.rank.probe(REAL)
        hidden, whole = await self.run(tokens)
        (value,) = await hidden.read("forward.read")
        hidden.free()
        expected = whole + self.experts.size * MANY * self.version
        assert value == expected, f"a forward gave {value}, where {whole} tokens and weights {self.version} are agreed"
        return True

    async def dummy(self) -> None:
        """Take part without a token. The answer does not wait for the device."""
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
        """Until the device has done all that it was given."""
        await self.main.record().synchronize("forward.synchronize")

    async def update_weights(self, version: int) -> None:
        """Rank 0 has new weights and broadcasts them, on a stream of its own."""
        stream, group = self.rank.stream("weights"), self.rank.device("dp")
        if group.index == 0:
            stream.launch("weights.write", write, writes=[self.weights], args=(version,))
        group.broadcast(self.weights, group.ranks[0], stream, site="weights.broadcast")
        await stream.record().synchronize("weights.synchronize")
        self.version = version


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


__all__ = ["DUMMY", "REAL", "Forward"]
