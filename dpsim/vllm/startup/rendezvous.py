"""The members of a group meet at a port, and make barriers and reductions over a store, each with a time-out.

The first member listens (`dpsim.vllm.startup.ports`), the others connect to its store and send it their values, and it
sends all the result. If a member is missing or has failed, the first member sends this error instead. So all members
raise the same error, which names the missing member.

    engines = await come(ports, "engine DP group", ["engine.0", "engine.1"], 1)
    await engines.barrier("start")
    smallest = await engines.reduce(bytes, min)

Torch makes a stateless group in this way, and the barrier at the end of each `new_group`.

Sources: specification 8.3, 8.5 and 9.2 (steps 5 and 7); invariants I-CF-3 and I-CF-5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpsim.contract.interface import Frozen, Rank, Store
from dpsim.vllm.startup.conversation import FAILED, OK, Child, Parent
from dpsim.vllm.startup.errors import LATE, NobodyCame, OneFailed, StartupError
from dpsim.vllm.startup.layout import GROUP_NS
from dpsim.vllm.startup.ports import GroupPorts, still_there


class Meeting:
    """One member's side, at `index` of `members`. `cure`: the hint if the first one waits in vain."""

    def __init__(
        self, rank: Rank, store: Store, group: str, members: Sequence[str], index: int, cure: str = LATE
    ) -> None:
        self.rank = rank
        self.store = store
        self.group = group
        self.members = members
        self.index = index
        self._first = Parent(store, members[index], where=f"in {group} at port {store.port}", cure=cure)
        self._other = Child(store, members[index])
        self._number = 0

    @property
    def size(self) -> int:
        return len(self.members)

    async def reduce(self, value: Frozen, how: Callable[[list[Any]], Frozen], doing: str) -> Frozen:
        """All values, in order, with `how`; every member gets the result. Raises OneFailed and NobodyCame."""
        number, self._number = self._number, self._number + 1
        if self.index:
            self._other.report(value, doing)
            return await self._hear(number, doing)
        try:
            values = [value, *await self._first.receive_all(self.members[1:], doing, GROUP_NS)]
        except StartupError as error:
            self._number = number
            self.fail(error)
            raise
        result = how(values)
        self._first.call(f"met/{number}", (OK, result))
        return result

    def fail(self, error: Exception) -> None:
        """Report to the waiting members that this one cannot continue."""
        if self.index:
            self._other.fail(error)
        else:
            of = error.of if isinstance(error, OneFailed) else type(error).__name__
            self._first.call(f"met/{self._number}", (FAILED, self.members[0], of, str(error)))

    async def barrier(self, doing: str) -> None:
        """Wait until all members are here."""
        await self.reduce(True, all, doing)

    async def _hear(self, number: int, doing: str) -> Frozen:
        """The first member itself waits for the others, so the time-out here is twice as long."""
        answer = await self.store.get(f"met/{number}", f"met.{doing}", timeout_ns=2 * GROUP_NS)
        if answer is None:
            await still_there(self.rank, self.store, self.members[0], self.group, "first_member.listens")
            where = f"at port {self.store.port} of node {self.store.node}, in {self.group} ({doing})"
            cure = "it has left, or another program listens there"
            raise NobodyCame(self.members[self.index], self.members[0], where, 2 * GROUP_NS, cure)
        assert isinstance(answer, tuple)
        if answer[0] == FAILED:
            raise OneFailed(*map(str, answer[1:]))
        return answer[1]


async def come(ports: GroupPorts, group: str, members: Sequence[str], index: int) -> Meeting:
    """Join a group as one member. It does not wait for the others; the first barrier does. Raises StartupError."""
    store = await (ports.find(group, members[0]) if index else ports.bind(group))
    return Meeting(ports.rank, store, group, members, index, ports.cure)
