"""Timed mode: when each record of a rank was written, and when its op on a stream ended.

    times = RecordTimes(own, machine.env)
    append = times.append_to(own.append)        # the function that writes the rank's records
    times.chains = device.chains
    times.found()                               # ActorTimes, at the end of the run

A rank writes a record before it appends the op to the stream. So when the rank writes its next record, the tail of the
stream is the op of the previous record. All transfers of a coalesced group share one op, which the stream has when the
group closes. A collective to which the rank contributes nothing leaves the tail unchanged, so its record has no end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpsim.contract.kinds import WORK
from dpsim.contract.ops import KIND, STREAM, TRANSFER_GROUP, RawRecord
from dpsim.contract.times import ActorTimes
from dpsim.sim.graph.environment import Environment
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.chain import Chain

MANY = 64
"""After this number of ops, it replaces ended ops by their end times, since an op takes ten times the memory. A run
with times takes an eighth more time than one without; with 512 here it takes a fifth more.
"""


class RecordTimes:
    """The times of one rank or service. `chains`: its streams, by name."""

    def __init__(self, own: list[RawRecord], env: Environment) -> None:
        self.chains: Mapping[str, Chain] = {}
        self._own, self._env = own, env
        self._written: list[int] = []
        self._over: dict[int, int] = {}
        self._ops: list[tuple[int, Op]] = []
        self._open: tuple[Chain, Op | None, int | None] | None = None  # its stream, the tail before it, its group
        self._at: list[int] = []

    def append_to(self, append: Callable[[RawRecord], Any]) -> Callable[[RawRecord], None]:
        """Returns a function that writes a record with its time. It binds locals for speed: each record passes here."""
        own, env, write, ons = self._own, self._env, self._written.append, WORK

        def noted(raw: RawRecord) -> None:
            if self._open is not None:
                self._close(raw)
            kind = raw[KIND]
            if kind in ons and raw[STREAM] is not None:
                self._begin(len(own), raw)
            write(env._now)
            append(raw)

        return noted

    def found(self) -> ActorTimes:
        """Returns all times, at the end of the run."""
        self._close(None)
        self._keep()
        self.chains = {}
        return ActorTimes(self._written, self._over)

    def _begin(self, at: int, raw: RawRecord) -> None:
        self._at.append(at)
        if self._open is None:
            chain = self.chains[raw[STREAM]]
            self._open = chain, chain.tail, raw[TRANSFER_GROUP] if raw[KIND] == "transfer" else None

    def _close(self, raw: RawRecord | None) -> None:
        """The ops of the previous records are on their stream now, unless their coalesced group is still open."""
        if self._open is None:
            return
        chain, before, group = self._open
        if group is not None and raw is not None and raw[KIND] == "transfer" and raw[TRANSFER_GROUP] == group:
            return
        op = chain.tail
        if op is not before and op is not None:
            for at in self._at:
                self._ops.append((at, op))
            if len(self._ops) >= MANY:
                self._keep()
        self._at.clear()
        self._open = None

    def _keep(self) -> None:
        self._over.update({at: op.at for at, op in self._ops if op.at >= 0})
        self._ops = [(at, op) for at, op in self._ops if op.at < 0]
