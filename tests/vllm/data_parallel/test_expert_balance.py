"""Tests of expert load balancing, between two steps (`dp_batch`) and while steps run (`eplb`).

All ranks compute the same placement, and every expert is where the placement puts it. The loads count the tokens of
requests only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.museum import without_variant
from dpsim.campaign.subject import Subject
from dpsim.contract import registry
from dpsim.contract.ops import DECISION_VALUE, KIND, OP, SITE, STEP, RawRecord
from dpsim.contract.program import Unsuitable
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, load_scenario, scenario_from
from dpsim.scenario.locate import scenario_path
from dpsim.scenario.to_world import prepare
from dpsim.vllm.data_parallel.async_balance import AsyncBalance
from dpsim.vllm.data_parallel.expert_balance import SLOTS, ExpertBalance, Placement, placed
from dpsim.vllm.data_parallel.figures import moves_of_experts
from dpsim.vllm.data_parallel.timeline import Timeline
from dpsim.vllm.model.rows import value
from tests.properties import examples, holds
from tests.records import raw

MIXED = [(3, 3), (1, 1), (5, 2)]
"""Requests that arrive at once: the tokens of each prompt and of its output."""


def world(work: Sequence[tuple[int, int]] = MIXED, protocol: Any = "dp_batch", ranks: int = 2, **more: Any) -> Scenario:
    """Returns a scenario with expert load balancing after every second step. `work` has (prompt, output) of each
    request.
    """
    config = {"enable_expert_parallel": True, "enable_eplb": True, "eplb_config": {"step_interval": 2}, **more}
    told = [{"prompt_tokens": prompt, "output_tokens": output} for prompt, output in work]
    sections = {"topology": {"data_parallel_size": ranks}, "workload": {"requests": told}, "config": config}
    return scenario_from({"name": "balanced", "protocol": protocol, **sections})


def explored(scenario: Scenario, schedules: int = 300, strategy: str = "portfolio") -> Explored:
    return explore_subject(Subject.of(scenario), strategy, schedules=schedules)


def placement(step: int, *experts: int, site: str = "placement") -> RawRecord:
    return raw("decision", site, step=step, communicator="ep", value=experts)


MOVES = [
    ([], "none were due"),
    ([placement(1, 1, 0, 2, 3)], "step 1: none"),
    ([placement(1, 1, 2, 3, 0)], "step 1: 0 to rank 1, 2 to rank 0"),
    (
        [placement(1, 1, 2, 3, 0), placement(3, 0, 2, 3, 1)],
        "step 1: 0 to rank 1, 2 to rank 0; step 3: 0 to rank 0, 1 to rank 1",
    ),
    (
        [placement(1, 1, 2, 3, 0), placement(3, 1, 2, 3, 0, site="moved")],
        "step 1: 0 to rank 1, 2 to rank 0 (used after step 3)",
    ),
]


@pytest.mark.parametrize(("decided", "said"), MOVES)
def test_a_run_reports_the_moves_of_experts(decided: list[RawRecord], said: str) -> None:
    """The report of a run lists the moves of experts by step."""
    assert moves_of_experts(decided) == said


def test_many_moves_are_counted() -> None:
    """The report lists the first moves of experts, and counts the others."""
    decided = [placement(step, *((1, 2, 3, 0) if step % 2 else (0, 1, 2, 3))) for step in range(10)]
    assert moves_of_experts(decided).endswith("step 7: 0 to rank 1, 2 to rank 0; and 2 times more")


@pytest.mark.parametrize("protocol", ["dp_batch", "eplb"])
def test_moves_are_those_of_the_transfers(protocol: str) -> None:
    """The report of a run lists as many moves of experts as the journals have sends."""
    result = run_scenario(world(protocol=protocol))
    sent = sum(record[KIND] == "transfer" and record[OP] == "send" for own in result.run.journals for record in own)
    assert sent
    assert result.figures["moves of experts"].count(" to rank ") == sent
    assert "moves of experts" not in run_scenario(world(enable_eplb=False, protocol="dp_batch")).figures


# ---- the placement


@examples(30, 1000)
def test_every_expert_has_a_slot(examples: int) -> None:
    """A placement contains each expert once, and the loads of two ranks differ by at most one expert."""

    def each_once(loads: list[int]) -> None:
        ranks = len(loads) // SLOTS
        placement = placed(tuple(loads), ranks)
        assert sorted(placement) == list(range(len(loads)))
        of_ranks = [sum(loads[expert] for expert in placement[rank * SLOTS :][:SLOTS]) for rank in range(ranks)]
        assert max(of_ranks) - min(of_ranks) <= max(loads), "the loads of two ranks differ by at most one expert's"

    holds(
        each_once,
        st.integers(1, 4).flatmap(lambda n: st.lists(st.integers(0, 9), min_size=2 * n, max_size=2 * n)),
        examples,
    )


def expected(scenario: Scenario) -> list[tuple[int, Placement]]:
    """Returns the steps after which experts move, and their placements, computed from the requests only."""
    ranks, found = scenario.topology.data_parallel_size, []
    timeline = Timeline(scenario.requests(), ranks, scenario.config, scenario.workload.step_duration)
    loads = [0] * SLOTS * ranks
    for step in range(timeline.steps):
        for batch in timeline.batches(step):
            for request, tokens, first in batch.scheduled:
                for position in range(first, first + tokens):
                    loads[value(request, position) % len(loads)] += 1
        if step % 2:
            found.append((step, placed(tuple(loads), ranks)))
            loads = [0] * len(loads)
    return found


@pytest.mark.parametrize("ranks", [2, 3])
def test_loads_are_those_of_the_requests(ranks: int) -> None:
    """All ranks compute the placements that follow from the tokens of the requests."""
    scenario = world(ranks=ranks)
    done = run_scenario(scenario)
    assert done.findings == []
    for journal in done.run.journals:
        decided = [raw for raw in journal if raw[KIND] == "decision" and raw[SITE] == "placement"]
        assert [(raw[STEP], raw[DECISION_VALUE]) for raw in decided] == expected(scenario)
        assert {raw[DECISION_VALUE] for raw in decided} != {tuple(range(SLOTS * ranks))}, "at least one expert moves"


def test_proven_between_steps() -> None:
    """Moves between two steps have no finding in any schedule."""
    for ranks in (2, 3):
        assert explored(world(ranks=ranks)).exploration.verdict == "proven"


def test_dummy_loads_make_a_difference_and_no_harm() -> None:
    """Variant M-ES-9-loads counts dummy tokens as load: no check reports it, but the placements differ."""
    scenario = load_scenario(scenario_path("museum/m-es-9-loads"))
    twin = without_variant(scenario)
    of_both = []
    for one in (scenario, twin):
        done = run_scenario(one)
        assert done.findings == []
        of_both.append([raw[DECISION_VALUE] for raw in done.run.journals[0] if raw[SITE] == "placement"])
    assert of_both[0] != of_both[1]


# ---- mistakes in moving


class Forgets(ExpertBalance):
    """A rank drops the incoming experts and keeps the old weights, but records the new placement."""

    def take_over(self, placement: Placement, incoming: Any) -> None:
        incoming.free()
        self.placement = placement


class SendsTheOther(ExpertBalance):
    """After a move, a rank records a placement that is rotated by one slot, while its weights follow the true one."""

    def take_over(self, placement: Placement, incoming: Any) -> None:
        super().take_over((*placement[1:], placement[0]), incoming)


def with_balance(kind: type[ExpertBalance], tested: Scenario, monkeypatch: pytest.MonkeyPatch) -> Explored:
    """Explores a world in random orders, with another class of balance on all ranks."""
    program = registry.protocol(tested.protocol.name).program
    monkeypatch.setattr(program, "balance_of", lambda self, release, config: kind)
    return explored(tested, 200, "random")


@pytest.mark.parametrize("kind", [Forgets, SendsTheOther])
def test_a_lost_expert_is_found(kind: type[ExpertBalance], monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank whose experts differ from its placement raises WrongExpert."""
    found = with_balance(kind, world(), monkeypatch)
    assert found.exploration.verdict == "violated"
    assert "CRASH:WRONGEXPERT" in found.report()


