"""Tests of turns of threads, and of calls on a store. They pass in the order of the gates, even if they arrive in
another order.

In the faulty twins, threads and calls pass in the order in which they arrive.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from real.store_server import Server
from real.stores import StoreConnection
from real.turns import Before, OrderOfTurns, Point
from tests.real.test_store_server import JOB, PATIENCE, Served

FIRST: Point = "main", "first", 0, False
NEXT: Point = "main", "next", 0, False
LATER: Point = "u1", "later", 0, False


class AsTheyCome(OrderOfTurns):
    """The faulty twin: each thread passes as it arrives."""

    def _over(self, before: Before) -> bool:
        return True


class WithoutPython(OrderOfTurns):
    """The faulty twin: it ignores that a thread still runs Python code after its turn."""

    def _over(self, before: Before) -> bool:
        return super()._over(before._replace(runs_on=False))


def passed(turns: OrderOfTurns) -> list[Point]:
    """Returns the turns in their order. u1 arrives before main, and main arrives twice."""
    other = threading.Thread(target=turns.come, args=(LATER,), daemon=True)
    other.start()
    PATIENCE.until(lambda: bool(turns._begun))
    turns.come(FIRST)
    turns.come(NEXT)
    other.join(5)
    return list(turns._had)


@pytest.mark.parametrize(
    ("make", "expected"),
    [(OrderOfTurns, [FIRST, NEXT, LATER]), (AsTheyCome, [LATER, FIRST, NEXT])],
    ids=["in turn", "as they come"],
)
def test_a_thread_waits_until_the_other_one_reaches_its_next_turn(make: Any, expected: list[Point]) -> None:
    assert passed(make({LATER: Before(FIRST, runs_on=True)}, PATIENCE)) == expected


@pytest.mark.parametrize(("make", "stands"), [(OrderOfTurns, True), (WithoutPython, False)])
def test_python_behind_a_turn_is_part_of_it(make: Any, stands: bool) -> None:
    turns = make({}, PATIENCE)
    turns.come(FIRST)
    assert turns._over(Before(FIRST, runs_on=True)), "the thread of the turn does not wait for itself"
    answers: list[bool] = []
    other = threading.Thread(target=lambda: answers.append(turns._over(Before(FIRST, runs_on=True))))
    other.start()
    other.join(5)
    assert answers == [not stands]


class ServesAsTheyCome(Server):
    """The faulty twin: the server serves calls as they arrive."""

    def _serve_in_turn(self, connection: Any, at: Any, before: Any, message: list[Any]) -> None:
        super()._serve_in_turn(connection, at, None, message)


def value(served: Served) -> Any:
    """Returns the value of a key that is set to 1 in the second turn, and then to 2 in the first."""
    member = StoreConnection(served.reached(), JOB)
    one, two = (0, "main", "one", 0), (1, "main", "two", 0)
    member.set("key", 1, PATIENCE, (one, two))
    member.set("key", 2, PATIENCE, (two, None))
    found = PATIENCE.answer(member.ask("key", PATIENCE), 5_000_000_000)
    member.close()
    served.own.close()
    served.server.join(5)
    assert served.failed == []
    return found


def test_a_store_serves_calls_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert value(Served()) == 1
    monkeypatch.setattr("tests.real.test_store_server.Server", ServesAsTheyCome)
    assert value(Served()) == 2
