"""Tests on gloo that all engines end soon after a process dies, and that no request is lost.

Engines must end because they are notified of the death, not because of the stall time, after which dpsim stops a run. A
process that is not notified in time is "blocked" in the run's result.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.world import At, Fault, Run
from dpsim.vllm.params.arguments import EngineArguments
from real.backend import TorchBackend
from tests.unnoticed import notices_text
from tests.vllm.engine.watched_worlds import Seen, owed, watched

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")
on_gloo = pytest.mark.parametrize("backend", ["gloo"], indirect=True)

STALL_NS = 5_000_000_000
"""The stall time of the world: the time in which each process has to be notified of a death."""

PLACES = [
    (0, "dp.agree", 1),
    (1, "dp.agree", 0),
    (1, "forward.experts", 1),
    (1, "forward.read", 0),
    (0, "engine.finish_sync", 0),
    (1, "monitor.watch", 0),
    (2, "coordinator.event", 1),
    (2, "coordinator.stop", 1),
    (3, "frontend.add", 1),
    (3, "frontend.output", 2),
]
"""The actor that dies, and the op of its main thread at which it dies: engines, coordinator, front end."""


def run(backend: TorchBackend, variant: str | None = None, **group: Any) -> Seen:
    subject = watched(requests=[3, 3], stall_ns=STALL_NS, **group)
    setup = subject.prepared
    args = EngineArguments(
        topology=setup.topology.model_dump(),
        config=setup.config.model_dump(by_alias=True, exclude_defaults=True),
        requests=tuple(setup.plan.requests),
        step_ns=1_000_000,
        form="0.33",
        variant=variant,
    )
    of: Run = backend.run(subject.world, "engine_watched", args)
    return Seen(subject.world, of, owed(subject))


@on_gloo
@pytest.mark.slow
def test_without_a_death_all_end_in_order(backend: TorchBackend) -> None:
    seen = run(backend)
    assert seen.wrong == []
    assert seen.run.finished, seen.run.observed


@pytest.mark.slow
@on_gloo
@pytest.mark.parametrize(("actor", "site", "ordinal"), PLACES)
def test_a_death_ends_all_ranks(backend: TorchBackend, actor: int, site: str, ordinal: int) -> None:
    seen = run(backend, faults=[Fault("die", actor, At(site, ordinal))])
    assert seen.wrong == [], seen.run.observed
    assert seen.run.ends.count("died") == 1
    ms = seen.run.elapsed_ns / 1e6
    print(f"at {site}[{ordinal}]: {notices_text(seen.run, actor)}; all have ended {ms:.0f} ms after the start")


@pytest.mark.slow
@on_gloo
@pytest.mark.parametrize(("actor", "site", "ordinal"), PLACES)
def test_an_exception_ends_all_ranks(backend: TorchBackend, actor: int, site: str, ordinal: int) -> None:
    seen = run(backend, faults=[Fault("raise", actor, At(site, ordinal))])
    assert seen.wrong == [], seen.run.observed
    assert seen.error(actor) == f"InjectedError: injected at {site}[{ordinal}]"


@pytest.mark.slow
@on_gloo
def test_an_engine_that_tells_by_a_message_dies_silently(backend: TorchBackend) -> None:
    """Faulty twin: an engine reports its death by a message, so if it is killed, its front end never ends."""
    given: Any = {"dp": 1, "faults": [Fault("die", 0, At("forward.read", 0))]}
    assert run(backend, **given).wrong == []
    assert "frontend.0 is left" in run(backend, variant="silent-engine-death", **given).wrong
