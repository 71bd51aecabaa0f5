"""What a scenario does to a healthy run: faults, which break the protocol, and delays, which it has to tolerate.

Both happen at the address of an op on one rank, and an address means the same op in the simulation and on GPUs:

    faults:
      - {kind: skip, rank: 1, at: {site: dp.agree, ordinal: 5}}               # its sixth visit of the site
      - {kind: alter, rank: 0, at: {communicator: dp, seq: 3}, change: {count: 7}}
    delays:
      - {rank: 2, by: 3ms, at: {site: dp.agree}}                              # every visit
      - {rank: 3, by: 1s}                                                     # the rank starts late
      - {rank: 0, by: 1ms, at: {thread: ubatch.1}}                            # a host thread of it does

Four kinds are what MPI verifiers (MUST, ISP) count as wrong use of collectives: left out, made twice, made differently,
and dead processes. The fifth, `kill`, is a death that no op of the rank has to do with, on the simulation only:

    faults:
      - {kind: kill, rank: 1, time: 3ms}              # 3 ms after the start; where schedules are explored, at any point
      - {kind: kill, rank: 1, at: {site: dp.agree, ordinal: 5}, partial: true, loses_mail: true}      # from that op on

Prior art for the shape: Chaos Mesh (kind, selector, parameters), Jepsen's nemesis.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from dpsim.contract.ops import MAIN, DType
from dpsim.contract.world import At, Delay, Fault, Kill
from dpsim.scenario.base import Actor, Flag, Index, Problem, RankNumber, StrictModel, Word, refuse
from dpsim.scenario.duration import Duration, PositiveDuration


class OpAddress(StrictModel):
    """Where: `{site, ordinal}`, or for a collective `{communicator, seq}`. Counted per rank, from 0. A site is visited
    by the host thread "main" unless `thread` names another one, which counts its own visits. `{thread}` alone: where
    that thread starts, for delays.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["site"]},
                {"required": ["communicator", "seq"]},
                {"required": ["thread"], "maxProperties": 1},
            ]
        }
    )

    site: Word | None = None
    """The name of the op in the protocol's source, e.g. dp.agree."""
    ordinal: Index | None = None
    """Which visit of the rank to the site, from 0. Delays may leave it out: every visit."""
    thread: Word | None = None
    """The host thread that visits the site; main if left out."""
    communicator: Word | None = None
    """The name of a communicator, e.g. dp_cpu; dp_cpu.1 where there are several of a kind."""
    seq: Index | None = None
    """Which collective of the rank on the communicator, from 0."""

    @model_validator(mode="after")
    def _one_pair(self) -> Self:
        keys = sorted(self.model_dump(exclude_none=True))
        visit = [key for key in keys if key != "thread"] if self.site is not None else keys
        if visit not in (["ordinal", "site"], ["site"], ["communicator", "seq"], ["thread"]):
            given = ", ".join(keys) or "nothing"
            refuse(Problem((), f"an address is either site and ordinal, or communicator and seq; given: {given}"))
        return self

    def at(self) -> At:
        """As a backend receives it."""
        return At(self.site, self.ordinal, self.communicator, self.seq, self.thread or MAIN)


class Change(StrictModel):
    """What a collective is altered to: exactly one of its properties."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    op: Literal["all_reduce", "broadcast", "reduce", "gather", "scatter"] | None = None
    """Another collective, by its name."""
    count: Annotated[int, Field(ge=1, le=1 << 28, strict=True)] | None = None
    """Another number of elements."""
    dtype: DType | None = None
    """Another element type. Where the call reduces, a type that no library reduces so changes nothing."""
    root: RankNumber | None = None
    """Another root: a global rank."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        keys = list(self.model_dump(exclude_none=True))
        if len(keys) != 1:
            given = ", ".join(keys) or "nothing"
            refuse(Problem((), f"a change names exactly one of op, count, dtype, root; given: {given}"))
        return self


def _happens_once(at: OpAddress) -> None:
    if at.site is None and at.communicator is None:
        refuse(
            Problem(("at",), "a fault happens at an op, and a thread alone is where it starts: add site and ordinal")
        )
    if at.site is not None and at.ordinal is None:
        refuse(Problem(("at",), "a fault happens once: add ordinal, the number of the visit to the site, from 0"))


class FaultSpec(StrictModel):
    """What all faults have. Use one of the kinds below."""

    kind: str
    rank: Actor
    """The global rank that misbehaves, or the name of a service."""
    at: OpAddress
    """The op at which it does."""

    @model_validator(mode="after")
    def _one_op(self) -> Self:
        _happens_once(self.at)
        return self

    def fault(self, rank: int) -> Fault:
        """As a backend receives it; `rank`: the number of the one named."""
        change = self.change.model_dump(exclude_none=True) if isinstance(self, Alter) else {}
        return Fault(self.kind, rank, self.at.at(), change)  # type: ignore[arg-type]


class Skip(FaultSpec):
    """The rank leaves a collective out, so its next one pairs up with its peers' skipped one."""

    kind: Literal["skip"]
    """The rank leaves the call out."""


class Repeat(FaultSpec):
    """The rank makes a collective twice."""

    kind: Literal["repeat"]
    """The rank makes the call twice."""


class Alter(FaultSpec):
    """The rank makes a collective differently from its peers."""

    kind: Literal["alter"]
    """The rank makes the call with another argument."""
    change: Change


class Die(FaultSpec):
    """The rank's process ends at an op, without a word."""

    kind: Literal["die"]
    """The process of the rank ends there."""


class Raise(FaultSpec):
    """An exception is raised in the rank's program at an op, which is not made."""

    kind: Literal["raise"]
    """The program of the rank raises there."""


class Hang(FaultSpec):
    """The rank stands at an op without end, with all its threads. Its process stays alive."""

    kind: Literal["hang"]
    """The rank stops there, with all its threads."""


class KillSpec(StrictModel):
    """The rank dies between any two of its ops. Simulation only: where schedules are explored, at any point at all."""

    kind: Literal["kill"]
    """A search lets the rank die at any point, or not at all."""
    rank: Actor
    """The global rank that may die."""
    at: OpAddress | None = None
    """The op from which on it may die. Left out: from the start."""
    time: Duration = 0
    """In a run with time: how long after the start, or after the rank reached that op. Left out: at once."""
    partial: Flag = False
    """In a collective it may take any of its peers with it. Left out: all of them or none."""
    loses_mail: Flag = False
    """Messages that it posted and that are not delivered yet may be lost. Left out: they arrive."""

    @model_validator(mode="after")
    def _one_op(self) -> Self:
        if self.at is not None:
            _happens_once(self.at)
        return self

    def kill(self, rank: int) -> Kill:
        """As a backend receives it."""
        return Kill(rank, self.time, None if self.at is None else self.at.at(), self.partial, self.loses_mail)


AnyFault: TypeAlias = Annotated[Skip | Repeat | Alter | Die | Raise | Hang | KillSpec, Field(discriminator="kind")]


class DelaySpec(StrictModel):
    """A rank comes late to an op, to every visit of a site, to each start of a thread, or, without `at`, to the run."""

    rank: Actor
    """The rank that is late, or the name of a service."""
    by: PositiveDuration
    """How late the rank arrives, such as 3ms."""
    at: OpAddress | None = None
    """The op, the site or the thread that is late. Left out: the start of the rank."""

    def delay(self, rank: int) -> Delay:
        """As a backend receives it."""
        return Delay(rank, At() if self.at is None else self.at.at(), self.by)
