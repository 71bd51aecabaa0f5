"""The key `call` of the fault `insert`: a call that no program of the scenario makes.

    faults:
      - {kind: insert, rank: 1, at: {site: dp.read, ordinal: 3}, call: {communicator: dp_cpu, op: all_reduce, count: 8}}

The rank makes the call before its op at that address, and does not wait for the result. Its contribution changes no
sum, maximum, minimum or product. So the fault shows what one call too many does, and whether a missing call explains a
hang.
`InsertedCall` refuses keys that do not belong to the op. `wrong_insertions` compares the call with the world.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from dpsim.contract.ops import DType, ReduceOp
from dpsim.contract.words import did_you_mean
from dpsim.contract.world import CommunicatorSpec
from dpsim.scenario.base import Index, KeyPath, Problem, RankNumber, StrictModel, Word, refuse

if TYPE_CHECKING:
    from dpsim.contract.collectives.rules import CollectiveRules

Elements = Annotated[int, Field(ge=0, le=1 << 28, strict=True)]

OWN_KEYS = ("root", "reduce", "sizes", "peer")
"""The keys that only some ops have."""

SIZED = ("all_gather", "reduce_scatter", "all_to_all")
"""The ops that may have sizes."""

DIVIDED = ("reduce_scatter", "scatter", "all_to_all")
"""The ops whose members each get an equal part of the elements, without sizes."""


def _collectives() -> dict[str, CollectiveRules]:
    from dpsim.contract.collectives import COLLECTIVES  # it imports numpy, which `dpsim schema` does not need

    return COLLECTIVES


def _known(op: str) -> str:
    if op not in (ops := [*_collectives(), "send", "recv"]):
        refuse(Problem((), f"no op {op!r}; expected one of {', '.join(ops)}{did_you_mean(op, ops)}"))
    return op


class InsertedCall(StrictModel):
    """The call that the fault `insert` adds, with the fields of its record."""

    communicator: Word
    """The name of the communicator, e.g. dp_cpu."""
    op: Annotated[Word, AfterValidator(_known)]
    """The name of a collective, or send or recv."""
    count: Elements = 0
    """The number of elements that the rank contributes, or transfers."""
    dtype: DType = "int32"
    """The element type."""
    root: RankNumber | None = None
    """The root of a broadcast, reduce, gather or scatter, as a global rank."""
    reduce: ReduceOp | None = None
    """The reduction of an all_reduce, reduce_scatter or reduce. If left out: sum."""
    sizes: tuple[Elements, ...] = ()
    """The size of each member's piece. For all_to_all: of the pieces to send, then of those to receive."""
    peer: RankNumber | None = None
    """The other rank of a send or recv."""
    stream: Word | None = None
    """The stream, if it is a device communicator."""
    site: Word | None = None
    """The site of the call. If left out: that of the address."""
    step: Index | None = None
    """The step tag of the call. If left out: the present one."""

    @model_validator(mode="after")
    def _of_the_op(self) -> Self:
        rules = _collectives().get(self.op)
        needs = {"peer"} if rules is None else {"root"} if rules.rooted else set()
        may = needs | ({"reduce"} if rules is not None and rules.reduces else set())
        may |= {"sizes"} if self.op in SIZED else set()
        given = {key for key in OWN_KEYS if getattr(self, key) not in (None, ())}
        if self.op == "barrier" and self.count:
            refuse(Problem(("count",), "a barrier has no elements; leave count out"))
        if rules is not None and rules.reduces:
            from dpsim.contract.collectives.reductions import reduction_name

            try:
                reduction_name(self.reduce or "sum", self.dtype)
            except ValueError as error:
                refuse(Problem(("dtype",), str(error)))
        refuse(
            *(
                Problem((key,), f"a call of {self.op} has no {key}; leave it out")
                for key in OWN_KEYS
                if key in given - may
            ),
            *(Problem((), f"a call of {self.op} needs {key}") for key in sorted(needs - given)),
        )
        return self

    def change(self, site: str | None) -> dict[str, Any]:
        """Returns the fields for a backend. `site`: that of the address."""
        fields = self.model_dump(exclude_none=True)
        if (rules := _collectives().get(self.op)) is not None and rules.reduces:
            fields.setdefault("reduce", "sum")
        return {"site": site, **fields, "sizes": self.sizes}


def wrong_insertions(call: InsertedCall, rank: int | str, groups: Sequence[CommunicatorSpec]) -> Iterator[Problem]:
    """Yields a problem for each part of a call that does not fit the communicators of the world. Paths begin at the
    fault.
    """
    group = next((one for one in groups if one.name == call.communicator), None)
    if group is None:
        names = [one.name for one in groups]
        few = f"; expected one of {', '.join(names)}" if len(names) <= 12 else ""
        hint = did_you_mean(call.communicator, names)
        yield Problem(("call", "communicator"), f"no communicator {call.communicator!r} in this world{few}{hint}")
        return
    path: KeyPath
    for path, member in ((("rank",), rank), (("call", "root"), call.root), (("call", "peer"), call.peer)):
        if isinstance(member, int) and member not in group.ranks:
            yield Problem(path, f"rank {member} is not in the communicator {group.name}, which has {some(group.ranks)}")
    if call.peer == rank:
        yield Problem(("call", "peer"), f"rank {rank} cannot be its own peer")
    if (group.domain == "device") != (call.stream is not None):
        wants = "needs stream" if group.domain == "device" else "has no stream; leave stream out"
        yield Problem(("call",), f"a call on {group.name}, a {group.domain} communicator, {wants}")
    if group.domain == "device" and call.op == "barrier":
        yield Problem(("call", "op"), "only host communicators have barrier")
    if call.op in DIVIDED and not call.sizes and call.count % len(group.ranks):
        yield Problem(
            ("call", "count"), f"{call.count} elements; {call.op} on {group.name} needs a multiple of its size"
        )
    wanted = len(group.ranks) * (2 if call.op == "all_to_all" else 1)
    if call.sizes and len(call.sizes) != wanted:
        yield Problem(("call", "sizes"), f"{len(call.sizes)} sizes; {call.op} on {group.name} needs {wanted}")
    elif call.sizes and rank in group.ranks:
        yield from _uneven(call, group.ranks.index(rank), len(group.ranks))


def _uneven(call: InsertedCall, index: int, members: int) -> Iterator[Problem]:
    """Yields a problem if the sizes and the count differ. `index`: that of the rank in the communicator."""
    brings = call.sizes[index] if call.op == "all_gather" else sum(call.sizes[:members])
    if brings != call.count:
        yield Problem(("call", "count"), f"the sizes say {brings} elements of this rank, and count says {call.count}")


def some(ranks: Sequence[int]) -> str:
    """Returns the first ranks of a communicator as text."""
    text = ", ".join(map(str, ranks[:8]))
    return f"ranks {text}, ..." if len(ranks) > 8 else f"rank{'s' if len(ranks) > 1 else ''} {text}"
