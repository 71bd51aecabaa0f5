"""Draws random histories of an engine and of the coordinator.

Each iteration in the history of an engine contains random numbers in the place of those that other ranks send. VLLM's
answer keeps only the numbers that a finish sync reduced. An engine of release 0.14 has no pauses, and its sync has one
number. Up to release 0.28 the sync interval is 32 steps.
"""

from __future__ import annotations

from random import Random
from typing import Any

from dpsim.vllm.releases import V0_14, V0_28, V0_33
from dpsim_engine.comparison import Row, series


def history(random: Random, release: str) -> Row:
    return _coordinator(random, release) if random.random() < 0.5 else _engine(random, release)


# ---- one engine


def _engine(random: Random, release: str) -> Row:
    size, old = random.randint(2, 4), series(release) <= series(V0_14.name)
    interval = 32 if series(release) <= series(V0_28.name) else random.choice([1, 2, 3, 5, 32])
    wave, running = random.randint(0, 2), random.random() < 0.6
    started = random.choice([0, interval - 1, interval - 3, interval - 6]) if running else 0
    quiet = random.random()
    return {
        "kind": "engine",
        "dp_size": size,
        "dp_rank": random.randrange(size),
        "has_coordinator": random.random() < 0.85,
        "sync_interval": interval,
        "start": {"current_wave": wave, "engines_running": running, "step_counter": max(0, started)},
        "iterations": [_pass(random, size, old, quiet) for _ in range(random.randint(4, 40 if interval == 32 else 20))],
    }


def _pass(random: Random, size: int, old: bool, quiet: float) -> Row:
    messages: list[Any] = []
    for _ in range(random.choice([0, 0, 0, 1, 1, 2])):
        what = random.choice(["ADD", "ADD", "START_DP_WAVE", "START_DP_WAVE", *([] if old else ["PAUSE", "RESUME"])])
        wave = random.randint(0, 4)
        if what == "ADD":
            messages.append([what, [random.choice([0, 0, random.randint(1, 3)]), random.randint(1, 5)], wave])
        elif what == "START_DP_WAVE":
            messages.append([what, wave, random.choice([None, random.randrange(size)])])
        else:
            messages.append([what])
        if what == "RESUME":
            others = [[int(random.random() < 0.3)] for _ in range(size - 1)]
            messages.append({"resume_barrier": {"others": others}})
    pausing = [random.random() < 0.4] * (size - 1) if random.random() < 0.5 else []
    others = [_numbers(random, old, quiet, bool(pausing and pausing[at])) for at in range(size - 1)]
    return {"messages": messages, "sync": {"others": others}}


def _numbers(random: Random, old: bool, quiet: float, pausing: bool) -> list[int]:
    working = int(random.random() > quiet)
    return [working] if old else [working, int(pausing or random.random() < 0.2)]


# ---- the coordinator


def _coordinator(random: Random, release: str) -> Row:
    """Returns a random history of a coordinator.

    Before release 0.33, a message of a removed engine terminates the coordinator's process. So in those histories the
    number of engines only grows.
    """
    shrinks = series(release) >= series(V0_33.name)
    engines = count = random.randint(1, 4)
    steps: list[Row] = []
    for _ in range(random.randint(4, 12)):
        front: list[Any] | None = None
        if random.random() < 0.25:
            front = [random.choice([None, random.randrange(count)]), random.randint(0, 3)]
        elif random.random() < 0.06:
            count = random.randint(1, 4) if shrinks else count + random.randint(0, 2)
            front = ["SCALE_ELASTIC_EP", count]
        engine = _outputs(random, count) if random.random() < 0.7 else None
        steps.append({"event": {"front": front, "engine": engine}})
    waves = random.random() < 0.85
    return {"kind": "coordinator", "engines": engines, "enable_wave_coordination": waves, "steps": steps}


def _outputs(random: Random, engines: int) -> Row:
    outputs: Row = {"engine_index": random.randrange(engines)}
    match random.choice(["stats", "stats", "wave_complete", "start_wave"]):
        case "stats":
            numbers = {name: random.randint(0, 4) for name in ("waiting", "running")}
            outputs["stats"] = {"step": random.randint(0, 5), "wave": random.randint(0, 2), **numbers}
        case kind:
            outputs[kind] = random.randint(0, 3)
    return outputs
