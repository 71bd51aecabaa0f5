"""Compares front ends with stored histories of vLLM's front ends, for each release: which engine gets each request.

Faulty twins with another rule of balance prove that the comparison can fail.
"""

from __future__ import annotations

from functools import cache

import pytest

from dpsim.vllm.engine.client import ClientView, ClientView028, ClientView033, Sending
from dpsim_engine import comparison
from dpsim_engine.balance import BALANCE
from dpsim_engine.comparison import Row
from dpsim_engine.stored import answers

VERSIONS = {"0.14.0": ClientView, "0.24.0": ClientView, "0.28.0": ClientView028, "0.31.0": ClientView028} | {
    "0.33.0": ClientView033
}


@cache
def histories(version: str) -> list[Row]:
    return answers("balance", version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_balancer_answers_every_stored_history(version: str) -> None:
    assert len(histories(version)) == 100
    assert comparison.differing(BALANCE, histories(version), VERSIONS[version]) == []


class OldScore(ClientView033):
    """The score of an engine is that of release 0.24."""

    def score(self, engine: int) -> float:
        return ClientView.score(self, engine)


class NoFloor(ClientView033):
    """The front end's own requests in flight do not count."""

    def score(self, engine: int) -> float:
        self.in_flight[engine], kept = 0, self.in_flight[engine]
        score = super().score(engine)
        self.in_flight[engine] = kept
        return score


class NoPressure(ClientView033):
    """The usage of the KV cache does not change the score."""

    def score(self, engine: int) -> float:
        waiting, running, _ = self.load[engine]
        return float(max(self.clients * self.in_flight[engine], waiting + running))


class FixedStart(ClientView033):
    """Among engines of equal load, the front end always begins its search at the same engine."""

    def _chosen(self, engine: int) -> None:
        offset = self._offset
        super()._chosen(engine)
        self._offset = offset


class NoEnds(ClientView033):
    """Requests that have ended still count as in flight."""

    def ended(self, engine: int) -> None:
        pass


class NamedCounts(ClientView033):
    """A request for a named engine counts as waiting there."""

    def send(self, engine: int | None = None) -> Sending:
        if engine is not None:
            ClientView._chosen(self, engine)
        return super().send(engine)


@pytest.mark.parametrize("twin", [OldScore, NoFloor, NoPressure, FixedStart, NoEnds, NamedCounts])
def test_another_rule_is_found(twin: type[ClientView]) -> None:
    assert comparison.differing(BALANCE, histories("0.33.0"), twin)


def test_a_rule_of_028_is_not_that_of_024() -> None:
    assert comparison.differing(BALANCE, histories("0.28.0"), OldScore)
