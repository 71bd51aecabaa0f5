"""Tests that journals obey the invariants of specification 2.10; for each, a faulty twin breaks it.

The engine loop itself asserts I-EL-6 and I-EL-8. At every sync point, all ranks record decisions, by which a check
compares I-EL-1, I-EL-3 and I-EL-5. The file test_waves.py tests the others on engines without a simulated machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpsim.contract.ops import DECISION_VALUE, KIND, LEARNED_OUTCOME, POST_CONTENT, SITE, RawRecord
from dpsim.vllm.engine.forward import DUMMY, REAL
from dpsim.vllm.engine.loop import EngineLoop
from dpsim.vllm.engine.pause import Control as EngineControl
from dpsim.vllm.museum.engine import NoDummies, SyncsWhenIdle
from dpsim.vllm.museum.engine_pauses import NoBarrier
from tests.vllm.engine.group_worlds import Control, Seen, group, run

PAUSED: Control = [(1, ("PAUSE", "keep")), (4, ("UPDATE_WEIGHTS", 1)), (5, ("RESUME",))]
OF_THE_LOOP = {"dp.agree", "engine.finish_sync"}


def of_the_loop(seen: Seen) -> list[list[RawRecord]]:
    """Returns the journals of the engines."""
    return [seen.run.journals[rank] for rank in range(seen.world.size)]


def idle_collectives(seen: Seen) -> bool:
    """Whether an idle engine made a collective of the loop (breaks invariant I-EL-4).

    An engine is idle from the end of a wave until it receives a message.
    """
    for journal in of_the_loop(seen):
        awake = False
        for raw in journal:
            if raw[KIND] == "learned" and raw[SITE] in ("engine.idle", "engine.input"):
                awake = awake or raw[LEARNED_OUTCOME] is not None
            elif raw[KIND] == "decision" and raw[SITE] == "wave":
                awake = bool(raw[DECISION_VALUE][1])
            elif raw[KIND] == "collective" and raw[SITE] in OF_THE_LOOP and not awake:
                return True
    return False


def iterations_without_a_forward(seen: Seen) -> bool:
    """Whether an engine ran fewer or more forwards between two sync points than its steps (breaks invariant I-EL-2)."""
    for journal in of_the_loop(seen):
        forwards = before = 0
        for raw in journal:
            forwards += raw[KIND] == "probe" and raw[SITE] in (REAL, DUMMY)
            if raw[KIND] == "collective" and raw[SITE] == "engine.finish_sync" and not forwards:
                return True
            if raw[KIND] == "decision" and raw[SITE] == "wave":
                _, running, steps = raw[DECISION_VALUE]
                if forwards != steps - before:
                    return True
                forwards, before = 0, steps if running else 0
    return False


def results_before_aborts(seen: Seen) -> bool:
    """Whether an engine sent an output before it read aborts after the result (breaks invariant I-EL-12)."""
    for journal in of_the_loop(seen):
        looked = True
        for raw in journal:
            if raw[SITE] == "forward.read":
                looked = False
            looked = looked or (raw[KIND], raw[SITE]) == ("take", "engine.abort")
            if raw[SITE] == "engine.output" and not looked:
                return True
    return False


def answers_before_all_have_resumed(seen: Seen) -> bool:
    """Whether an engine answered RESUME before a reduction of all ranks (breaks invariant I-EL-14)."""
    for journal in of_the_loop(seen):
        reduced = 0
        for raw in journal:
            reduced += (raw[KIND], raw[SITE]) == ("learned", "engine.resume")
            if raw[KIND] == "post" and raw[POST_CONTENT] == ("ANSWERED", "RESUME"):
                reduced -= 1
                if reduced < 0:
                    return True
    return False


class AnswersFirst(EngineControl):
    """An engine answers RESUME before it has joined the reduction."""

    async def take(self, what: str, client: int, arguments: list[Any]) -> None:
        if what == "RESUME":
            self.answers.answered(what, client)
            await self.resume()
        else:
            await super().take(what, client, arguments)


class LateAborts(EngineLoop):
    """An engine sends the outputs of a step before it reads aborts."""

    async def step(self) -> bool:
        batch = self.scheduler.schedule(self.waves.pause_state)
        executed = await self.forward.execute(len(batch))
        self.answers.finished(self.scheduler.update(batch))
        await self.take_aborts()
        return executed


BROKEN: list[tuple[Callable[[Seen], bool], dict[type[Any], type[Any]]]] = [
    (idle_collectives, {EngineLoop: SyncsWhenIdle}),
    (iterations_without_a_forward, {EngineLoop: NoDummies}),
    (results_before_aborts, {EngineLoop: LateAborts}),
    (answers_before_all_have_resumed, {EngineControl: NoBarrier}),
    (answers_before_all_have_resumed, {EngineControl: AnswersFirst}),
]
BY_NAME = [f"{check.__name__} {next(iter(pieces.values())).__name__}" for check, pieces in BROKEN]


@pytest.mark.parametrize("interval", [1, 2, 16])
@pytest.mark.parametrize("dp", [2, 3])
@pytest.mark.parametrize("control", [(), PAUSED], ids=["served", "paused"])
def test_healthy_runs_break_none(dp: int, interval: int, control: Control) -> None:
    """Healthy runs obey all invariants."""
    seen = run(group(dp=dp, requests=[(2, 0), (1, 2), (3, 2), (4, 3, 4)], interval=interval, control=control))
    assert seen.classes == []
    assert [name for name, (check, _) in zip(BY_NAME, BROKEN, strict=True) if check(seen)] == []


@pytest.mark.parametrize(("check", "pieces"), BROKEN, ids=BY_NAME)
def test_each_is_broken_by_a_twin(check: Callable[[Seen], bool], pieces: dict[type[Any], type[Any]]) -> None:
    """Each faulty twin breaks its invariant."""
    control = PAUSED if EngineControl in pieces else ()
    requests = [(2, 2)] if control else [3]
    assert not check(run(group(requests=requests, interval=2, control=control)))
    assert check(run(group(requests=requests, interval=2, control=control, pieces=pieces)))
