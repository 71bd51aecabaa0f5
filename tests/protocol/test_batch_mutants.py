"""Every mutant of specification 1.12 is found in the smallest world that shows it; the healthy protocol holds there.

Worlds are written by hand, as small as they get: one request a rank where that is enough. A mutant that harms nothing
but speed is run where its change makes a difference, and no check may call that a fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from batch_worlds import (
    Drawn,
    Played,
    breaks,
    decodes,
    drawn_worlds,
    holds,
    line_up,
    pieces,
    play,
    prefill,
    scenario,
)

from dpsim.checks import matches
from dpsim.protocol.scheduler import Request
from dpsim.registry import variants
from dpsim.runner import run_scenario


@dataclass(frozen=True)
class Small:
    """A world, what the mutant does in it, and of which step the first finding speaks."""

    mutant: str
    shows: str
    requests: list[Request]
    step: int = 0
    ranks: int = 2
    also: str | None = None  # a class of finding, where it is not the one that is registered
    config: dict[str, Any] = field(default_factory=dict)


def world(mutant: str, shows: str, requests: list[Request], **fields: Any) -> Small:
    own = {key: fields.pop(key) for key in ("step", "ranks", "also") if key in fields}
    return Small(mutant, shows, requests, config=fields, **own)


EAGER = {"force_eager": True}
SPLIT = {"enable_dbo": True, "dbo_decode_token_threshold": 2, "dbo_prefill_token_threshold": 2}

WORLDS = [
    world("M-DP-1", "rank 1 never has tokens", line_up(decodes(1), [])),
    world(
        "M-DP-1",
        "each rank is idle once: the two calls pair up, and nobody hangs",
        [Request(0, 1, 1), Request(20_000_000, 1, 1)],
        also="MISMATCH:COLLECTIVE:STEP",
    ),
    world("M-DP-2", "modes differ", line_up(decodes(1), prefill(2, **EAGER))),
    world("M-DP-3", "a prefill has no FULL graph", line_up(decodes(1), prefill(2))),
    world("M-DP-3", "modes differ", line_up(decodes(1), decodes(1, **EAGER)), also="DISAGREEMENT:MODE"),
    world("M-DP-5", "one rank pads much", line_up(decodes(3), decodes(6)), cudagraph_capture_sizes=(6,), **SPLIT),
    world(
        "M-DP-5",
        "both split, and one has nothing real in its second half",
        line_up(decodes(2), decodes(4)),
        cudagraph_capture_sizes=(2, 4),
        also="CRASH:ASSERTIONERROR",
        **SPLIT,
    ),
    world("M-DP-6", "modes differ", line_up(decodes(1), decodes(1, **EAGER))),
    world("M-DP-7", "one rank is forced to run eagerly", line_up(decodes(1), decodes(1, **EAGER))),
    world(
        "M-DP-8",
        "half of a rank's tokens are padding",
        line_up(prefill(2), prefill(4)),
        cudagraph_capture_sizes=(4,),
        **SPLIT,
    ),
    world("M-DP-9", "agreed over gloo", line_up(decodes(1), decodes(1)), async_scheduling=True),
    world("M-DP-9", "agreed over NCCL", line_up(decodes(1), decodes(1))),
    world("M-DP-11", "rank 1 is idle beside two decodes", line_up(decodes(2), [])),
    world("M-DP-15", "an adapter on one rank", line_up(decodes(1, lora="french"), decodes(1)), enable_lora=True),
    world(
        "M-DP-16",
        "its wish to split looks like a PIECEWISE graph",
        line_up(decodes(1), prefill(2)),
        cudagraph_capture_sizes=(1,),
        **SPLIT,
    ),
    world(
        "M-DP-16",
        "as above, where nobody has PIECEWISE graphs",
        line_up(decodes(2), decodes(2)),
        cudagraph_mode="FULL_DECODE_ONLY",
        **SPLIT,
    ),
]

HARMLESS = [
    world(
        "M-DP-4",
        "three tokens pad to four, and four are enough to split",
        line_up(prefill(3), prefill(3)),
        cudagraph_capture_sizes=(4,),
        **(SPLIT | {"dbo_prefill_token_threshold": 4}),
    ),
    world("M-DP-10", "an idle rank beside a decode of two", line_up(prefill(2), []), num_speculative_tokens=1),
]

REGISTERED = {entry.name: entry for entry in variants("dp_batch")}


def run(small: Small, variant: str | None = None) -> list[tuple[str, int]]:
    """Classes of the findings, the primary one first, and the steps in which they lie."""
    result = run_scenario(scenario(small.requests, ranks=small.ranks, variant=variant, **small.config))
    return [(finding.klass, finding.position[0]) for finding in result.findings]


@pytest.mark.parametrize("small", WORLDS, ids=lambda small: f"{small.mutant}: {small.shows}")
def test_a_mutant_is_found(small: Small) -> None:
    expected = small.also or REGISTERED[small.mutant].expected
    assert expected is not None
    found = run(small, small.mutant)
    assert found, "nothing was found"
    klass, step = found[0]
    assert matches(klass, expected), found
    assert step == small.step, found
    assert run(small) == [], "its healthy twin holds in the same world"


@pytest.mark.parametrize("small", HARMLESS, ids=lambda small: f"{small.mutant}: {small.shows}")
def test_a_harmless_mutant_is_no_fault(small: Small) -> None:
    assert REGISTERED[small.mutant].expected is None
    assert run(small, small.mutant) == []
    assert run(small) == []
    mutant, healthy = (play(small.requests, **small.config, **wrong) for wrong in (pieces(small.mutant), {}))
    assert plans(mutant) != plans(healthy), "it makes a difference here"


@pytest.mark.parametrize("mutant", [name for name, entry in REGISTERED.items() if entry.expected is None])
def test_a_harmless_mutant_is_harmless_everywhere(mutant: str) -> None:
    """Not in one world only: nothing is found in any that is drawn."""

    def nothing_found(drawn: Drawn) -> None:
        assert drawn.play(**pieces(mutant)).classes == []

    holds(nothing_found, drawn_worlds(force_eager=True), examples=150)


@pytest.mark.parametrize("mutant", [name for name, entry in REGISTERED.items() if entry.expected is not None])
def test_a_mutant_is_found_without_being_told_where(mutant: str) -> None:
    """A world that shows it is among a few hundred random ones."""
    expected = str(REGISTERED[mutant].expected)

    def not_found(drawn: Drawn) -> None:
        assert not any(matches(klass, expected) for klass in drawn.play(**pieces(mutant)).classes), "found"

    breaks(not_found, drawn_worlds(force_eager=True), "found", examples=500)


def plans(played: Played) -> list[Any]:
    return [played.decided("plan", rank) for rank in played.ranks]


def test_no_mutant_is_left_out() -> None:
    """Each registered variant has a world; each is of the V1 list of 1.12."""
    assert {small.mutant for small in WORLDS + HARMLESS} == set(REGISTERED)
    assert set(REGISTERED) == {f"M-DP-{number}" for number in (*range(1, 12), 15, 16)}
