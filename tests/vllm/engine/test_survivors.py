"""Tests of the program `dp_survivors`: after one rank dies, the others complete all steps on groups without it.

The tests kill a rank at each of its ops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.checks import stuck
from dpsim.contract.kinds import SILENT
from dpsim.contract.ops import KIND, ORDINAL, SITE, THREAD
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import At, Fault, Run
from dpsim.diagnose.words import text
from dpsim.explore import Budget, Problem, explore, search
from dpsim.scenario import scenario_from
from dpsim.sim.backend import SimBackend
from dpsim.vllm.engine.survivors import Survivor


def ranks(dp: int, steps: int = 2, variant: str | None = None, **world: Any) -> Subject:
    raw = {
        "name": "survivors",
        "protocol": {"name": "dp_survivors", "variant": variant},
        "topology": {"data_parallel_size": dp},
        "workload": {"requests": [{"arrival": "0ms", "prompt_tokens": 1, "output_tokens": steps}]},
        "checks": {"switched_off": ["DEATH"]},
    }
    subject = Subject.of(scenario_from(raw))
    return replace(subject, world=replace(subject.world, **world))


def run(subject: Subject) -> Run:
    return SimBackend().run_program(subject.world, subject.program, subject.prepared)


def deaths(dp: int, variant: str | None = None) -> list[Run]:
    """Returns one run for each op of rank 1, in which the rank dies at this op."""
    whole = run(ranks(dp))
    assert whole.finished
    places = [At(raw[SITE], raw[ORDINAL], thread=raw[THREAD]) for raw in whole.journals[1] if raw[KIND] not in SILENT]
    return [run(ranks(dp, variant=variant, faults=(Fault("die", 1, at),))) for at in places]


def test_the_other_ranks_finish_after_a_death_at_any_op() -> None:
    """The other two ranks finish, at whichever op rank 1 dies."""
    runs = deaths(3)
    assert len(runs) > 15
    assert {tuple(one.ends) for one in runs} == {("finished", "died", "finished")}


@pytest.mark.parametrize(("variant", "end"), [("dead-rank-all2all", "blocked"), ("dead-columns", "raised")])
def test_the_twins_do_not_survive_a_death(variant: str, end: str) -> None:
    """With each faulty variant, some death makes a survivor hang or raise."""
    assert any(end in one.ends for one in deaths(2, variant))


def test_two_deaths_are_an_error() -> None:
    """If two ranks die, the survivors raise."""
    faults = tuple(Fault("die", rank, At("survivors.agree", 1)) for rank in (1, 2))
    assert run(ranks(4, faults=faults)).ends == ["raised", "died", "died", "raised"]


def found_in(site: str, ordinal: int) -> set[str]:
    """Explores 150 schedules in which rank 2 of three dies at an op. Returns the classes of the findings."""
    found = explore_subject(ranks(3, faults=(Fault("die", 2, At(site, ordinal)),)), schedules=150)
    return {one.klass for one in found.findings}


@pytest.mark.slow
def test_work_of_the_dead_holds_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """No check reports a hang on an all-to-all of the dead rank that a survivor aborted before it joined.

    With the simpler rule in the monkeypatch, the check of hangs would report one.
    """
    assert found_in("survivors.read", 0) == set()
    monkeypatch.setattr(stuck, "_given_up", lambda index, rank, name: index.gave_up(rank, name))
    assert found_in("survivors.read", 0) == {"HANG:COLLECTIVE:DEAD_RANK"}


@pytest.mark.slow
def test_survivors_of_different_steps_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Survivors may meet in different steps, if one completed the step in which the other was interrupted.

    So the meeting belongs to no step. The faulty twin meets inside the step, and the checks report a hang.
    """
    assert found_in("survivors.agree", 1) == set()

    async def least(self: Survivor, made: int) -> int:
        return int((await self.using.host.all_reduce(np.array([made], np.int32), op="min", site="survivors.meet"))[0])

    monkeypatch.setattr(Survivor, "least", least)
    assert found_in("survivors.agree", 1) == {"HANG:COLLECTIVE:DEAD_RANK"}


@pytest.mark.slow
def test_a_death_before_the_first_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread reads the monitor's outcome only after an abort, which orders the two threads.

    The faulty twin reads it in every step, so the two threads race.
    """
    assert found_in("survivors.agree", 0) == set()
    continues = Survivor.continues

    async def looks(self: Survivor) -> bool:
        outcome = self.outcomes[None]
        self.using.dead = outcome.dead
        return await continues(self)

    monkeypatch.setattr(Survivor, "continues", looks)
    assert "RACE:THREADS" in found_in("survivors.agree", 0)


def test_a_second_notice_does_not_change_what_the_main_thread_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 dies between its two notices that all steps are done. So rank 2 gets notice of its death and of the end.

    In the faulty twin, all sets of communicators share one outcome, so the second notice races with its reader.
    """
    subject = ranks(3, 1, faults=(Fault("die", 0, At("survivors.left", 1)),))
    assert explore_subject(subject, "pct", schedules=60).findings == ()
    make = Survivor.__init__

    def shares(self: Survivor, *given: Any) -> None:
        make(self, *given)
        self.outcomes = dict.fromkeys(self.outcomes, self.outcomes[None])

    monkeypatch.setattr(Survivor, "__init__", shares)
    assert {one.klass for one in explore_subject(subject, "pct", schedules=60).findings} == {"RACE:THREADS"}


def raised() -> bool:
    """Returns whether a rank raises in some schedules in which rank 2 dies after an all-to-all.

    Survivors may abort this all-to-all, so one may have completed the step, and the other one not.
    """
    subject = ranks(3, faults=(Fault("die", 2, At("survivors.agree", 1)),))

    def once(strategy: Strategy) -> list[Problem]:
        _, findings = subject.run(strategy)
        return [Problem(one.klass, text(one.message)) for one in findings if one.klass.startswith("CRASH")]

    return bool(explore(once, search("pct", 0), Budget(20)).failures)


def test_a_rank_that_is_ahead_makes_the_step_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A survivor that is one step ahead repeats the step; the faulty twin continues with its own count and raises."""
    assert not raised()
    least = Survivor.least

    async def ahead(self: Survivor, made: int) -> int:
        return max(made, await least(self, made))

    monkeypatch.setattr(Survivor, "least", ahead)
    assert raised()


@pytest.mark.slow
def test_the_survivor_of_two_in_every_schedule() -> None:
    """A proof over all schedules: the survivor of two ranks completes its step.

    The museum's table tries fewer schedules.
    """
    at = At("survivors.all_to_all", 0)
    result = explore_subject(ranks(2, 1, faults=(Fault("die", 1, at),)), "dpor", schedules=5_000)
    assert (result.verdict, result.exploration.runs) == ("proven", 2_032)
