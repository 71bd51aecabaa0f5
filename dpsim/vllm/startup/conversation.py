"""Messages between a parent process and its children, over a store at which the parent listens: calls, answers,
failures.

A child sends its answers in order, failures too:

    child: say(bytes)            parent: await hear("engine.0", READY_NS)
    child: fail(error)                   raises OneFailed
    (a dead child)                       raises NobodyCame when the time is up

A parent calls its children by setting a key of the store, and the children wait for this key. When the parent leaves,
it closes its store, and children that wait get the exception `Stopped`.

Sources: specification 9.2, steps 3, 4, 14 and 20 (sockets and pipes), and invariant I-ST-10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dpsim.contract.interface import Frozen, Store
from dpsim.vllm.startup.errors import LATE, NobodyCame, OneFailed, StartupError, Stopped, root_of

OK, FAILED = "ok", "failed"
NO_TITLES: Mapping[str, str] = MappingProxyType({})


class Parent:
    """The parent's side. `titles`: its children in errors; `where` they should arrive, and the `cure`."""

    def __init__(
        self,
        store: Store,
        name: str,
        titles: Mapping[str, str] = NO_TITLES,
        where: str = "",
        cure: str = LATE,
    ) -> None:
        self.store = store
        self.name = name
        self._titles = titles
        self._where = where
        self._cure = cure
        self._received: dict[str, int] = {}

    def call(self, key: str, value: Frozen = True) -> None:
        """Call all children that wait for the key."""
        self.store.set(key, value, f"call.{key.partition('/')[0]}")

    async def receive(self, child: str, doing: str, timeout_ns: int) -> Frozen:
        """A child's next answer. OneFailed, NobodyCame, or Stopped if another participant stopped the child."""
        number = self._received.get(child, 0)
        answer = await self.store.get(f"{child}/{number}", f"hear.{doing}", timeout_ns=timeout_ns)
        if answer is None:
            raise self.missing(child, doing, timeout_ns)
        self._received[child] = number + 1
        return content(answer)

    def missing(self, child: str, doing: str, timeout_ns: int) -> NobodyCame:
        """The error for a child that does not answer in time."""
        who, where = self._titles.get(child, child), f"{self._where} ({doing})".lstrip()
        return NobodyCame(self.name, who, where, timeout_ns, self._cure)

    async def receive_all(self, children: Sequence[str], doing: str, timeout_ns: int) -> list[Frozen]:
        """The next answer of each. After the first failure, the others are read without waiting.

        Raises the failure that is the root cause.
        """
        answers: list[Frozen] = []
        errors: list[StartupError] = []
        for child in children:
            try:
                answers.append(await self.receive(child, doing, 0 if errors else timeout_ns))
            except StartupError as error:
                errors.append(error)
        if errors:
            raise root_of(errors)
        return answers


def content(answer: Frozen) -> Frozen:
    """The content of an answer. Raises OneFailed, or Stopped if another participant stopped the child."""
    assert isinstance(answer, tuple)
    if answer[0] == FAILED:
        _, who, of, text = map(str, answer)
        raise Stopped if of == Stopped.__name__ else OneFailed(who, of, text)
    return answer[1]


class Child:
    """The child's side of the store."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self._sent = 0

    def report(self, value: Frozen, doing: str) -> None:
        """Send an answer."""
        self._answer((OK, value), f"say.{doing}")

    def fail(self, error: Exception) -> None:
        """Send a failure: this child cannot continue."""
        of = error.of if isinstance(error, OneFailed) else type(error).__name__
        self._answer((FAILED, self.name, of, str(error)), "say.failed")

    def _answer(self, answer: Frozen, site: str) -> None:
        self.store.set(f"{self.name}/{self._sent}", answer, site)
        self._sent += 1

    async def obey(self, key: str) -> Frozen:
        """Wait for a call of the parent. Raises Stopped if the parent has left."""
        value = await self.store.get(key, f"obey.{key.partition('/')[0]}")
        if value is None:
            raise Stopped
        return value
