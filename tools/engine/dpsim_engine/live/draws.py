"""Draws random questions to an installed release, similar to the stored questions of a file."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from dpsim.vllm.releases import V0_14
from dpsim_engine.comparison import Row, series
from dpsim_engine.live import drawn_configurations, drawn_groups_v2, drawn_loops
from dpsim_engine.live.clients import numbers_of_counts


def _need_mask(random: Random, release: str) -> Row:
    rows = [_computed_and_prefill(random) for _ in range(random.randint(1, 6))]
    return {
        "num_computed_tokens": [computed for computed, _ in rows],
        "num_scheduled_tokens": [random.randint(1, 8) for _ in rows],
        "prefill_len": [prefill for _, prefill in rows],
        "max_seq_len": [prefill + random.randint(1, 20) for _, prefill in rows],
    }


def _computed_and_prefill(random: Random) -> tuple[int, int]:
    prefill = random.randint(1, 30)
    return random.randint(0, prefill + 12), prefill


def _split(random: Random, release: str) -> Row:
    scheduled = [random.choice([1, 1, random.randint(1, 40)]) for _ in range(random.randint(1, 8))]
    ubatches = random.randint(2, 4)
    return {
        "num_scheduled_tokens": scheduled,
        "num_computed_tokens": [random.randint(0, 40) for _ in scheduled],
        "num_tokens_padded": max(sum(scheduled), ubatches) + random.choice([0, random.randint(0, 30)]),
        "num_reqs_padded": len(scheduled) + random.choice([0, random.randint(0, 6)]),
        "num_ubatches": ubatches,
        "split_point": None,
    }


def _group(random: Random, release: str) -> Row:
    """Returns a random group of ranks; in release 0.14 each rank also wishes for padding."""
    thresholds = sorted(random.choices([4, 8, 32, 128], k=2))
    wish = {"allow_dp_padding": True} if series(release) <= series(V0_14.name) else {}
    return {
        "config": {
            "enable_dbo": random.random() < 0.7,
            "ubatch_size": 0,
            "dbo_decode_token_threshold": thresholds[0],
            "dbo_prefill_token_threshold": thresholds[1],
        },
        "ranks": [_rank(random, thresholds) | wish for _ in range(random.randint(1, 6))],
    }


def _rank(random: Random, thresholds: list[int]) -> Row:
    """Returns a random rank, whose token count is more often near a threshold than not."""
    tokens = max(1, random.choice(thresholds) + random.randint(-2, 40))
    return {
        "num_tokens_unpadded": tokens,
        "num_tokens_padded": tokens + random.choice([0, random.randint(0, 40)]),
        "allow_microbatching": random.random() < 0.8,
        "uniform_decode": random.random() < 0.5,
        "cudagraph_mode": random.randint(0, 2),
    }


def _balanced(random: Random, release: str) -> Row:
    """Returns a random history of a front end, with few engines and small numbers, so that loads are often equal.

    Some requests name an engine.
    """
    engines, clients = random.randint(2, 5), random.randint(1, 3)
    waiting: list[int] = []
    events: list[list[object]] = []
    requests = 0
    for _ in range(random.randint(4, 24)):
        what = random.choice(["COUNTS", "REQUEST", "REQUEST", "REQUEST", "FINISHED"])
        if what == "REQUEST":
            events.append([what, random.randrange(engines) if random.random() < 0.15 else None])
            waiting.append(requests)
            requests += 1
        elif what == "COUNTS":
            counts = [[random.randint(0, 3), random.randint(0, 6), random.choice([0.0, 0.5, random.random(), 1.0])]]
            counts += [[random.randint(0, 3), random.randint(0, 6), random.random()] for _ in range(engines - 1)]
            events.append([what, [one[: numbers_of_counts(release)] for one in counts]])
        elif waiting:
            ended = random.sample(waiting, random.randint(1, len(waiting)))
            waiting = [one for one in waiting if one not in ended]
            events.append([what, ended])
    return {
        "engines": engines,
        "client_index": random.randrange(clients),
        "client_count": clients,
        "events": events,
    }


DRAWS: dict[str, Callable[[Random, str], Row]] = {
    "need_mask": _need_mask,
    "slices": _split,
    "decide": _group,
    "balance": _balanced,
    "waves": drawn_loops.history,
    "config": drawn_configurations.configuration,
    "v2_sync": drawn_groups_v2.group,
}


def drawn(file: str, release: str, count: int, seed: int) -> list[Row]:
    """Returns random questions of a file, equal for equal seeds; none if the file has no random questions."""
    draw, random = DRAWS.get(file), Random(f"{file} {seed}")
    return [] if draw is None else [{"version": release, "drawn": at, **draw(random, release)} for at in range(count)]
