"""Deaths that peers learn of, and communicators that they abort, on real backends: as on the simulation, within the
stall time of the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.ops import ABORT_COMMUNICATOR, KIND, LEARNED_OUTCOME, RAISED_MESSAGE, SITE
from dpsim.world import At, Fault, Run, World
from real.backend import TorchBackend
from tests import survivors  # noqa: F401  # registers the test programs
from tests.real.worlds import NCCL, make_world

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

on_each = pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
BOTH = {"rounds": 3, "device": True}
STALL_NS = 5_000_000_000
"""Within so long a peer has to be told."""


def died_at(backend: TorchBackend, site: str, ordinal: int, size: int = 3, program: str = "survivors") -> Run:
    world = make_world(size, ["dp"], stall_ns=STALL_NS, faults=(Fault("die", 1, At(site, ordinal)),))
    return backend.run(world, program, BOTH)


@pytest.mark.slow
@on_each
@pytest.mark.parametrize(("site", "ordinal"), [("watch", 0), ("agree", 0), ("agree", 2), ("sum", 1), ("read", 2)])
def test_every_peer_of_a_dead_rank_ends_and_names_it(backend: TorchBackend, site: str, ordinal: int) -> None:
    run = died_at(backend, site, ordinal)
    assert run.ends == ["raised", "died", "raised"], run.observed
    for rank in (0, 2):
        journal = run.journals[rank]
        assert journal[-1][KIND], journal[-1][SITE] == ("raised", "PeerGone")
        told = next(record[LEARNED_OUTCOME] for record in journal if record[KIND] == "learned" and record[SITE] == "told")
        assert journal[-1][RAISED_MESSAGE] == f"rank {told[1]} is gone"
