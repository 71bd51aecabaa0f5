"""The mutants of sampled tokens and hidden states: found in random worlds without being told where, or harmless there.

The smallest world of each is its exhibit. What is harmless is looked for in whole scopes by test_tokens_scopes.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.checks import matches
from dpsim.registry import variant, variants
from tests.properties import breaks, holds
from tests.protocol.pipeline.token_worlds import EXTREMES, Drawn, drawn_worlds, pieces, varied_worlds

CAPTURED = "dpsim.museum.captures", "dpsim.museum.offloading", "dpsim.museum.graph_bugs"
"""Their variants need graphs that are captured: see test_graphs.py."""
KNOWN = {entry.name: entry.expected for entry in variants("pp_tokens") if entry.make.__module__ not in CAPTURED}
HARMLESS = [name for name, expected in KNOWN.items() if expected is None]
SEVERAL = drawn_worlds(stages=(2, 2, 3), most=5)
OTHERS = {
    "dpsim.museum.steps": drawn_worlds(stages=(2, 2, 3), most=4, replicas=2),
    "dpsim.museum.remote_calls": varied_worlds(stages=(2, 2, 3), most=4, replicas=2),
    "dpsim.museum.requests": varied_worlds(stages=(2,), drafts=(1, 2), most=4),
    "dpsim.museum.tensor_parallel": drawn_worlds(stages=(2, 2, 3), most=2, tensor_parallel_size=2),
}


def with_scarce_blocks(drawn: Drawn) -> Drawn:
    """The KV cache holds just the longest request."""
    most = max(one.prompt_tokens + one.output_tokens for one in drawn.requests)
    blocks = most + 2 * (1 + drawn.config["num_speculative_tokens"])
    slots = max(2, drawn.config["max_num_seqs"])
    scarce = {"max_num_seqs": slots, "max_num_batched_tokens": 24, "block_size": 1, "num_gpu_blocks_override": blocks}
    return drawn._replace(config={**drawn.config, **scarce})


SCARCE = drawn_worlds(stages=(2,), drafts=(1, 2, 3), most=5).map(with_scarce_blocks)


def worlds(name: str) -> st.SearchStrategy[Drawn]:
    """Dummy steps need replicas, slices tensor parallelism, a spinning receive a narrow device, and some mutants
    requests of all kinds.
    """
    if name == "pp-admits-preempting":
        return SCARCE
    if name in ("pp-warms-up", "pp-warmup-bcast"):
        return SEVERAL.map(lambda drawn: drawn._replace(residency=1))
    return OTHERS.get(variant(name).make.__module__, SEVERAL)


SESSIONS = ["pp-session-generation", "pp-session-result", "pp-session-seat"]
RARE = ["M-PP-15", "M-PS-8-deep", *SESSIONS]
"""In hundreds of random worlds there is hardly one that shows them; their exhibits do in every run."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in RARE), id=name) for name in KNOWN if name not in HARMLESS],
)
def test_a_mutant_is_found_without_being_told_where(name: str) -> None:
    expected = KNOWN[name]
    assert expected is not None

    def not_found(drawn: Drawn) -> None:
        found = [klass for eager in EXTREMES for klass in drawn.play(eager, **pieces(name)).classes]
        assert not any(matches(klass, expected) for klass in found), "found"

    breaks(not_found, worlds(name), "found")


@pytest.mark.slow
def test_a_harmless_mutant_is_harmless_everywhere() -> None:
    def nothing_found(chosen: tuple[str, Drawn]) -> None:
        name, drawn = chosen
        for eager in EXTREMES:
            assert drawn.play(eager, **pieces(name)).classes == []

    named = st.sampled_from(HARMLESS).flatmap(lambda name: st.tuples(st.just(name), worlds(name)))
    holds(nothing_found, named, examples=100)


def test_both_defects_of_the_page_are_found() -> None:
    """One property finds the width, and with the width mended the mask, each without being told where to look."""

    def all_is_well(drawn: Drawn, **changed: Any) -> None:
        found = drawn.play(**changed).findings
        assert found == [], f"{found[0].klass}: {found[0].message}"

    holds(all_is_well, SEVERAL, examples=40)
    breaks(lambda drawn: all_is_well(drawn, **pieces("page-002")), SEVERAL, "MISMATCH:COLLECTIVE:COUNT")
    breaks(lambda drawn: all_is_well(drawn, **pieces("M-PP-14")), SEVERAL, "CRASH:WRONG")
