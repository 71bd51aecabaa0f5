"""Compares waves message by message: histories of one engine core, and of the coordinator (specification 2.2 to 2.6).

A wave is the time in which engines step together. A history of an engine is a question to one rank: it contains random
numbers in the place of those that other ranks send. The scheduler in it is a stand-in on both sides. Each request first
has steps in which it is not ready, and then steps in which it runs. All ready requests advance in one step. A paused
scheduler runs no request and reports none.

The coordinator receives messages over two sockets. If a poll brings a change of the number of engines, the engine's
message of that poll stays in its socket. The next poll that finds the socket ready takes the message.

Counts of release 0.28 and later contain the usage of the KV cache, which is 0 in all histories.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from dpsim.vllm.engine.coordination import (
    Coordination,
    EngineCounts,
    FirstRequest,
    FromEngine,
    Sent,
    StartDpWave,
    StartWave,
    WaveComplete,
)
from dpsim.vllm.engine.finish_sync import Numbers, Op
from dpsim.vllm.engine.waves import EngineWaves, Out, PauseState
from dpsim.vllm.releases import V0_14, V0_24, V0_28, V0_31, V0_33, Absent, Release
from dpsim_engine.comparison import Comparison, Row, ours_of

STATE = ("current_wave", "engines_running", "step_counter")
PAUSES = ("pending_pause", "ignore_start_dp_wave")
"""With `STATE`, the state of an engine in its history after each iteration, in vLLM's names."""

# ---- one engine


class Scheduled:
    """The stand-in of a scheduler.

    A request is a pair: the steps until it is ready, and the steps that it then runs.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[int, int]] = []

    def step(self, paused: bool) -> bool:
        """Advances the requests by one step. Returns whether any request ran."""
        if paused:
            return False
        ran = any(not wait for wait, _ in self.requests)
        after = [(wait - 1, steps) if wait else (0, steps - 1) for wait, steps in self.requests]
        self.requests = [one for one in after if one[1]]
        return ran

    def unfinished(self, paused: bool) -> bool:
        return bool(self.requests) and not paused


def reduced(op: Op, numbers: list[Numbers]) -> Numbers:
    """Reduces the numbers of all ranks, column by column.

    >>> reduced("sum", [(1, 0), (1, 1)]), reduced("max", [(0,), (1,)])
    ((2, 1), (1,))
    """
    columns = zip(*numbers, strict=True)
    return tuple(map(sum, columns)) if op == "sum" else tuple(map(max, columns))


def asked_of_engine(row: Row) -> Row:
    """Returns the messages, and the numbers that the other ranks bring to each barrier and to the finish sync."""

    def question(one: Row) -> Row:
        barriers = [message["resume_barrier"]["others"] for message in one["messages"] if "resume_barrier" in message]
        messages = [message for message in one["messages"] if isinstance(message, list)]
        return {"messages": messages, "barriers": barriers, "others": one["sync"] and one["sync"]["others"]}

    return {**row, "iterations": [question(one) for one in row["iterations"]]}


class History:
    """One engine, which this class drives as the engine loop does."""

    def __init__(self, row: Row, kind: type[EngineWaves]) -> None:
        self.row = row
        self.engine = kind(row["dp_rank"], row["dp_size"], row["has_coordinator"], row["sync_interval"])
        start = row["start"]
        self.engine.current_wave = start["current_wave"]
        self.engine.engines_running = start["engines_running"]
        self.engine.step_counter = start["step_counter"]
        self.scheduler = Scheduled()

    def iterations(self) -> list[Row]:
        return [self._iteration(one) for one in self.row["iterations"]]

    @property
    def _paused(self) -> bool:
        return self.engine.pause_state is PauseState.PAUSED_ALL

    def _iteration(self, question: Row) -> Row:
        was_running = self.engine.engines_running
        outs: list[Out] = []
        answers: list[Any] = []
        barriers = iter(question["barriers"])
        for message in question["messages"]:
            answers.append(message)
            match message:
                case ["ADD", [wait, runs], wave]:
                    self.scheduler.requests.append((wait, runs))
                    outs += self.engine.add(wave)
                case ["START_DP_WAVE", wave, exclude]:
                    self.engine.start_dp_wave(wave, exclude)
                case ["PAUSE"]:
                    self.engine.pause("keep")
                case ["RESUME"]:
                    answers += self._resume(barriers)
        executed = self.scheduler.step(self._paused)
        unfinished = self.scheduler.unfinished(self._paused)
        if not executed and not unfinished and not self.engine.engines_running:
            return {"messages": answers, "ran": None, "sync": None} | self._state(outs)
        sync = self._finish_sync(unfinished, question["others"] or [])
        outs += self.engine.end_iteration(was_running)
        return {"messages": answers, "ran": "model" if executed else "dummy", "sync": sync} | self._state(outs)

    def _resume(self, barriers: Iterator[Any]) -> list[Row]:
        """Returns the result of a RESUME: an exception, a barrier, or nothing."""
        try:
            if not self.engine.resume():
                return []
        except RuntimeError:
            return [{"raises": "RuntimeError"}]
        sent = [int(self.scheduler.unfinished(self._paused))]
        others: list[Any] = next(barriers, [])
        self.engine.resumed(any(any(one) for one in [sent, *others]))
        return [{"resume_barrier": {"sent": sent, "others": others}}]

    def _finish_sync(self, unfinished: bool, others: list[Any]) -> Row | None:
        if not self.engine.at_sync_point():
            self.engine.no_sync()
            return None
        sent = self.engine.contribution(unfinished)
        self.engine.synced(reduced(self.engine.op, [sent, *map(tuple, others)]))
        return {"sent": list(sent), "others": others}

    def _state(self, outs: list[Out]) -> Row:
        client = {"coordinator": -1, "frontend": 0}
        outputs = [[client[out.to], out.kind, out.wave] for out in outs]
        return {"outputs": outputs} | {name: getattr(self.engine, name) for name in STATE + PAUSES}


def expected_iterations(row: Row) -> list[Row]:
    """Returns vLLM's answer. Release 0.14 has no pauses, so none is ever pending there."""
    return [dict.fromkeys(PAUSES, False) | one for one in row["iterations"]]


