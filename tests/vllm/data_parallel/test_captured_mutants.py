"""Checks find the mutants of CUDA graphs (specification 5.12) and historical bugs in random worlds, without a hint.

A mutant is a variant with one planted mistake; its exhibit is the smallest scenario that shows it. Mutants that are
registered as harmless cause no finding in random worlds.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.checks import matches
from dpsim.contract.ops import ALLOC_PLACE, CAPTURE_WHAT, KIND
from dpsim.contract.registry import variants
from dpsim.vllm.data_parallel.captured import CapturedForward
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.batch_worlds import Drawn, Played, decodes, line_up, pieces, play, prefill
from tests.vllm.data_parallel.captured_worlds import captured, captured_worlds
from tests.vllm.data_parallel.test_mutants import CAPTURED

KNOWN = {entry.name: entry.expected for entry in variants("dp_batch") if entry.make.__module__ in CAPTURED}
HARMLESS = [name for name, expected in KNOWN.items() if expected is None]
WORLDS, MORE = captured_worlds(), captured_worlds(more=True)
RARE = ["M-CG-6", "M-CG-11-late", "M-CG-15-replay", "M-CG-16", "M-CG-18", "sgl-schedule-war"]
"""Checks find these mutants in few random worlds, so their tests are slow. Their exhibits run in every test run."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in RARE), id=name) for name in KNOWN if name not in HARMLESS],
)
def test_random_worlds_find_the_mutant(name: str) -> None:
    """In some random world, a check finds each harmful mutant with its registered class."""
    expected = str(KNOWN[name])

    def not_found(drawn: Drawn) -> None:
        assert not any(matches(klass, expected) for klass in captured(drawn, **pieces(name)).classes), "found"

    breaks(not_found, WORLDS, "found", examples=500)


@examples(8, 16, 60)
@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_mutant_is_harmless_everywhere(name: str, examples: int) -> None:
    """No check reports a harmless mutant in random worlds."""

    def nothing_found(drawn: Drawn) -> None:
        assert captured(drawn, **pieces(name)).classes == []

    holds(nothing_found, MORE, examples)


# ---- worlds in which a mutant changes nothing, or exactly what its docstring names


def test_rounding_down_is_harmless_where_a_graph_fits() -> None:
    """Mutant M-CG-1 rounds a size down to a smaller graph; this changes nothing where a graph has exactly the size."""
    requests = line_up(prefill(2), prefill(2))
    assert play(requests, cudagraph_capture_sizes=[1, 2], **pieces("M-CG-1")).classes == []
    assert play(requests, cudagraph_capture_sizes=[1, 4], **pieces("M-CG-1")).classes == ["CRASH:ASSERTIONERROR"]


def test_the_graph_of_the_own_count_is_one_of_the_agreed_mode() -> None:
    """Mutant M-CG-15-replay: a rank replays the graph for its local token count, in the agreed mode.

    By itself, a rank with a decode would run a FULL graph, but here the ranks agree on PIECEWISE. So the counts of the
    expert collectives differ.
    """
    config: dict[str, Any] = {"cudagraph_capture_sizes": [1, 4], "max_num_seqs": 2, "capture_graphs": True}
    played = play(line_up(decodes(1), prefill(3)), **config, **pieces("M-CG-15-replay"))
    assert played.classes[0] == "MISMATCH:COLLECTIVE:COUNT"


@pytest.mark.parametrize(("ranks", "expected"), [(1, []), (2, ["GRAPH:UNPAIRED"])])
@pytest.mark.parametrize("mode", ["FULL_DECODE_ONLY", "PIECEWISE"])
def test_a_single_rank_without_a_graph_has_no_finding(mode: str, ranks: int, expected: list[str]) -> None:
    """Mutant M-CG-18 with as many requests as a graph can have: one rank has no graph and runs eagerly.

    The check GRAPH:UNPAIRED compares a replay with the calls of other ranks, so it finds nothing for a single rank.
    """
    config: dict[str, Any] = {
        "cudagraph_capture_sizes": [1],
        "max_num_seqs": 1,
        "enable_lora": True,
        "cudagraph_mode": mode,
    }
    requests = decodes(ranks, lora="french")
    assert play(requests, ranks=ranks, **config, **pieces("M-CG-18")).classes == expected


@pytest.mark.parametrize("sizes", [[1, 2, 4], [4, 64], [1, 3, 8, 40]])
def test_the_pool_of_graphs_needs_as_much_in_any_order_of_modes(sizes: list[int]) -> None:
    """The order of modes in a capture session does not change the memory of the graph pool (mutant M-CG-14).

    Mutant M-CG-11 keeps all outputs, so it needs more memory.
    """
    config: dict[str, Any] = {"cudagraph_capture_sizes": sizes, "max_num_seqs": 4}
    healthy, reordered, keeps = (
        pool_bytes(play(line_up(decodes(2), decodes(1)), **config, **wrong))
        for wrong in ({"captured": CapturedForward}, pieces("M-CG-14"), pieces("M-CG-11"))
    )
    assert healthy == reordered < keeps


def pool_bytes(played: Played) -> int:
    """Returns the most memory, summed over all segments, that the captures of rank 0 have allocated."""
    segments: dict[int, int] = {}
    inside = False
    for raw in played.run.journals[0]:
        if raw[KIND] == "capture":
            inside = raw[CAPTURE_WHAT] == "begin"
        elif raw[KIND] == "alloc" and inside:
            segment, _, stop = raw[ALLOC_PLACE]
            segments[segment] = max(segments.get(segment, 0), stop)
    return sum(segments.values())


def test_the_mutants_of_the_chapter_are_all_there() -> None:
    """Variants M-CG-1 to M-CG-18, the mutants of specification 5.12, are all registered."""
    registered: dict[str, Any] = {entry.name: entry for entry in variants()}
    assert {f"M-CG-{number}" for number in range(1, 19)} <= set(registered)
