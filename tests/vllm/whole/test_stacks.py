"""Tests the named stacks, their pieces, and the combinations that vLLM refuses (spec chapter 10.0).

A stack is a composition of pieces: classes with one part of a rank's decisions. For each rule, one world meets the
rule, and another breaks only this rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import pytest

from dpsim.contract import registry
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program, Unsuitable
from dpsim.scenario import Scenario, ScenarioError, scenario_from
from dpsim.scenario.to_world import prepare
from dpsim.vllm.config import CUDAGraphMode, EngineConfig, Topology
from dpsim.vllm.data_parallel.batch import Release014, Source000
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2
from dpsim.vllm.data_parallel.flow import Flow014, Flow017, Flow033
from dpsim.vllm.data_parallel.microbatch import Slicing, Slicing033, SlicingV2
from dpsim.vllm.engine.finish_sync import FinishFlag, PauseVotes, PauseVotes033
from dpsim.vllm.graphs.candidates import CandidateTable
from dpsim.vllm.graphs.dispatcher import Dispatcher014, Dispatcher017, Dispatcher033
from dpsim.vllm.graphs.manager import Managed
from dpsim.vllm.overlap.graph_keys import Keys001, Keys033, KeysV2
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.pipeline.page_002 import Page002Tokens
from dpsim.vllm.pipeline.transfer import Blocking, Transfer, WaitsForDescription
from dpsim.vllm.programs.pieces import FORMS, AgreementOfV2, AgreementV1
from dpsim.vllm.programs.stacks import STACKS, Pieces, resolve, resolve_arguments
from dpsim.vllm.releases import V0_33
from dpsim.vllm.whole import rules
from dpsim.vllm.whole.rules import RULES, Mix, Model, broken

TWO = Topology(data_parallel_size=2)
SPLIT = EngineConfig(enable_dbo=True, cudagraph_mode=CUDAGraphMode.FULL_DECODE_ONLY)


# ---- the stacks

SOURCE = {
    "runner": "v1",
    "agreement": "source-000",
    "graphs": "v1-0.17",
    "microbatches": "source-001",
    "experts": "source-000",
    "tokens": "source-002",
    "transfer": "source-002",
    "finish_sync": "source-003",
    "counts": "own",
    "config": "source-003",
}
CURRENT = {
    "runner": "v2",
    "agreement": "v2-0.33",
    "graphs": "v2-0.33",
    "microbatches": "v2-0.33",
    "experts": "0.33",
    "tokens": "0.33",
    "transfer": "0.33",
    "finish_sync": "0.33",
    "counts": "own",
    "config": "0.33",
}


def test_every_stack_names_all_its_pieces() -> None:
    for stack in STACKS:
        chosen = resolve(stack, {}, TWO, EngineConfig()).names
        assert list(chosen) == list(FORMS)
        assert all(form in FORMS[piece] for piece, form in chosen.items())


def test_the_stack_source_has_the_pieces_of_the_source_pages() -> None:
    pieces = resolve("source", {}, TWO, EngineConfig())
    assert pieces.names == SOURCE
    assert pieces.agreement == AgreementV1(Source000, Flow017, Dispatcher017)
    assert (pieces.microbatches.slicing, pieces.microbatches.graph_keys) == (Slicing, Keys001)
    assert (pieces.transfer, pieces.config.parallel_rules) == (WaitsForDescription, "source-003")
    assert (pieces.lockstep.waves.sync_form, pieces.lockstep.waves.sync_form.INTERVAL) == (FinishFlag, 32)


def test_the_stack_current_has_the_pieces_of_the_newest_release() -> None:
    pieces = resolve("current", {}, TWO, EngineConfig(dp_sync_interval=16))
    assert pieces.names == CURRENT
    assert pieces.agreement == AgreementOfV2(AgreementV2, CandidateTable)
    assert (pieces.microbatches.slicing, pieces.microbatches.graph_keys) == (SlicingV2, KeysV2)
    assert (pieces.transfer, pieces.config.parallel_rules) == (Transfer, "0.33")
    assert (pieces.lockstep.waves.sync_form, pieces.lockstep.waves.sync_form.INTERVAL) == (PauseVotes033, 16)


def test_microbatches_run_on_the_v1_runner_unless_asked_for() -> None:
    pieces = resolve("current", {}, TWO, SPLIT)
    assert pieces.runner == "v1"
    on_v1 = dict.fromkeys(("agreement", "graphs", "microbatches"), "v1-0.33")
    assert pieces.names == CURRENT | on_v1 | {"runner": "v1"}
    assert pieces.agreement == AgreementV1(Source000, Flow033, Dispatcher033)
    assert (pieces.microbatches.slicing, pieces.microbatches.graph_keys) == (Slicing033, Keys033)
    assert (pieces.transfer, pieces.lockstep) == (Transfer, V0_33.lockstep), "all other pieces are those of the stack"
    assert resolve("current", {"runner": "v2"}, TWO, SPLIT).runner == "v2"


def test_runner_scheduling_and_flag_decide_whether_ranks_agree_over_gloo() -> None:
    """The V2 runner agrees over gloo. The V1 runner does with asynchronous scheduling, unless a flag decides."""
    for ahead, flag, on_v1 in (False, None, False), (True, None, True), (False, True, True), (True, False, False):
        config = EngineConfig(async_scheduling=ahead, disable_nccl_for_dp_synchronization=flag)
        assert resolve("source", {}, TWO, config).syncs_on_host is on_v1
        assert resolve("current", {}, TWO, config).syncs_on_host


SWAPS = [
    ("agreement", "v1-0.14", lambda pieces: pieces.agreement[:2] == (Release014, Flow014)),
    ("graphs", "v1-0.14", lambda pieces: pieces.agreement.graphs is Dispatcher014),
    ("graphs", "source-004", lambda pieces: isinstance(pieces.agreement.make(pieces.config).dispatcher, Managed)),
    ("microbatches", "v1-0.33", lambda pieces: pieces.microbatches.slicing is Slicing033),
    ("tokens", "page-002", lambda pieces: pieces.tokens is Page002Tokens),
    ("transfer", "0.14", lambda pieces: pieces.transfer is Blocking),
    ("finish_sync", "0.24", lambda pieces: pieces.lockstep.waves.sync_form is PauseVotes),
    ("config", "0.33", lambda pieces: pieces.config.parallel_rules == "0.33"),
]


@pytest.mark.parametrize(("piece", "form", "there"), SWAPS, ids=[f"{piece} {form}" for piece, form, _ in SWAPS])
def test_a_piece_is_swapped_by_name(piece: str, form: str, there: Any) -> None:
    """A scenario replaces one piece by name, and the others stay those of the stack.

    The unchanged stack lacks the new piece.
    """
    pieces = resolve("source", {piece: form}, TWO, EngineConfig())
    assert there(pieces)
    assert not there(resolve("source", {}, TWO, EngineConfig()))
    assert {name for name in FORMS if pieces.names[name] != SOURCE[name]} == {piece}


def test_every_form_is_there() -> None:
    """Each form of each piece can be selected in a stack of its runner."""
    for piece in ("agreement", "graphs", "microbatches", "tokens", "transfer", "finish_sync", "config"):
        for form in FORMS[piece]:
            stack = "current" if form.startswith("v2") else "source"
            assert resolve(stack, {piece: form}, TWO, EngineConfig()).names[piece] == form


# ---- pieces that do not fit together


@pytest.mark.parametrize(
    ("stack", "swaps", "said"),
    [
        ("source", {"agreement": "v2-0.33"}, r"pieces\.agreement: v2-0\.33 was not written for the V1 runner"),
        (
            "source",
            {"graphs": "v2-0.33"},
            r"pieces\.graphs: v2-0\.33 .* V1 runner; expected one of source-004, v1-0\.14",
        ),
        ("current", {"microbatches": "source-001"}, r"pieces\.microbatches: source-001 .* V2 runner"),
        ("source", {"runner": "v2"}, r"pieces\.agreement: source-000 .* V2 runner"),
        ("source", {"tokens": "v1-0.33"}, r"pieces\.tokens: v1-0\.33; expected one of source-002, page-002, 0\.33"),
        ("source", {"runners": "v1"}, r"protocol\.pieces: runners; expected one of runner, agreement"),
        ("newest", {}, r"protocol\.form: newest; expected one of the stacks source, current"),
    ],
)
def test_does_not_fit(stack: str, swaps: dict[str, str], said: str) -> None:
    """A piece that was not written for the stack's runner is refused, even with `allow_refused`."""
    for allow_refused in (False, True):
        with pytest.raises(Unsuitable, match=said):
            resolve(stack, swaps, TWO, EngineConfig(), allow_refused=allow_refused)


