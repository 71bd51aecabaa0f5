"""Compares dpsim with the interpreter on random scripts with watches, which notify a rank of the end of another rank.

A notice arrives after all messages that the ended rank has sent, and for every kind of end. The scripts are those of
`generator`; the watches are added later, so that a seed of `generator` keeps its meaning. `tests.interpreter.hosts` has
notices beside aborts.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from dpsim.sim.calls.rank import SimRank
from dpsim.sim.services.mailbox import Mailboxes
from tests.interpreter.comparison import compare
from tests.interpreter.generator import random_script
from tests.interpreter.language import Instruction, Script

FEW, MANY, BLOCK = 25, 625, 150


def watching(seed: int) -> Script:
    """Returns a random script in which one rank watches one or two others, sometimes late, and receives or polls the
    notices.
    """
    rng, script = random.Random(seed), random_script(seed)
    if script.size == 1:
        script = Script((*script.ranks, ()), script.hosts, script.devices, script.mortal, script.residency)
    rank = rng.choice([one for one in range(script.size) if one not in script.mortal] or [0])
    said: list[Instruction] = [*script.ranks[rank]]
    for peer in rng.sample([one for one in range(script.size) if one != rank], rng.choice((1, 1, script.size - 1))):
        box = rng.choice("pq")
        at = rng.choice((0, len(said)))
        said.insert(at, ("watch", peer, box))
        said.insert(rng.randint(at + 1, len(said)), (rng.choice(("poll", "get", "idle")), box))
    ranks = (*script.ranks[:rank], tuple(said), *script.ranks[rank + 1 :])
    return Script(ranks, script.hosts, script.devices, script.mortal, script.residency)


def allowed(script: Script, difference: str) -> bool:
    """Returns whether the contract leaves the difference open. A rank starts device work and dies, and later a peer
    arrives. The contract leaves open whether the work continues for the peer; in dpsim it does not. Only a rank with a
    notice of the death can observe that the peer arrives later.
    """
    return difference == "missed" and bool(script.mortal and script.devices)


def differences(seeds: range) -> tuple[list[str], int]:
    """Returns the differences, and the number of scripts that were small enough to be compared completely."""
    found, known = [], 0
    for seed in seeds:
        compared = compare(watching(seed), 3_000, 300)
        known += compared.known
        if compared.difference and not allowed(watching(seed), compared.difference):
            found.append(f"seed {seed}, {compared.difference}:\n{watching(seed).words()}")
    return found, known


@pytest.mark.slow
def test_the_two_agree_on_few_scripts_with_notices() -> None:
    found, known = differences(range(FEW))
    assert not found, found[0]
    assert known > FEW // 3


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(FEW, MANY, BLOCK))
def test_the_two_agree_on_many_scripts_with_notices(first: int) -> None:
    found, known = differences(range(first, first + BLOCK))
    assert not found, found[0]
    assert known > BLOCK // 3


def _overtakes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mailboxes, "follow", lambda self, notice, sender, to, name: None)


def _no_rank_reports_its_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimRank, "gone", lambda self: None)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [_overtakes, _no_rank_reports_its_end], ids=lambda fault: fault.__name__.strip("_"))
def test_a_planted_fault_is_noticed(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert any(compare(watching(seed), 3_000, 300).difference for seed in range(MANY))
