"""Checks find the mutants of sampled tokens and hidden states in random worlds, without a hint.

A mutant is a variant with one planted mistake; its exhibit is the smallest scenario that shows it. Mutants that are
registered as harmless have no finding in random worlds; test_scopes.py runs them in all small worlds.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.campaign.museum import without_variant
from dpsim.checks import matches
from dpsim.contract.ops import SITE, RawRecord
from dpsim.contract.registry import variant, variants
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, load_scenario
from dpsim.scenario.locate import scenario_path
from tests.properties import breaks, holds
from tests.vllm.pipeline.token_worlds import EXTREMES, Drawn, drawn_worlds, pieces, varied_worlds

CAPTURED = "dpsim.vllm.museum.captures", "dpsim.vllm.museum.offloading", "dpsim.vllm.museum.graph_bugs"
"""The variants in these modules need captured graphs; test_graphs.py tests them."""
KNOWN = {entry.name: entry.expected for entry in variants("pp_tokens") if entry.make.__module__ not in CAPTURED}
HARMLESS = [name for name, expected in KNOWN.items() if expected is None]
SEVERAL = drawn_worlds(stages=(2, 2, 3), most=5)
OTHERS = {
    "dpsim.vllm.museum.steps": drawn_worlds(stages=(2, 2, 3), most=4, replicas=2),
    "dpsim.vllm.museum.remote_calls": varied_worlds(stages=(2, 2, 3), most=4, replicas=2),
    "dpsim.vllm.museum.requests": varied_worlds(stages=(2,), drafts=(1, 2), most=4),
    "dpsim.vllm.museum.tensor_parallel": drawn_worlds(stages=(2, 2, 3), most=2, tensor_parallel_size=2),
}


def with_scarce_blocks(drawn: Drawn) -> Drawn:
    """Returns the world with a KV cache that has only room for the longest request, so requests are preempted."""
    most = max(one.prompt_tokens + one.output_tokens for one in drawn.requests)
    blocks = most + 2 * (1 + drawn.config["num_speculative_tokens"])
    slots = max(2, drawn.config["max_num_seqs"])
    scarce = {"max_num_seqs": slots, "max_num_batched_tokens": 24, "block_size": 1, "num_gpu_blocks_override": blocks}
    return drawn._replace(config={**drawn.config, **scarce})


PREEMPTING = ["pp-admits-preempting", "M-ES-16", "M-ES-16-behind"]
SCARCE = drawn_worlds(stages=(2,), drafts=(1, 2, 3), most=5).map(with_scarce_blocks)


def worlds(name: str) -> st.SearchStrategy[Drawn]:
    """Returns random worlds that may show a variant.

    Dummy steps need replicas, slices need tensor parallelism, and a receive that spins needs a device with one slot for
    kernels. Some mutants need preemptions or requests of all kinds.
    """
    if name in PREEMPTING:
        return SCARCE
    if name in ("pp-warms-up", "pp-warmup-bcast"):
        return SEVERAL.map(lambda drawn: drawn._replace(residency=1))
    return OTHERS.get(variant(name).make.__module__, SEVERAL)


SESSIONS = ["pp-session-generation", "pp-session-result", "pp-session-seat"]
RARE = ["M-PP-15", "M-PS-8-deep", *SESSIONS]
RARE += ["M-ES-16-behind", "pp-admits-preempting", "pp-late-results", "pp-mapping-unfiltered", "pp-warmup-bcast"]
RARE += ["drafts-in-every-step", "pp-width-of-all"]
"""Checks find these mutants in few random worlds, so their tests are slow. Their exhibits run in every test run."""
RAREST = ["M-PS-8-deep", "pp-session-seat", "drafts-in-every-step"]
"""Those of which the tests run at night."""


def mark_of(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.nightly] if name in RAREST else [pytest.mark.slow] if name in RARE else []


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=mark_of(name), id=name) for name in KNOWN if name not in HARMLESS],
)
def test_random_worlds_find_the_mutant(name: str) -> None:
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


@pytest.mark.slow
def test_a_slot_that_is_given_back_late_harms_nothing_where_requests_are_preempted() -> None:
    """Mutant M-ES-16 frees the slots of preempted requests late, but before admissions, so no check reports a finding.

    The variant M-ES-16-behind frees them after the admissions, and fails.
    """

    def nothing_found(drawn: Drawn) -> None:
        assert drawn.play(**pieces("M-ES-16")).classes == []

    holds(nothing_found, SCARCE, examples=200)


def test_tokens_behind_the_drafter_cost_time_and_nothing_else() -> None:
    """Mutant M-ES-8 broadcasts tokens after the drafter, which only makes the run slower.

    It is also slower without a drafter, because the main stream waits for the broadcast.
    """
    wrong = load_scenario(scenario_path("museum/m-es-8"))
    healthy = without_variant(wrong)
    drafts, none = [run_scenario(one).run for one in (healthy, wrong)], {"num_speculative_tokens": 0}
    plain = [
        run_scenario(one.model_copy(update={"config": one.config.model_copy(update=none)})) for one in (healthy, wrong)
    ]
    lost = [wrong.elapsed_ns - healthy.elapsed_ns for healthy, wrong in (drafts, [one.run for one in plain])]
    assert lost[0] > lost[1] > 0


@pytest.mark.slow
def test_both_defects_of_the_page_are_found() -> None:
    """In random worlds, checks find both defects of source page 002: the width, and with the width repaired the need
    mask.
    """

    def all_is_well(drawn: Drawn, **changed: Any) -> None:
        found = drawn.play(**changed).findings
        assert found == [], f"{found[0].klass}: {found[0].message}"

    holds(all_is_well, SEVERAL, examples=40)
    breaks(lambda drawn: all_is_well(drawn, **pieces("page-002")), SEVERAL, "MISMATCH:COLLECTIVE:COUNT")
    breaks(lambda drawn: all_is_well(drawn, **pieces("M-PP-14")), SEVERAL, "CRASH:WRONG")


def test_the_page_sends_tokens_and_counts_alone() -> None:
    """Source page 002 broadcasts tokens and counts, also with drafts. The corrected form broadcasts drafts, too."""
    scenario = load_scenario(scenario_path("museum/page-002"))
    sites = [{raw[SITE] for raw in sent_by(one)} for one in (scenario, without_variant(scenario))]
    assert sites == [{"tokens.send", "counts.send"}, {"tokens.send", "counts.send", "drafts.send"}]


def sent_by(scenario: Scenario) -> list[RawRecord]:
    """Returns the records of the last stage's broadcasts."""
    return [raw for raw in run_scenario(scenario).run.journals[1] if str(raw[SITE]).endswith(".send")]