@pytest.mark.parametrize(
    ("program", "pieces", "config", "why"),
    [
        ("whole_engine_dp", {"microbatches": "v1-0.33"}, {}, "enable_dbo is off, and no batch is split"),
        ("whole_engine_dp", {"experts": "0.33"}, {}, "enable_eplb is off, and no expert moves"),
    ],
)
def test_a_swap_that_no_part_uses_is_refused(
    program: str, pieces: dict[str, str], config: dict[str, Any], why: str
) -> None:
    """A piece that the configuration does not use is refused. With the option that uses it, the piece is accepted."""
    scenario = {"name": "x", "protocol": {"name": program, "form": "current", "pieces": pieces}}
    scenario["topology"], scenario["config"] = {"data_parallel_size": 2}, config
    scenario["workload"] = {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]}
    with pytest.raises(ScenarioError, match=f"nothing in this scenario uses it, as config.{why}: remove it"):
        prepare(scenario_from(scenario))
    there = {"enable_dbo": True} if "microbatches" in pieces else {"enable_eplb": True, "enable_expert_parallel": True}
    prepare(scenario_from({**scenario, "config": {**config, **there}}))


def test_the_rules_of_the_release_hold() -> None:
    """Release 0.33 requires thresholds that fill all microbatches (spec chapter 8.2); source page 003 does not."""
    small = SPLIT.model_copy(update={"dbo_decode_token_threshold": 1})
    resolve("source", {}, TWO, small)
    with pytest.raises(Unsuitable, match=r"config\.dbo_decode_token_threshold: 1; expected .*, by the rules of 0\.33"):
        resolve("current", {}, TWO, small)


