"""The sections `faults` and `delays`: faults break the protocol, and a correct protocol must tolerate delays.

A fault happens at one op of one rank, and a delay at one op or at every visit of a site. The address of an op means the
same op in the simulation and on GPUs:

    faults:
      - {kind: skip, rank: 1, at: {site: dp.agree, ordinal: 5}}               # at its sixth visit of the site
      - {kind: alter, rank: 0, at: {communicator: dp, seq: 3}, change: {count: 7}}
    delays:
      - {rank: 2, by: 3ms, at: {site: dp.agree}}                              # at every visit
      - {rank: 3, by: 1s}                                                     # the rank starts late
      - {rank: 0, by: 1ms, at: {thread: ubatch.1}}                            # a host thread starts late

The kinds skip, repeat, alter and die are the wrong uses of collectives that MPI verifiers (MUST, ISP) know. The kind
`insert` makes another call before an op (`dpsim.scenario.inserted`). The kind `kill` exists only in the simulation. It
lets a rank die between any two ops:

    faults:
      - {kind: kill, rank: 1, time: 3ms}              # 3 ms after the start; in an exploration, at any point
      - {kind: kill, rank: 1, at: {site: dp.agree, ordinal: 5}, partial: true, loses_mail: true}      # after that op

Prior art for the form: Chaos Mesh (kind, selector, parameters), Jepsen's nemesis.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from dpsim.contract.ops import MAIN, DType
from dpsim.contract.world import At, Delay, Fault, Kill
from dpsim.scenario.base import Actor, Flag, Index, Problem, RankNumber, StrictModel, Word, refuse
from dpsim.scenario.duration import Duration, PositiveDuration
from dpsim.scenario.inserted import InsertedCall


class OpAddress(StrictModel):
    """The address of an op: `{site, ordinal}`, or for a collective `{communicator, seq}`. Both are counted per rank,
    from 0. The host thread "main" visits the site, unless `thread` names another one, which counts its own visits.
    `{thread}` alone is the start of that thread, for delays.
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
    """Which visit of the rank to the site, from 0. If a delay leaves it out: every visit."""
    thread: Word | None = None
    """The host thread that visits the site. If left out: main."""
    communicator: Word | None = None
    """The name of a communicator, e.g. dp_cpu, or dp_cpu.1 if there are several of this kind."""
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
        """Returns the address for a backend."""
        return At(self.site, self.ordinal, self.communicator, self.seq, self.thread or MAIN)


class Change(StrictModel):
    """How the fault `alter` changes a collective: exactly one of its properties."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    op: Literal["all_reduce", "broadcast", "reduce", "gather", "scatter"] | None = None
    """The name of another collective."""
    count: Annotated[int, Field(ge=1, le=1 << 28, strict=True)] | None = None
    """Another number of elements."""
    dtype: DType | None = None
    """Another element type. If the call reduces and no library reduces this type, nothing changes."""
    root: RankNumber | None = None
    """Another root, as a global rank."""

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
            Problem(("at",), "a fault happens at an op, but a thread without a site is its start: add site and ordinal")
        )
    if at.site is not None and at.ordinal is None:
        refuse(Problem(("at",), "a fault happens once: add ordinal, the number of the visit to the site, from 0"))


class FaultSpec(StrictModel):
    """The fields that all faults have. A file uses one of the kinds below."""

    kind: str
    rank: Actor
    """The global rank that has the fault, or the name of a service."""
    at: OpAddress
    """The op at which the fault happens."""

    @model_validator(mode="after")
    def _one_op(self) -> Self:
        _happens_once(self.at)
        return self

    def fault(self, rank: int) -> Fault:
        """Returns the fault for a backend. `rank`: the number of the rank or service."""
        return Fault(self.kind, rank, self.at.at(), self.changes())  # type: ignore[arg-type]  # each class has one kind

    def changes(self) -> dict[str, Any]:
        """Returns `Fault.change`."""
        return {}


class Skip(FaultSpec):
    """The rank omits a collective, so its next collective pairs with the omitted one of its peers."""

    kind: Literal["skip"]
    """The rank omits the call."""


class Repeat(FaultSpec):
    """The rank makes a collective twice."""

    kind: Literal["repeat"]
    """The rank makes the call twice."""


class Alter(FaultSpec):
    """The rank makes a collective with other arguments than its peers."""

    kind: Literal["alter"]
    """The rank makes the call with another argument."""
    change: Change

    def changes(self) -> dict[str, Any]:
        return self.change.model_dump(exclude_none=True)


class Insert(FaultSpec):
    """The rank makes another call before an op. It does not wait for the result, which its program never gets."""

    kind: Literal["insert"]
    """The rank makes one more call, before that op. At the site `end` with ordinal 0, it comes after the last op."""
    call: InsertedCall

    @model_validator(mode="after")
    def _at_a_site(self) -> Self:
        if self.at.site is None:
            refuse(Problem(("at",), "a call is inserted before an op of the rank: name site and ordinal"))
        return self

    def changes(self) -> dict[str, Any]:
        return self.call.change(self.at.site)


class Die(FaultSpec):
    """The process of the rank ends at an op, without a message to its peers."""

    kind: Literal["die"]
    """The process of the rank ends there."""


class Raise(FaultSpec):
    """The rank's program raises an exception in place of an op."""

    kind: Literal["raise"]
    """The program of the rank raises there."""


class Hang(FaultSpec):
    """The rank stops at an op without end, with all its threads. Its process stays alive."""

    kind: Literal["hang"]
    """The rank stops there, with all its threads."""


class KillSpec(StrictModel):
    """The rank dies between any two of its ops. Only the simulation has this fault. An exploration tries every
    point.
    """

    kind: Literal["kill"]
    """The explorer lets the rank die at each possible point, or not at all."""
    rank: Actor
    """The global rank that may die."""
    at: OpAddress | None = None
    """The op after which it may die. If left out: from the start on."""
    time: Duration = 0
    """In a run with time: how long after the start, or after that op, the rank dies. If left out: at once."""
    partial: Flag = False
    """If the rank dies in a collective, the collective may fail for any of its peers. If left out: for all or none."""
    loses_mail: Flag = False
    """Undelivered messages of the rank may be lost. If left out: they arrive."""

    @model_validator(mode="after")
    def _one_op(self) -> Self:
        if self.at is not None:
            _happens_once(self.at)
        return self

    def kill(self, rank: int) -> Kill:
        """Returns the fault for a backend."""
        return Kill(rank, self.time, None if self.at is None else self.at.at(), self.partial, self.loses_mail)


AnyFault: TypeAlias = Annotated[
    Skip | Repeat | Alter | Insert | Die | Raise | Hang | KillSpec, Field(discriminator="kind")
]


class DelaySpec(StrictModel):
    """A rank is late: at an op, at every visit of a site, or at each start of a thread. Without `at`, it starts
    late.
    """

    rank: Actor
    """The rank that is late, or the name of a service."""
    by: PositiveDuration
    """How late the rank is, such as 3ms."""
    at: OpAddress | None = None
    """The op, the site or the thread that is late. If left out: the start of the rank."""

    def delay(self, rank: int) -> Delay:
        """Returns the delay for a backend."""
        return Delay(rank, At() if self.at is None else self.at.at(), self.by)
