"""Notices of the end of ranks: dpsim and the interpreter on random scripts with added watches.

They agree that a notice comes after the messages of who is gone that were sent at all, and whatever ended it. The
scripts are those of `generator` as they are, so that its seeds go on to mean what they mean. Aborts are left out: what
they do to peers is open in the contract, and `tests/sim/test_aborts.py` holds exploring against brute force there.
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

FEW, MANY = 25, 600


def watching(seed: int) -> Script:
    """A random script of which one rank watches one or two others, sometimes late, and looks for the notices."""
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
    """The contract leaves open whether device work that a rank had begun before its death still goes on for a peer that
    comes later. In dpsim it does not. Only a rank with a notice of the death can tell that a peer comes later.
    """
    return difference == "missed" and bool(script.mortal and script.devices)


def differences(seeds: range) -> tuple[list[str], int]:
    """Where the two differ, and how many scripts were small enough to be compared whole."""
    found, known = [], 0
    for seed in seeds:
        compared = compare(watching(seed), 3_000, 300)
        known += compared.known
        if compared.difference and not allowed(watching(seed), compared.difference):
            found.append(f"seed {seed}, {compared.difference}:\n{watching(seed).words()}")
    return found, known


@pytest.mark.slow
def test_few_scripts() -> None:
    found, known = differences(range(FEW))
    assert not found, found[0]
    assert known > FEW // 3


@pytest.mark.nightly
def test_many_scripts() -> None:
    found, known = differences(range(FEW, MANY))
    assert not found, found[0]
    assert known > MANY // 3


def _overtakes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mailboxes, "follow", lambda self, notice, sender, to, name: None)


def _nobody_is_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimRank, "gone", lambda self: None)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [_overtakes, _nobody_is_gone], ids=lambda fault: fault.__name__.strip("_"))
def test_a_planted_fault_is_noticed(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert any(compare(watching(seed), 3_000, 300).difference for seed in range(MANY))