# ---- the engine's rules


NOTHING: Mapping[str, int] = MappingProxyType({})
WHOLE: Mapping[str, Any] = MappingProxyType({"enable_dbo": False})


class Breaks(NamedTuple):
    """A world that breaks one rule only, and the change after which it meets the rule."""

    rule: rules.Rule
    config: dict[str, Any]
    sizes: Mapping[str, int] = NOTHING
    model: Model = Model()
    runner: str = "v2"
    meets: Mapping[str, Any] = WHOLE
    says: str = ""


V1_PIPELINE = {"enable_dbo": False, "async_scheduling": True}
BREAKS = [
    Breaks(rules.v2_splits_no_adapters, {"enable_lora": True}, says="config.enable_lora"),
    Breaks(rules.v2_splits_no_drafts, {"num_speculative_tokens": 2}, says="config.num_speculative_tokens: 2"),
    Breaks(rules.v2_splits_no_pipelines, {}, {"pipeline_parallel_size": 2}, says="topology.pipeline_parallel_size: 2"),
    Breaks(rules.v2_splits_no_contexts, {}, {"prefill_context_parallel_size": 2}, says="topology.prefill_context"),
    Breaks(
        rules.v2_splits_no_contexts,
        {},
        {"tensor_parallel_size": 2, "decode_context_parallel_size": 2},
        says="topology.decode_context",
    ),
    Breaks(rules.v2_splits_no_encoder_inputs, {}, model=Model(encoder_inputs=True), says="encoder_inputs"),
    Breaks(rules.v2_splits_no_hybrids, {}, model=Model(hybrid=True), says="hybrid"),
    Breaks(
        rules.v2_splits_no_piecewise_graphs,
        {"cudagraph_mode": "FULL_AND_PIECEWISE"},
        meets={"enforce_eager": True},
        says="config.cudagraph_mode: FULL_AND_PIECEWISE",
    ),
    Breaks(
        rules.v1_schedules_no_pipelines_ahead,
        V1_PIPELINE,
        {"pipeline_parallel_size": 2},
        runner="v1",
        meets={"async_scheduling": False},
        says="config.async_scheduling: True",
    ),
]