# ---- while steps run


@pytest.mark.slow
def test_no_schedule_of_many_breaks_moves_beside_steps() -> None:
    """Moves while steps run have no finding in the schedules that are tried."""
    found = explored(world([(1, 4)], "eplb"), schedules=8)
    assert found.exploration.verdict == "sampled"
    assert found.report() == "" or "VIOLATED" not in found.report()


class ByItself(AsyncBalance):
    """A rank swaps to the new experts as soon as its own flag is set, without a sum over all ranks."""

    async def all_there(self) -> bool:
        return await self.there.query("eplb.query")


class WithoutWaiting(AsyncBalance):
    """A rank sets its flag before its stream has received the experts."""

    async def move(self, rank: Any) -> None:
        self.there.set("eplb.there")
        self.stream.wait(self.begun)
        assert self.moving is not None
        self.incoming = self.exchange(self.moving, self.stream)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "klass"), [(ByItself, "COLLECTIVE"), (WithoutWaiting, "RACE:BUFFER")])
def test_a_mistake_beside_steps_is_found(kind: type[AsyncBalance], klass: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some random schedule, a check finds each mistake in moves while steps run."""
    found = with_balance(kind, world([(1, 8)], "eplb"), monkeypatch)
    assert found.exploration.verdict == "violated"
    assert klass in found.report()


# ---- what is refused


@pytest.mark.parametrize(
    ("protocol", "config", "said"),
    [
        ("dp_batch", {"eplb_config": {"use_async": True}}, r"use_async: the ranks of dp_batch have no threads"),
        ("eplb", {"eplb_config": {"use_async": False}}, r"use_async: False; eplb moves experts while steps run"),
        ("eplb", {"enable_eplb": False}, r"config\.enable_eplb: expected true"),
    ],
)
def test_a_program_refuses_a_balancing_that_it_does_not_model(protocol: str, config: dict[str, Any], said: str) -> None:
    """A program refuses a balancing that it does not model."""
    scenario = world(protocol=protocol, **config)
    with pytest.raises(Unsuitable, match=said):
        registry.prepared(protocol, scenario.arguments())


def test_without_it_there_is_no_group_and_no_balance() -> None:
    """Without `enable_eplb`, a scenario has neither a balance nor its group."""
    scenario = world(enable_eplb=False)
    assert prepare(scenario)[2].balance is None
    assert not scenario.has_eplb