def waves_of(release: Release) -> type[EngineWaves] | Absent:
    return release.lockstep if isinstance(release.lockstep, Absent) else release.lockstep.waves


WAVES: Comparison[type[EngineWaves]] = Comparison(
    "waves",
    "waves",
    "vllm.v1.engine.core.DPEngineCoreProc.run_busy_loop",
    ours_of(waves_of, V0_14, V0_24, V0_28, V0_31, V0_33),
    lambda row, kind: History(asked_of_engine(row), kind).iterations(),
    expected_iterations,
    applies=lambda row: row["kind"] == "engine",
    question=asked_of_engine,
    piece=waves_of,
)

# ---- the coordinator


def from_engine(event: Row) -> FromEngine:
    """Returns the message of an engine from its stored form.

    >>> from_engine({"engine_index": 1, "wave_complete": 4})
    WaveComplete(engine=1, wave=4)
    """
    engine = event["engine_index"]
    if "stats" in event:
        return EngineCounts(engine, **event["stats"])
    return (
        StartWave(engine, event["start_wave"])
        if "start_wave" in event
        else WaveComplete(engine, event["wave_complete"])
    )


def asked_of_coordinator(row: Row) -> Row:
    return {**row, "steps": [{"event": step["event"]} for step in row["steps"]]}


def steps(row: Row, kind: type[Coordination]) -> list[Row]:
    """Returns dpsim's answer for the history of a coordinator."""
    coordinator = kind(row["engines"], row["enable_wave_coordination"])
    socket: deque[FromEngine] = deque()
    answer = []
    for step in row["steps"]:
        front, engine = step["event"]["front"], step["event"]["engine"]
        if engine is not None:
            socket.append(from_engine(engine))
        if front is None and engine is None:
            sent = coordinator.published()
        elif front is not None and front[0] == "SCALE_ELASTIC_EP":
            sent = coordinator.scale(front[1])
        else:
            sent = coordinator.poll(front and FirstRequest(*front), socket.popleft() if engine is not None else None)
        answer.append(
            {
                "sent": [in_their_words(one) for one in sent],
                "current_wave": coordinator.current_wave,
                "engines_running": coordinator.engines_running,
            }
        )
    return answer


def in_their_words(sent: Sent) -> list[Any]:
    if isinstance(sent.message, StartDpWave):
        return [sent.to, "START_DP_WAVE", list(sent.message)]
    counts, wave, running = sent.message
    return [sent.to, [None if counts is None else [list(one) for one in counts], wave, running]]


def expected_steps(row: Row) -> list[Row]:
    return [
        {
            "sent": step["sent"],
            "current_wave": step["current_wave"],
            "engines_running": step["engines_running"],
        }
        for step in row["steps"]
    ]


def coordination_of(release: Release) -> type[Coordination] | Absent:
    return release.lockstep if isinstance(release.lockstep, Absent) else release.lockstep.coordination


COORDINATION: Comparison[type[Coordination]] = Comparison(
    "coordination",
    "waves",
    "vllm.v1.engine.coordinator.DPCoordinatorProc.process_input_socket",
    ours_of(coordination_of, V0_14, V0_24, V0_28, V0_31, V0_33),
    steps,
    expected_steps,
    applies=lambda row: row["kind"] == "coordinator",
    question=asked_of_coordinator,
    piece=coordination_of,
)