def mix(case: Breaks, **changes: Any) -> Mix:
    config = EngineConfig.model_validate({**SPLIT.model_dump(), **case.config, **changes})
    return Mix({"runner": case.runner}, Topology(data_parallel_size=2, **case.sizes), config, case.model)


def test_every_rule_is_broken() -> None:
    assert {case.rule for case in BREAKS} == set(RULES)


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.rule.__name__)
def test_rule_is_met_and_broken_alone(case: Breaks) -> None:
    assert [rule for rule, _ in broken(mix(case))] == [case.rule]
    assert broken(mix(case, **case.meets)) == []
    other = "v1" if case.runner == "v2" else "v2"
    assert broken(mix(case)._replace(names={"runner": other})) == [], "the rule is one of this runner"


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.rule.__name__)
def test_a_refused_configuration_can_be_allowed_by_name(case: Breaks) -> None:
    _, topology, config, model = mix(case)
    config = config.model_copy(update={"parallel_rules": "0.33"})
    with pytest.raises(Unsuitable) as raised:
        resolve("current", {"runner": case.runner}, topology, config, model)
    assert case.says in str(raised.value)
    assert f"(rule {case.rule.__name__})" in str(raised.value)
    wanted = resolve("current", {"runner": case.runner}, topology, config, model, allow_refused=True)
    assert wanted.ignored == (case.rule.__name__,)
    meets = config.model_copy(update=case.meets)
    assert resolve("current", {"runner": case.runner}, topology, meets, model).ignored == ()


# ---- from a scenario


class Stacked(Program[Pieces]):
    """A program whose pieces are those of a stack."""

    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = FORMS

    def prepare(self, args: EngineArguments) -> Pieces:
        return resolve_arguments(args)

    async def run(self, rank: Rank, prepared: Pieces) -> None:
        rank.decide("runner", prepared.runner, "dp_cpu")


@pytest.fixture
def stacked(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.variants()
    monkeypatch.setattr(registry, "_protocols", dict(registry._protocols))
    registry.register_protocol("t_stacked", forms=tuple(STACKS))(Stacked)


def asked(encoder_inputs: bool = False, **choice: Any) -> Scenario:
    config = {"enable_dbo": True, "cudagraph_mode": "NONE"}
    requests = [{"prompt_tokens": 1, "output_tokens": 1, "encoder_inputs": encoder_inputs}]
    sections = {"topology": {"data_parallel_size": 2}, "config": config, "workload": {"requests": requests}}
    return scenario_from({"name": "asked", "protocol": {"name": "t_stacked", **choice}, **sections})


@pytest.mark.usefixtures("stacked")
def test_a_scenario_names_a_stack_and_swaps() -> None:
    assert prepare(asked())[2].names == SOURCE
    assert prepare(asked(form="current"))[2].runner == "v1"
    assert prepare(asked(form="current", pieces={"runner": "v2", "transfer": "0.14"}))[2].transfer is Blocking
    with pytest.raises(ScenarioError, match=r"^asked: workload: .* \(rule v2_splits_no_encoder_inputs\)\. The engine"):
        prepare(asked(True, form="current", pieces={"runner": "v2"}))
    wanted = prepare(asked(True, form="current", pieces={"runner": "v2"}, allow_refused=True))[2]
    assert wanted.ignored == ("v2_splits_no_encoder_inputs",)
