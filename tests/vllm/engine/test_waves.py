"""Tests of the waves of one engine, message by message, and of groups in lockstep in random histories.

A *wave* is a period in which all engines of a group step in lockstep. The random histories must show each faulty twin.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

from dpsim.vllm.engine.client import ClientView, ClientView033
from dpsim.vllm.engine.coordination import Coordination, Coordination033, Published, StartDpWave
from dpsim.vllm.engine.waves import EngineWaves, Out, PauseMode, PauseState, Release014, Release024, Release033
from tests.properties import nightly_but
from tests.vllm.engine import twins
from tests.vllm.engine.lockstep import Group, World, first_trouble

# ---- a request arrives: all states of an engine (specification 2.5)


def engine(kind: type[EngineWaves], running: bool = False, index: int = 1, has_coordinator: bool = True) -> EngineWaves:
    """Returns an engine of a group of three in wave 4."""
    made = kind(index, 3, has_coordinator, 16)
    made.current_wave, made.engines_running = 4, running
    return made


def after_request(kind: type[EngineWaves], running: bool, paused: bool, wave: int) -> tuple[bool, bool, int]:
    """Adds a request. Returns whether the engine informs the coordinator, whether it runs, and its wave."""
    one = engine(kind, running)
    one.pause_state = PauseState.PAUSED_ALL if paused else PauseState.UNPAUSED
    outs = one.add(wave)
    assert outs in ([], [Out("start_wave", one.current_wave, "coordinator")])
    return bool(outs), one.engines_running, one.current_wave


@pytest.mark.parametrize(("running", "paused", "wave"), list(product([True, False], [True, False], [3, 4, 5])))
def test_a_request_changes_the_state_of_an_engine_as_in_spec_2_5(running: bool, paused: bool, wave: int) -> None:
    """A request changes the engine's state as specification 2.5 describes, in each release."""
    now = max(wave, 4)
    if not paused:
        assert after_request(Release014, running, False, wave) == (wave == 3 and not running, running, now)
    wakes = not running and not paused
    assert after_request(Release033, running, paused, wave) == (wakes, running or wakes, now)
    wakes = wakes and wave == 3
    assert after_request(Release024, running, paused, wave) == (wakes, running or wakes, now)


@pytest.mark.parametrize("kind", [Release014, Release024, Release033])
def test_every_rank_reports_its_wave_without_a_coordinator(kind: type[EngineWaves]) -> None:
    """Without a coordinator, a request does not change the wave, and every rank reports its end to its front end."""
    one = engine(kind, has_coordinator=False)
    assert (one.add(7), one.current_wave, one.engines_running) == ([], 4, False)
    one.engines_running = False
    assert one.end_iteration(was_running=True) == [Out("wave_complete", 4, "frontend")]
    one.engines_running = True
    assert one.end_iteration(was_running=False) == []


@pytest.mark.parametrize("kind", [Release014, Release024, Release033])
@pytest.mark.parametrize("index", [0, 1])
def test_only_rank_0_reports_a_wave(kind: type[EngineWaves], index: int) -> None:
    """Only rank 0 reports: the end of a wave, and in release 0.33 a wave that began in this iteration."""
    one = engine(kind, running=True, index=index)
    begun = [Out("start_wave", 4, "coordinator")] if index == 0 and kind is Release033 else []
    assert one.end_iteration(was_running=True) == []
    assert one.end_iteration(was_running=False) == begun
    one.engines_running, one.step_counter = False, 16
    assert one.end_iteration(was_running=True) == ([] if index else [Out("wave_complete", 4, "coordinator")])
    assert (one.current_wave, one.step_counter) == (5, 0)


# ---- pause and resume


@pytest.mark.parametrize(
    ("mode", "state"),
    [("abort", PauseState.PAUSED_NEW), ("wait", PauseState.PAUSED_NEW), ("keep", PauseState.PAUSED_ALL)],
)
def test_both_phases_of_a_pause(mode: PauseMode, state: PauseState) -> None:
    """A pause first waits until all engines have it, then until none has work; only then can an engine resume."""
    one = engine(Release033)
    one.pause(mode)
    assert (one.pause_state, one.pending_pause, one.engines_running) == (state, True, True)
    with pytest.raises(RuntimeError, match="engine 1 cannot resume: a pause is still on its way"):
        one.resume()
    one.synced((1, 3))  # all engines have the pause, and one still has work
    assert (one.pending_pause, one.ignore_start_dp_wave, one.engines_running) == (False, True, True)
    with pytest.raises(RuntimeError, match="still on its way"):
        one.resume()
    one.synced((0, 0))
    one.start_dp_wave(9, None)
    assert (one.engines_running, one.current_wave) == (False, 4)
    assert one.resume()
    assert (one.pause_state, one.ignore_start_dp_wave) == (PauseState.UNPAUSED, False)
    one.resumed(any_work=True)
    assert one.engines_running
    assert not one.resume()


# ---- groups in lockstep

RELEASES = {
    "0.14": World(Release014, Coordination, ClientView, pauses=0),
    "0.24": World(Release024, Coordination, ClientView, pauses=0),
    "0.33": World(Release033, Coordination033, ClientView033),
}


@pytest.mark.parametrize("release", RELEASES)
def test_random_histories_of_healthy_groups_break_no_rule(release: str) -> None:
    """Random histories of healthy groups break no rule."""
    world = RELEASES[release]
    assert first_trouble(world, 40) is None
    larger = world._replace(size=3, clients=2, interval=4, requests=4, pauses=2 * world.pauses)
    assert first_trouble(larger, 40) is None


