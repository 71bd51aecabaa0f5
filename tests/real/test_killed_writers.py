"""Kills ranks at random moments. The reader returns each journal up to its last complete record.

The tests check two properties of a killed rank's journal. It is a prefix of what the same rank writes in a healthy run.
And it has every op that a peer has observed: a peer that has ended a sum knows that this rank had joined it.
"""

from __future__ import annotations

import os
import random
import signal

import pytest

from dpsim.contract.ops import KIND, ORDINAL, SITE, RawRecord
from dpsim.contract.world import World
from real import pool
from real.backend import TorchBackend
from real.watch import JobWatch
from tests.properties import of_night
from tests.real import programs  # noqa: F401  # registers the test programs
from tests.trouble import later

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

ROUNDS = 400


def sums(journal: list[RawRecord], kind: str) -> set[tuple[str, int]]:
    """Returns the host's sums that the rank joined ("collective") or ended ("learned"), by site and ordinal."""
    places = (record[SITE : ORDINAL + 1] for record in journal if record[KIND] == kind)
    return {(site, ordinal) for site, ordinal in places if site in ("host", "end")}


KILLS = [pytest.param(20, marks=pytest.mark.slow), pytest.param(of_night(300), marks=pytest.mark.nightly)]


@pytest.mark.parametrize("times", KILLS)
@pytest.mark.parametrize("backend", ["gloo"], indirect=True)
def test_every_journal_reads_back_to_its_last_whole_record(
    backend: TorchBackend, world: World, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = {"rounds": ROUNDS}
    whole = backend.run(world, "real_rounds", args).journals
    draw = random.Random("killed")
    victim, lengths = 0, []

    class Killing(JobWatch):
        def observe(self) -> None:
            with later(draw.uniform(0, 0.15), lambda: os.kill(backend.pool.processes[victim], signal.SIGKILL)):
                super().observe()

    monkeypatch.setattr(pool, "JobWatch", Killing)
    for _ in range(times):
        victim = draw.randrange(world.size)
        run = backend.run(world, "real_rounds", args)
        assert run.finished or run.lost == f"the process of rank {victim} was ended by SIGKILL"
        for journal, expected in zip(run.journals, whole, strict=True):
            assert journal == expected[: len(journal)]
        assert sums(run.journals[1 - victim], "learned") <= sums(run.journals[victim], "collective")
        lengths.append(len(run.journals[victim]))
    assert min(lengths) < len(whole[0])
    print(f"\n{times} kills left journals of {min(lengths)} to {max(lengths)} records, of {len(whole[0])}")
