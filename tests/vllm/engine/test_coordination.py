"""Tests of the coordinator's rules, message by message: which engines it wakes, and what it publishes (2.5).

The file test_answers.py compares whole histories with vLLM.
"""

from __future__ import annotations

import pytest

from dpsim.vllm.engine.coordination import (
    Coordination,
    Coordination024,
    Coordination028,
    Coordination031,
    Coordination033,
    FirstRequest,
    Published,
    Sent,
    StartDpWave,
    StartWave,
    WaveComplete,
)


def state(wave: int, running: bool) -> Sent:
    return Sent("front", Published(None, wave, running))


def wake(wave: int, exclude: int | None) -> Sent:
    return Sent("back", StartDpWave(wave, exclude))


def in_wave_2(running: bool, kind: type[Coordination] = Coordination) -> Coordination:
    """Returns a coordinator of three engines in wave 2, running or not."""
    coordinator = kind(3)
    coordinator.current_wave, coordinator.engines_running = 2, running
    return coordinator


@pytest.mark.parametrize(("wave", "excluded"), [(2, 1), (1, None), (3, 1)])
def test_a_first_request_wakes_the_other_engines(wave: int, excluded: int | None) -> None:
    """After a first request, the coordinator wakes all engines but the one that has the request.

    If the front end's wave is old, the engine may not have started, so the coordinator wakes it, too. Release 0.33 has
    no such message.
    """
    assert in_wave_2(running=False).first_request(1, wave) == [wake(2, excluded), state(2, True)]
    assert in_wave_2(running=True).first_request(1, wave) == []
    assert in_wave_2(running=False, kind=Coordination033).first_request(1, wave) == []


@pytest.mark.parametrize(
    ("running", "wave", "begins"),
    [(False, 1, False), (False, 2, True), (False, 3, True), (True, 1, False), (True, 2, False), (True, 3, True)],
)
def test_the_begin_of_a_wave_wakes_the_other_engines(running: bool, wave: int, begins: bool) -> None:
    """A message that a wave begins wakes the other engines, unless the wave is over or already runs."""
    for kind in (Coordination, Coordination033):
        sent = in_wave_2(running, kind).start_wave(1, wave)
        assert sent == ([wake(wave, 1), state(wave, True)] if begins else [])


@pytest.mark.parametrize("running", [True, False])
def test_the_end_of_a_wave_ends_all_earlier_waves(running: bool) -> None:
    """A message that a wave is over ends this wave and all earlier ones. The coordinator ignores it for an old wave."""
    assert in_wave_2(running).wave_complete(0, 1) == []
    assert in_wave_2(running).wave_complete(0, 2) == [state(3, False)]
    assert in_wave_2(running).wave_complete(0, 5) == [state(6, False)]


def test_a_poll_publishes_the_state_once() -> None:
    """If the coordinator reads two messages at once, it sends both wakes, but publishes its state only once."""
    assert in_wave_2(running=False).poll(FirstRequest(0, 2), StartWave(1, 3)) == [
        wake(2, 0),
        wake(3, 1),
        state(3, True),
    ]
    assert in_wave_2(running=False).poll(FirstRequest(0, 2), WaveComplete(0, 2)) == [wake(2, 0), state(3, False)]


def test_the_coordinator_only_publishes_counts_without_lockstep() -> None:
    """Without lockstep, the coordinator only publishes counts."""
    coordinator = Coordination(2, enable_wave_coordination=False)
    assert coordinator.first_request(0, 0) == coordinator.start_wave(0, 0) == coordinator.wave_complete(0, 0) == []
    assert coordinator.published() == [Sent("front", Published(((0, 0), (0, 0)), 0, False))]


def counts_of(coordinator: Coordination) -> object:
    (sent,) = coordinator.published()
    assert isinstance(sent.message, Published)
    return sent.message.counts


def test_counts_of_one_step_go_together() -> None:
    """The coordinator publishes the counts of step 1 before those of step 2.

    Only one engine has sent counts of step 2 when the coordinator first publishes.
    """
    coordinator = Coordination033(2)
    coordinator.counts(0, 1, 0, waiting=1, running=0)
    coordinator.counts(1, 1, 0, waiting=2, running=0)
    coordinator.counts(0, 2, 0, waiting=0, running=1)
    assert counts_of(coordinator) == ((1, 0, 0.0), (2, 0, 0.0))
    assert counts_of(coordinator) == ((0, 1, 0.0), (2, 0, 0.0))
    coordinator.counts(1, 1, 1, waiting=0, running=0)  # a later wave, and all counts of the earlier one are published
    assert counts_of(coordinator) == ((0, 1, 0.0), (0, 0, 0.0))


def test_the_cache_and_an_engine_that_is_gone() -> None:
    """Since release 0.28, counts contain the usage of the KV cache. The coordinator ignores a removed engine."""
    coordinator = Coordination028(2)
    coordinator.counts(1, 1, 0, waiting=1, running=2, usage=0.75)
    assert counts_of(coordinator) == ((0, 0, 0.0), (1, 2, 0.75))
    coordinator.scale(1)
    coordinator.counts(1, 2, 0, waiting=1, running=2)
    assert counts_of(coordinator) == ((0, 0, 0.0),)


def test_a_first_request_only_wakes_in_031() -> None:
    """In release 0.31, a first request only wakes the engines.

    The coordinator sets its state to running, and publishes it, when an engine reports that it runs.
    """
    coordinator = Coordination031(2)
    assert coordinator.first_request(0, 0) == [("back", StartDpWave(0, 0))]
    assert coordinator.first_request(0, 0) == [("back", StartDpWave(0, 0))]
    assert not coordinator.engines_running
    assert len(coordinator.start_wave(1, 0)) == 2
    assert coordinator.first_request(0, 0) == []


def test_new_engines_begin_with_idle_counts() -> None:
    """New engines begin with idle counts, and removed engines lose theirs. In 0.14, new engines also end the wave."""
    for kind, running in ((Coordination, False), (Coordination024, True), (Coordination033, True)):
        coordinator = in_wave_2(running=True, kind=kind)
        assert coordinator.scale(4) == []
        assert (counts_of(coordinator), coordinator.engines_running) == ((kind.idle,) * 4, running)
        coordinator = in_wave_2(running=True, kind=kind)
        coordinator.scale(2)
        assert (counts_of(coordinator), coordinator.engines_running) == ((kind.idle,) * 2, True)
