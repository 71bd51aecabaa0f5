"""An issue: a call on a communicator as the backend carries it out, after faults. It is one rank's part in a
collective, or one side of a transfer.

    issue = plan("all_reduce", 8, "int32")
    issue.call                              # ("all_reduce", 8, "int32", None, None, ()), as in records
    issue.rules                             # the rules for all_reduce

Most issues are equal in every step and for all members of a group. So `plan` returns one shared object for equal
arguments. `Issue` is a class with plain fields, because each collective reads it a dozen times. To read a field of a
named tuple takes ten times as long.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dpsim.contract.collectives import COLLECTIVES, UNKNOWN


class Issue:
    """A collective or transfer as the backend carries it out. Immutable.

    `altered`: a fault changed count or dtype, so they do not match the memory. `group`: the number of its coalesced
    group. `call`: the arguments of a collective, in the order of its record (`dpsim.contract.ops.CALL`). `rules`: the
    rules of that collective.
    """

    __slots__ = (
        "altered",
        "call",
        "count",
        "delay_ns",
        "dtype",
        "group",
        "op",
        "peer",
        "reduce",
        "root",
        "rules",
        "sizes",
    )

    def __init__(
        self,
        op: str,
        count: int,
        dtype: str,
        root: int | None = None,
        reduce: str | None = None,
        sizes: tuple[int, ...] = (),
        peer: int | None = None,
        group: int | None = None,
        delay_ns: int = 0,
        altered: bool = False,
    ) -> None:
        self.op = op
        self.count = count
        self.dtype = dtype
        self.root = root
        self.reduce = reduce
        self.sizes = sizes
        self.peer = peer
        self.group = group
        self.delay_ns = delay_ns
        self.altered = altered
        self.call = op, count, dtype, root, reduce, sizes
        self.rules = COLLECTIVES.get(op, UNKNOWN)

    def _replace(self, **fields: Any) -> Issue:
        return Issue(*[fields.pop(name, value) for name, value in zip(_FIELDS, self._values(), strict=True)], **fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Issue) and self._values() == other._values()

    __hash__ = object.__hash__  # identity suffices: no table looks one up by its values

    def __repr__(self) -> str:
        return f"Issue({', '.join(f'{name}={value!r}' for name, value in zip(_FIELDS, self._values(), strict=True))})"

    def _values(self) -> tuple[Any, ...]:
        return (*self.call, self.peer, self.group, self.delay_ns, self.altered)


_FIELDS = ("op", "count", "dtype", "root", "reduce", "sizes", "peer", "group", "delay_ns", "altered")

plan = lru_cache(4096)(Issue)
"""Returns an issue; equal arguments give the same object."""
