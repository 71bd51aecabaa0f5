"""Tests of the program `engine`, in one run each: forwards for a request or a pause, modes of a pause, balancing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dpsim.contract.ops import KIND, LEARNED_OUTCOME, POST_CONTENT, SITE
from dpsim.contract.world import At, Delay
from dpsim.runner import run_scenario
from dpsim.scenario import scenario_from
from dpsim.scenario.errors import ScenarioError
from dpsim.vllm.engine.frontend import FrontEnd, Plan
from dpsim.vllm.engine.loop import COMPLETE, START, EngineLoop
from dpsim.vllm.engine.pause import PAUSED, RESUMED
from dpsim.vllm.engine.pause import Control as EngineControl
from dpsim.vllm.engine.scheduler import Scheduler
from tests.vllm.engine.group_worlds import WAITS, Control, Seen, group, run

UPDATE: Control = [(1, ("PAUSE", "keep")), (2, ("UPDATE_WEIGHTS", 7)), (3, ("RESUME",))]


class Second(Plan):
    """The second front end has all requests, so among engines of equal load it selects another one than the first."""

    def frontend(self, request: int) -> int:
        return self.frontends - 1


def sent(seen: Seen, who: int, site: str) -> list[Any]:
    """Returns the messages that an actor (a rank or a service) sent at a site (the name of a call)."""
    journal = seen.run.journals[who]
    return [raw[POST_CONTENT] for raw in journal if (raw[KIND], raw[SITE]) == ("post", site)]


# ---- the number of forwards


@pytest.mark.parametrize(("form", "each"), [("0.33", 16), ("0.24", 32), ("0.14", 32)])
def test_a_request_of_five_steps_costs_the_forwards_of_example_a_25(form: str, each: int) -> None:
    """Example A-25: the real and dummy forwards of three ranks after a request of five steps to engine 1."""
    seen = run(group(form, dp=3, requests=[5], frontends=2, pieces={Plan: Second}))
    assert seen.classes == []
    assert seen.forwards == [(0, each), (5, each - 5), (0, each)]
    assert seen.decided("wave")[-1] == (0, False, each)
    assert [seen.probes(rank)[COMPLETE] for rank in range(3)] == [1, 0, 0]


@pytest.mark.parametrize(("form", "each"), [("0.33", 1), ("0.24", 32)])
def test_a_pause_of_an_idle_group_costs_the_forwards_of_example_a_26(form: str, each: int) -> None:
    """Example A-26: the dummy forwards of each rank for a pause of an idle group.

    The test subtracts the forwards of the later request, which it measures in a run without a pause.
    """
    seen = run(group(form, dp=3, requests=[(1, 10)], control=[(1, ("PAUSE", "keep")), (2, ("RESUME",))]))
    assert seen.classes == []
    assert seen.decided("wave")[0] == (0, False, each)
    assert all(seen.probes(rank)[PAUSED] == seen.probes(rank)[RESUMED] == 1 for rank in range(3))
    alone = run(group(form, dp=3, requests=[1]))
    assert [sum(a) - sum(b) for a, b in zip(seen.forwards, alone.forwards, strict=True)] == [each] * 3


def test_a_stop_token_ends_a_request_early() -> None:
    request = {"prompt_tokens": 1, "output_tokens": 9, "stop_after": 2}
    document = {"name": "stops", "protocol": {"name": "engine", "form": "0.33"}, "workload": {"requests": [request]}}
    result = run_scenario(scenario_from(document))
    assert (result.verdict, result.figures["forwards"]) == ("held", {"rank 0": "2 real, 0 dummy"})


def test_an_engine_alone_runs_no_dummies() -> None:
    """A single engine runs no dummies, and its group has no coordinator."""
    seen = run(group(dp=1, requests=[3, 2], control=UPDATE))
    assert seen.classes == []
    assert seen.forwards == [(5, 0)] or seen.forwards == [(3, 0)]
    assert seen.world.services == ("frontend.0",)


def test_a_wave_is_agreed_at_every_sync() -> None:
    """All engines decide the same at each sync point."""
    seen = run(group(dp=2, requests=[3], interval=2))
    assert seen.decided("wave", 0) == seen.decided("wave", 1) == [(0, True, 1), (0, True, 2), (0, False, 4)]
    assert [seen.probes(rank)[START] for rank in range(2)] == [2, 0], (
        "rank 0 starts the wave, and rank 1 joins after the first sync"
    )


# ---- pauses


@pytest.mark.parametrize("form", ["0.33", "0.24"])
@pytest.mark.parametrize("mode", ["abort", "wait", "keep"])
def test_requests_of_a_pause(form: str, mode: str) -> None:
    """Every request gets its answer, also those that wait for room or arrive during the pause.

    When the pause arrives, two requests run and one waits for room. Only mode `abort` runs fewer forwards than the
    requests need.
    """
    control: Control = [(1, ("PAUSE", mode)), (3, ("UPDATE_WEIGHTS", 1)), (4, ("RESUME",))]
    requests = [(9, 0), (9, 0), (9, 0), (9, 2)]
    seen = run(group(form, requests=requests, control=control, interval=2, pieces=WAITS, max_num_seqs=1))
    assert seen.classes == []
    assert seen.run.finished
    finished = [message for rank in (0, 1) for message in sent(seen, rank, "engine.output")]
    assert sorted(finished) == [("FINISHED", f"r{number}") for number in range(4)]
    real = sum(forwards for forwards, _ in seen.forwards)
    assert real < 36 if mode == "abort" else real == 36


@pytest.mark.parametrize(("form", "found"), [("0.33", []), ("0.24", ["RACE:BUFFER"])])
def test_only_release_033_waits_for_the_device_before_it_answers_a_pause(form: str, found: list[str]) -> None:
    """Only release 0.33 waits for the device before it answers a pause (specification 2.6).

    In 0.24, new weights race with the last forward. The piece `WAITS` makes every release wait.
    """
    assert run(group(form, control=UPDATE[:2], interval=2)).classes == found
    assert run(group(form, control=UPDATE[:2], interval=2, pieces=WAITS)).classes == []


def test_asleep_no_forward_is_run() -> None:
    """During a sleep, the engines run no forward, and the client writes new weights."""
    control: Control = [(1, ("SLEEP", "wait")), (2, ("UPDATE_WEIGHTS", 3)), (3, ("WAKE_UP",))]
    seen = run(group(requests=[(2, 0), (2, 5)], control=control))
    assert seen.classes == []
    assert [real for real, _ in seen.forwards] == [2, 2]


class Hasty(FrontEnd):
    """The front end does not wait for the answers to a pause."""

    async def ask(self, engines: Sequence[int], what: str, *arguments: Any) -> None:
        if what != "PAUSE":
            await super().ask(engines, what, *arguments)
            return
        for engine in engines:
            self.to(engine, (what, self.index, *arguments), "frontend.pause")
            self.unanswered += 1


HASTY: Control = [(1, ("PAUSE", "keep")), (2, ("RESUME",)), (3, ("RESUME",))]


def asked_too_much(form: str, control: Control, pieces: dict[type[Any], type[Any]]) -> Seen:
    return run(group(form, requests=[(1, 10)], control=control, interval=4, pieces={FrontEnd: Hasty, **pieces}))


REFUSALS = [
    ("0.24", HASTY, "engine 0 cannot resume: a pause is still on its way, so wait for its end"),
    ("0.14", [(1, ("PAUSE", "abort"))], "engines of release 0.14 do not pause as a group"),
]


@pytest.mark.parametrize(("form", "control", "why"), REFUSALS, ids=["resume", "0.14"])
def test_an_engine_answers_an_impossible_call_with_an_error(form: str, control: Control, why: str) -> None:
    """An engine answers an impossible call with an error, and continues: it pauses, and serves a later request."""
    seen = asked_too_much(form, control, {})
    assert (seen.classes, seen.run.finished) == ([], True)
    assert [len(sent(seen, rank, "engine.refusal")) for rank in (0, 1)] == [1, 1]
    assert sent(seen, 0, "engine.refusal")[0][2] == why
    assert [real for real, _ in seen.forwards] == [1, 0]


@pytest.mark.parametrize(
    "asked", [("PAUS", "keep"), ("PAUSE", "kep"), ("PAUSE",), ("RESUME", "now"), ("UPDATE_WEIGHTS", "new")]
)
def test_a_front_end_refuses_what_it_does_not_know(asked: tuple[str, ...]) -> None:
    """A front end refuses an unknown call, such as a typo in a scenario, before it sends it to an engine."""
    seen = run(group(requests=[(1, 10)], control=[(1, asked)], interval=4))
    assert seen.classes[0] == "CRASH:UNKNOWNCONTROL"
    assert f"front end 0 cannot do {asked!r}; expected PAUSE or SLEEP with" in seen.findings[0].message


class Raises(EngineControl):
    """An engine raises if it cannot do a call, instead of an answer with the error."""

    take = EngineControl.do


@pytest.mark.parametrize(("form", "control"), [one[:2] for one in REFUSALS], ids=["resume", "0.14"])
def test_an_engine_that_raises_instead_is_seen(form: str, control: Control) -> None:
    """An engine that raises on an impossible call is a finding."""
    assert asked_too_much(form, control, {EngineControl: Raises}).classes[0].startswith("CRASH")


def pause_while_asleep(pieces: dict[type[Any], type[Any]]) -> Seen:
    """Runs a sleep, a pause of the sleeping group, a wake-up, and then one request."""
    control: Control = [(1, ("SLEEP", "keep")), (2, ("PAUSE", "keep")), (3, ("WAKE_UP",))]
    return run(group(requests=[(1, 10)], control=control, interval=2, pieces=pieces))


class DummiesAsleep(EngineLoop):
    """A sleeping engine runs dummies."""

    def makes_dummy(self) -> bool:
        return self.layout.size > 1


def test_a_sleeping_group_agrees_without_forwards() -> None:
    """A sleeping group syncs, so that a pause completes, but runs no dummy (invariant I-EL-2, specification 2.6)."""
    seen = pause_while_asleep({})
    assert (seen.classes, seen.run.finished) == ([], True)
    assert seen.forwards == [(1, 1), (0, 2)], "the dummy step of the sleep, then the step of the request"
    assert [seen.probes(rank)[PAUSED] for rank in (0, 1)] == [2, 2]


def test_a_dummy_of_a_sleeping_engine_is_seen() -> None:
    assert pause_while_asleep({EngineLoop: DummiesAsleep}).forwards == [(1, 2), (0, 3)]


def refused_while_asleep(pieces: dict[type[Any], type[Any]]) -> Seen:
    """Runs a sleep, a pause, a wake-up before the pause is complete, and a second wake-up; then one request."""
    control: Control = [(1, ("SLEEP", "keep")), (2, ("PAUSE", "keep")), (3, ("WAKE_UP",)), (4, ("WAKE_UP",))]
    of = group(requests=[(1, 10)], control=control, interval=4, pieces={FrontEnd: Hasty, **pieces})
    late = tuple(
        Delay(rank, At("engine.idle", 1), 1_000_000) for rank in (0, 1)
    )  # the engines read the pause together with the wake-up
    return run(replace(of, world=replace(of.world, delays=late)))


class AwakeFirst(EngineControl):
    """An engine counts as awake before it has resumed, even if it cannot resume."""

    async def do(self, what: str, client: int, arguments: Any) -> None:
        self.asleep = self.asleep and what != "WAKE_UP"
        await super().do(what, client, arguments)


def test_an_engine_that_cannot_wake_up_sleeps_on() -> None:
    """An engine that cannot resume stays asleep: it runs no forwards until a WAKE_UP succeeds (specification 2.6)."""
    seen = refused_while_asleep({})
    assert (seen.classes, seen.run.finished) == ([], True)
    assert [len(sent(seen, rank, "engine.refusal")) for rank in (0, 1)] == [1, 1]
    assert seen.forwards == [(1, 1), (0, 2)], "the dummy step of the sleep, then the step of the request"
    assert refused_while_asleep({EngineControl: AwakeFirst}).forwards != seen.forwards


def late_abort(pieces: dict[type[Any], type[Any]]) -> Seen:
    """Runs a request of one step, whose abort arrives during its only forward.

    A delay makes the rank launch the kernel of the forward after the abort arrives.
    """
    of = group(requests=[(1, 0, 1)], interval=2, pieces=pieces)
    frontend = of.world.size + 1
    delays = Delay(frontend, At("frontend.abort", 0), 500_000_000), Delay(0, At("forward.kernel", 0), 1_000_000_000)
    return run(replace(of, world=replace(of.world, delays=delays)))


def finished_before_its_abort_was_read(seen: Seen) -> bool:
    """Returns whether engine 0 sent FINISHED for a request before it read its abort (breaks invariant I-EL-12)."""
    finished: set[str] = set()
    for raw in seen.run.journals[0]:
        if (raw[KIND], raw[SITE]) == ("post", "engine.output"):
            finished.add(raw[POST_CONTENT][1])
        elif raw[KIND] == "learned" and raw[SITE] in ("engine.abort", "engine.input", "engine.idle"):
            match raw[LEARNED_OUTCOME]:
                case (str(request),) | ("ABORT", (str(request),)) if request in finished:
                    return True
    return False


class ResultFirst(EngineLoop):
    """The engine updates its scheduler with a result before it reads aborts."""

    async def step(self) -> bool:
        batch = self.scheduler.schedule(self.waves.pause_state)
        executed = await self.forward.execute(len(batch))
        if batch:
            self.answers.finished(self.scheduler.update(batch))
            await self.take_aborts()
        return executed


class OneQueue(EngineLoop):
    """The engine does not read the queue of aborts, only its queue of messages."""

    async def take_aborts(self) -> None:
        pass


def test_an_abort_is_applied_before_the_result() -> None:
    """An engine reads aborts before it uses a result (invariant I-EL-12), so the request ends without an output.

    The engine reads the abort once more among its messages, where it changes nothing.
    """
    seen = late_abort({})
    assert seen.classes == []
    assert seen.run.finished
    assert [real for real, _ in seen.forwards] == [1, 0], "the abort came when the step had begun"
    assert sent(seen, 0, "engine.output") == []
    assert not finished_before_its_abort_was_read(seen)


@pytest.mark.parametrize("twin", [ResultFirst, OneQueue])
def test_an_abort_after_the_result_is_seen(twin: type[EngineLoop]) -> None:
    assert finished_before_its_abort_was_read(late_abort({EngineLoop: twin}))


def test_an_abort_ends_a_long_request() -> None:
    """An aborted request ends early and has no output."""
    seen = run(group(requests=[(50, 0, 1), (3, 0)], interval=2))
    assert seen.classes == []
    assert seen.run.finished
    assert not any(("FINISHED", "r0") in sent(seen, rank, "engine.output") for rank in (0, 1))
    assert sum(real for real, _ in seen.forwards) < 53


class AbortsTwiceWrongly(Scheduler):
    """The scheduler raises if an abort arrives for a request that it no longer has."""

    def abort(self, requests: Any) -> Any:
        return [self._forget(request) for request in requests]


def test_an_abort_that_is_not_harmless_twice_is_seen() -> None:
    seen = run(group(requests=[(50, 0, 1), (3, 0)], interval=2, pieces={Scheduler: AbortsTwiceWrongly}))
    assert seen.classes[0].startswith("CRASH")


class TellsTooMuch(EngineLoop):
    """An engine reports at each sync that it has no work."""

    async def reduce(self, numbers: Any) -> Any:
        return await super().reduce((0, numbers[1]))


def test_a_wave_that_ends_with_work_left_is_seen() -> None:
    """The engine asserts that no wave ends while it has work (invariant I-EL-6)."""
    seen = run(group(requests=[3], interval=2, pieces={EngineLoop: TellsTooMuch}))
    assert seen.classes[0] == "CRASH:ASSERTIONERROR"


# ---- balancing over engines, and the batch job


def engines_asked(**config: Any) -> list[int]:
    """Returns the engine of each of four requests, which two front ends send."""
    seen = run(group(dp=4, requests=[1] * 4, frontends=2, **config))
    assert seen.classes == []
    taken = {request: rank for rank in range(4) for _, request in sent(seen, rank, "engine.output")}
    return [taken[f"r{number}"] for number in range(4)]


def test_front_ends_choose_among_their_engines() -> None:
    """Each front end selects among its own engines, with internal, hybrid and external balancing."""
    assert engines_asked() == [0, 2, 1, 3]
    assert engines_asked(data_parallel_hybrid_lb=True, nnodes=2, data_parallel_size_local=2) == [0, 2, 1, 3]
    seen = run(group(dp=2, requests=[1] * 4, frontends=2, data_parallel_external_lb=True))
    assert [len(sent(seen, rank, "engine.output")) for rank in (0, 1)] == [2, 2]


def test_an_engine_each_with_an_external_balancer() -> None:
    """With an external balancer, every engine needs its own front end."""
    with pytest.raises(ScenarioError, match="1 front ends for 2 engines"):
        group(dp=2, frontends=1, data_parallel_external_lb=True)


def test_engines_of_several_workers() -> None:
    """All workers of an engine run the same forwards."""
    seen = run(group(tp=2, requests=[3], control=UPDATE, interval=2))
    assert seen.classes == []
    assert seen.run.finished
    assert seen.forwards[0] == seen.forwards[1]
    assert seen.forwards[2] == seen.forwards[3]
    assert sum(seen.forwards[0]) == sum(seen.forwards[2])


def test_pipelines_are_refused() -> None:
    with pytest.raises(ScenarioError, match="no pipeline"):
        group(pp=2)


def test_a_batch_job_runs_until_no_rank_has_work() -> None:
    """A batch job has no services, and all engines run until none has work."""
    seen = run(group(requests=[1, 4], distributed_executor_backend="external_launcher"))
    assert seen.classes == []
    assert seen.world.services == ()
    assert seen.forwards == [(1, 3), (4, 0)]