@pytest.mark.parametrize("histories", nightly_but([100, 500], lambda histories: histories == 100))
@pytest.mark.parametrize("release", RELEASES)
def test_many_drawn_histories(release: str, histories: int) -> None:
    world = RELEASES[release]._replace(requests=6)
    for size, clients, interval in [(2, 1, 2), (2, 2, 3), (3, 2, 4), (6, 1, 16)]:
        world = world._replace(size=size, clients=clients, interval=interval, pauses=3 * RELEASES[release].pauses)
        assert first_trouble(world, histories) is None


def test_024_loses_a_wake_across_a_pause() -> None:
    """In release 0.24, paused engines drop a wake, and the coordinator assumes that they run (mutant M-EL-12).

    After the resume, no message announces the next request. The front end also assumes that the engines run. The engine
    has the same wave, so it does not report the request either.
    """
    engines = [Release024(rank, 2, True, 32) for rank in range(2)]
    coordinator, client = Coordination(2), ClientView([0, 1])
    late = client.send().first_request  # the pause aborts its request, and the coordinator receives the message last
    assert late is not None
    for one in engines:
        one.pause("abort")
        one.synced((0, 2))
    told = [out for one in engines for out in one.end_iteration(was_running=True)]
    assert told == [Out("wave_complete", 0, "coordinator")]
    coordinator.wave_complete(0, 0)
    wake, state = (sent.message for sent in coordinator.first_request(*late))
    assert (wake, state) == (StartDpWave(1, None), Published(None, 1, True))
    client.update_counts(None, 1, True)
    for one in engines:
        one.start_dp_wave(1, None)
        assert one.resume()
        one.resumed(any_work=False)
    sending = client.send()
    assert sending.first_request is None
    assert (engines[sending.engine].add(sending.wave), [one.engines_running for one in engines]) == ([], [False, False])


@pytest.mark.slow
def test_024_is_found_to_lose_it() -> None:
    """In some random history, release 0.24 loses a wake across a pause."""
    found = first_trouble(RELEASES["0.24"]._replace(requests=6, pauses=3, clients=2, interval=2), 500)
    assert found
    assert found[1] in {"a hang", "the coordinator believes otherwise"}


def twin_world(twin: type[EngineWaves] | type[Coordination] | type[ClientView]) -> World:
    """Returns the world of the twin's release, with the twin in place of the healthy class."""
    if issubclass(twin, Coordination):
        return RELEASES["0.33"]._replace(coordination=twin)
    if issubclass(twin, ClientView):
        return RELEASES["0.14"]._replace(client=twin)
    release = "0.14" if issubclass(twin, Release014) else "0.33" if issubclass(twin, Release033) else "0.24"
    return RELEASES[release]._replace(waves=twin, pauses=0 if release == "0.14" else 2)


TWINS = [
    *(twins.LaterWavesOnly, twins.OwnWork, twins.OnlyIfAllWork, twins.StopsPartial, twins.PauseWaits),
    *(
        twins.ResumesWithoutABarrier,
        twins.ResumesIdle,
        twins.ForgetsNothing,
        twins.WokenByPausedRequest,
        twins.StartsWithoutTheCoordinator,
    ),
    *(twins.StaysCurrent, twins.WokenWhilePaused024, twins.WakesNoEngine, twins.ReportsNoFirstRequest),
]


@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_is_found(twin: type[EngineWaves] | type[Coordination] | type[ClientView]) -> None:
    assert first_trouble(twin_world(twin), 200)


@pytest.mark.parametrize("twin", [twins.KeepsCounting, twins.AllTell, twins.ReportsAPausingWave])
def test_an_equivalent_is_not_found(twin: type[EngineWaves]) -> None:
    """Three twins are equivalent for safety: mutants M-EL-4 and M-EL-17, and a wave that is reported without need.

    Their answers differ from vLLM's, but no rule of the histories breaks.
    """
    assert first_trouble(twin_world(twin), 20) is None


def test_one_rank_with_another_interval_is_found() -> None:
    """Mutant M-EL-3: one rank has another interval between sync points."""
    world = RELEASES["0.33"]._replace(waves=(Release033, twins.OneStepShorter), interval=5)
    assert first_trouble(world, 200) == (0, "some ranks sync and others do not")


# ---- the forwards of a request and of a pause


def forwards(release: str, *messages: tuple[object, ...]) -> int:
    """Returns the number of forwards of a group of three, after messages to engine 1 (ADD) or to all (others)."""
    world = RELEASES[release]
    interval = 16 if release == "0.33" else 32
    group = Group(world._replace(size=3, interval=interval, requests=0, pauses=0), random.Random(0))
    for message in messages:
        for rank in [1] if message[0] == "ADD" else range(3):
            group.send("client 0", rank, *message)
    if release != "0.33" and messages[0][0] == "ADD":
        group.send("client 0", "coordinator", "first_request", 1, 0)
    group.paused = messages[0][0] == "PAUSE"
    group.run()
    return group.forwards


def test_the_cost_of_a_request() -> None:
    """Example A-25: the forwards for a request of five steps to an idle engine."""
    assert {release: forwards(release, ("ADD", 5, 0)) for release in RELEASES} == {"0.14": 32, "0.24": 32, "0.33": 16}


def test_the_cost_of_an_idle_pause() -> None:
    """Example A-26: the forwards for a pause of an idle group."""
    assert (forwards("0.24", ("PAUSE", "keep")), forwards("0.33", ("PAUSE", "keep"))) == (32, 1)
