"""Invariants of specification 2.10, read off the journals of runs; each is broken by a faulty twin.

The loop asserts I-EL-6 and I-EL-8. At every sync all ranks decide I-EL-1, I-EL-3 and I-EL-5. The others are those of
pure engines (`tests/vllm/engine/test_waves.py`).
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
    """The journals of the engines."""
    return [seen.run.journals[rank] for rank in range(seen.world.size)]


def idle_collectives(seen: Seen) -> bool:
    """I-EL-4: before each collective of the loop a message has come since the last wave ended."""
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
    """I-EL-2: between two syncs, as many forwards as the step counter says."""
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
    """I-EL-12: after a result, and before an output of it, the engine has looked for aborts."""
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
    """I-EL-14: who answers RESUME has the result of a reduction, which every rank has issued."""
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
    """The client hears that an engine has resumed before the engine has met the others."""

    async def take(self, what: str, client: int, arguments: list[Any]) -> None:
        if what == "RESUME":
            self.answers.answered(what, client)
            await self.resume()
        else:
            await super().take(what, client, arguments)


class LateAborts(EngineLoop):
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
    seen = run(group(dp=dp, requests=[(2, 0), (1, 2), (3, 2), (4, 3, 4)], interval=interval, control=control))
    assert seen.classes == []
    assert [name for name, (check, _) in zip(BY_NAME, BROKEN, strict=True) if check(seen)] == []


@pytest.mark.parametrize(("check", "pieces"), BROKEN, ids=BY_NAME)
def test_each_is_broken_by_a_twin(check: Callable[[Seen], bool], pieces: dict[type[Any], type[Any]]) -> None:
    control = PAUSED if EngineControl in pieces else ()
    requests = [(2, 2)] if control else [3]
    assert not check(run(group(requests=requests, interval=2, control=control)))
    assert check(run(group(requests=requests, interval=2, control=control, pieces=pieces)))
