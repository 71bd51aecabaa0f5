"""The object that a program awaits.

If a program forgets the await, it has the `Work` in place of the array, and the first use of the `Work` raises:

    table = rank.host("dp_cpu").all_reduce(mine, site="agree")
    table.max()                         # AttributeError: agree[0]: did you forget await? ...
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from dpsim.backend.journal.journal import Journal

Outcome: TypeAlias = Callable[[], Generator[Any, Any, Any]]
"""Returns a generator whose value is the result of an awaited call; it may suspend or block."""


class Work:
    """The object that a program awaits, exactly once."""

    __slots__ = ("_of", "_outcome")

    def __init__(self, journal: Journal, outcome: Outcome) -> None:
        """For the call that was recorded last."""
        # Only two fields, since `__getattr__` makes each access slow.
        self._of = journal, journal.site, journal.ordinal
        self._outcome: Outcome | None = outcome

    def __await__(self) -> Generator[Any, Any, Any]:
        outcome, (journal, site, ordinal) = self._outcome, self._of
        if outcome is None:
            raise self._twice()
        self._outcome = None
        try:
            result = yield from outcome()
        except RuntimeError as error:
            journal.failed(site, ordinal, error)
            raise
        journal.learned(site, ordinal, result)
        return result

    def _result(self) -> Generator[Any, Any, Any]:
        """Returns the result, without a record of it."""
        outcome, self._outcome = self._outcome, None
        if outcome is None:
            raise self._twice()
        return outcome()

    def _twice(self) -> RuntimeError:
        _, site, ordinal = self._of
        return RuntimeError(f"{site}[{ordinal}] was awaited twice; await it once and keep the result")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self._forgotten()}, not its {name}")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Work):
            return self is other
        raise TypeError(self._forgotten())

    __hash__ = object.__hash__

    def _forgotten(self) -> str:
        _, site, ordinal = self._of
        return f"{site}[{ordinal}]: did you forget await? Until it is awaited there is no result"


def _forgotten(work: Work, *others: Any, **more: Any) -> Any:
    raise TypeError(work._forgotten())


_ALONE = "abs array bool complex contains float ge getitem gt index int invert iter le len lt neg pos setitem"
_WITH_ANOTHER = "add and divmod floordiv lshift matmul mod mul or pow rshift sub truediv xor"

for _name in (*_ALONE.split(), *(side + name for name in _WITH_ANOTHER.split() for side in ("", "r", "i"))):
    setattr(Work, f"__{_name}__", _forgotten)
