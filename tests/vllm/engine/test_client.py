"""Tests of a front end: it selects the engine with the least load, and reports a first request."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from dpsim.vllm.engine.client import ClientView, ClientView033, Sending
from dpsim.vllm.engine.coordination import FirstRequest


def unfair(kind: type[ClientView]) -> list[object]:
    """Returns the loads of three engines for which a front end selects a wrong engine.

    It tries all loads with up to two waiting requests and 0, 4 or 8 running ones.
    """
    loads = [(waiting, running) for waiting in range(3) for running in (0, 4, 8)]
    wrong: list[object] = []
    for index, counts in product(range(3), product(loads, repeat=3)):
        client = kind([0, 1, 2], index, clients=3)
        client.update_counts(counts, 0, True)
        order = [(index + at) % 3 for at in range(3)]
        weights = [4 * counts[engine][0] + counts[engine][1] for engine in order]
        if client.choose() != order[weights.index(min(weights))]:
            wrong.append((index, counts))
    return wrong


class WithoutWaiting(ClientView):
    """A waiting request counts as much as a running one."""

    def score(self, engine: int) -> float:
        return float(sum(self.load[engine]))


class AlwaysTheFirst(ClientView):
    """Every front end begins its search at the first engine."""

    def choose(self) -> int:
        return min(self.engines, key=self.score)


def test_a_front_end_selects_the_engine_with_the_least_load() -> None:
    """A front end selects the engine with the least load, for all small loads."""
    assert unfair(ClientView) == []
    assert unfair(WithoutWaiting)
    assert unfair(AlwaysTheFirst)


class CountsNothing(ClientView):
    """The front end does not count the requests that it has sent."""

    def send(self, engine: int | None = None) -> Sending:
        load = dict(self.load)
        sending = super().send(engine)
        self.load = load
        return sending


@pytest.mark.parametrize("clients", [1, 2, 4])
def test_a_front_end_counts_its_requests_between_publications(clients: int) -> None:
    """Between two publications, a front end sends requests to all engines in turn; the faulty twin sends all to one."""

    def spread(kind: type[ClientView]) -> Counter[int]:
        client = kind(range(4), 1 % clients, clients)
        return Counter(client.send().engine for _ in range(8))

    assert spread(ClientView) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert len(spread(CountsNothing)) == 1


def test_counts_replace_what_was_counted() -> None:
    """Published counts replace the requests that a front end has counted itself."""
    client = ClientView([2, 3])
    assert [client.send().engine for _ in range(3)] == [2, 3, 2]
    client.update_counts(None, 1, True)
    assert client.load == {2: (2, 0), 3: (1, 0)}
    client.update_counts(((9, 9), (9, 9), (0, 1), (0, 3)), 1, True)
    assert client.load == {2: (0, 1), 3: (0, 3)}
    assert client.send().engine == 2
    assert client.load == {2: (1, 1), 3: (0, 3)}
    assert client.send(engine=3).engine == 3
    assert client.load == {2: (1, 1), 3: (0, 3)}


def test_a_front_end_reports_one_first_request() -> None:
    """A front end reports one first request, until the coordinator publishes again that the engines do not run.

    In release 0.33, it reports none.
    """
    for kind, told in ((ClientView, FirstRequest(0, 5)), (ClientView033, None)):
        client = kind([0])
        client.update_counts(None, 5, False)
        assert [client.send() for _ in range(2)] == [(0, 5, told), (0, 5, None)]
        client.update_counts(None, 6, False)
        assert client.send() == (0, 6, told and FirstRequest(0, 6))
