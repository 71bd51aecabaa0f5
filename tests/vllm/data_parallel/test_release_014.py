"""Checks find a known defect of release 0.14 in random worlds: ranks disagree on the mode. Source page 000 has none.

If ranks agree on a mode below FULL, the second dispatch of 0.14 forbids FULL, but does not require the agreed mode
(mutant M-DP-7). If one rank has to run eagerly, other ranks may still choose PIECEWISE. The specification found this in
72 of 6,000 random groups, as different modes or as an assertion on one side (A.2). Each of these groups had a rank that
was forced to run eagerly. Its groups had no adapters. Here, if only batches with adapters have graphs, a rank without
an adapter has the same effect.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, find, settings
from hypothesis.errors import NoSuchExample

from dpsim.checks import matches
from dpsim.vllm.data_parallel.batch import Release014, Source000
from tests.properties import examples, holds
from tests.vllm.data_parallel.batch_worlds import Drawn, decodes, drawn_worlds, line_up, play

QUIET = settings(database=None, deadline=None, max_examples=150, phases=[Phase.generate, Phase.shrink])
SEARCH = settings(QUIET, phases=[Phase.generate], max_examples=1000)
NOTHING = settings(QUIET, phases=[Phase.generate])


def disagrees(drawn: Drawn) -> bool:
    return "DISAGREEMENT:MODE" in drawn.play(form=Release014()).classes


def crashes(drawn: Drawn) -> bool:
    return any(matches(klass, "CRASH") for klass in drawn.play(form=Release014()).classes)


def has_an_eager_rank(drawn: Drawn) -> bool:
    """Whether some rank finds no graph where others may find one, although it has no more tokens than they."""
    only_adapters = drawn.config.get("enable_lora") and not drawn.config["cudagraph_specialize_lora"]
    return bool(only_adapters) or any(request.force_eager for request in drawn.requests)


@pytest.mark.slow
def test_ranks_of_0_14_disagree_beside_a_forced_eager_rank() -> None:
    """The smallest world with the defect has one request, which is forced to run eagerly, and an idle rank.

    The idle rank has a graph for its dummy. Source page 000 reports nothing in the same world.
    """
    smallest = find(drawn_worlds(force_eager=True), disagrees, settings=QUIET, random=Random(0))
    assert smallest.ranks == 2
    assert len(smallest.requests) == 1
    assert has_an_eager_rank(smallest)
    [primary, *_] = smallest.play(form=Release014()).findings
    assert primary.klass == "DISAGREEMENT:MODE"
    assert smallest.play(form=Source000()).findings == []


@pytest.mark.slow
def test_ranks_of_0_14_may_crash_beside_an_eager_rank() -> None:
    """In some worlds, the defect raises an assertion.

    The eager rank's count is no graph size, and the other rank pads the agreed count.
    """
    found = find(drawn_worlds(force_eager=True), crashes, settings=SEARCH, random=Random(0))
    assert has_an_eager_rank(found)
    assert found.play(form=Source000()).findings == []


@pytest.mark.slow
def test_ranks_of_0_14_have_a_finding_only_beside_an_eager_rank() -> None:
    """No check has a finding in random worlds without an eager rank in release 0.14."""

    def otherwise(drawn: Drawn) -> bool:
        return not has_an_eager_rank(drawn) and bool(drawn.play(form=Release014()).findings)

    with pytest.raises(NoSuchExample):
        find(drawn_worlds(), otherwise, settings=NOTHING, random=Random(0))


def test_ranks_of_0_14_disagree_beside_a_rank_without_an_adapter() -> None:
    """Example A-31 in release 0.14: the dummy finds no graph, and the rank with an adapter finds a PIECEWISE graph."""
    requests = line_up(decodes(3, lora="french"), [])
    config: dict[str, Any] = {
        "enable_lora": True,
        "cudagraph_specialize_lora": False,
        "cudagraph_capture_sizes": (1, 2, 4, 8),
    }
    assert "DISAGREEMENT:MODE" in play(requests, form=Release014(), **config).classes
    assert play(requests, form=Source000(), **config).classes == []


@examples(40, 250, 1_000)
def test_the_healthy_form_holds_in_the_same_worlds(examples: int) -> None:
    """Source page 000 has no finding in the worlds in which release 0.14 has some."""
    found: Counter[str] = Counter()

    def compare(drawn: Drawn) -> None:
        found.update(set(drawn.play(form=Release014()).classes))
        assert drawn.play(form=Source000()).classes == []

    holds(compare, drawn_worlds(force_eager=True), examples)
    assert found["DISAGREEMENT:MODE"]
    assert set(found) <= {"DISAGREEMENT:MODE", "CRASH:ASSERTIONERROR"}, found
