"""Tests the scenario model: its defaults, its rules, and the world that a backend receives."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dpsim.contract import registry
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol, register_variant
from dpsim.contract.world import At, Delay, Fault
from dpsim.scenario import (
    Expect,
    Scenario,
    ScenarioError,
    Skip,
    dump_scenario,
    scenario_from,
    world,
)
from dpsim.vllm.config import EngineConfig, Topology
from dpsim.vllm.params import options
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.params.scenario import EngineScenario
from dpsim.vllm.params.workload.model import RequestSpec, Workload
from dpsim.vllm.programs.dp_batch import DataParallelBatch

REQUEST = {"prompt_tokens": 4, "output_tokens": 2}


def made(**sections: Any) -> Scenario:
    return scenario_from({"name": "made", "workload": {"requests": [REQUEST]}, **sections})


def message(**sections: Any) -> str:
    with pytest.raises(ScenarioError) as caught:
        made(**sections)
    return str(caught.value)


@pytest.fixture
def other_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers a protocol `other` with two forms, and a variant of its second form, for the duration of a test."""
    registry.protocols()
    monkeypatch.setattr(registry, "_protocols", dict(registry._protocols))
    monkeypatch.setattr(registry, "_variants", dict(registry._variants))

    @register_protocol("other", forms=("old", "new"))
    class Other(Program[Any]):
        async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
            pass

    @register_variant("O-1", protocol="other", form="new", expected="HANG")
    class Changed:
        pass


# ---- defaults


def test_a_scenario_needs_only_a_name_and_a_workload() -> None:
    scenario = made()
    assert scenario.topology == Topology()
    assert scenario.config == EngineConfig()
    assert (scenario.protocol.name, scenario.protocol.resolved_form) == ("dp_batch", "source-000")
    assert (scenario.faults, scenario.delays) == ((), ())
    assert scenario.expect == Expect(verdict="held")
    assert scenario.workload.step_duration == 20_000_000
    assert (scenario.limits.stall, scenario.limits.deadline) == (5_000_000_000, 600_000_000_000)


def test_python_objects_and_mappings_make_the_same_scenario() -> None:
    objects = EngineScenario(name="made", workload=Workload(requests=(RequestSpec(prompt_tokens=4, output_tokens=2),)))
    assert objects == made()


def test_scenarios_are_frozen_and_can_be_sent_to_workers() -> None:
    scenario = made(faults=[{"kind": "skip", "rank": 0, "at": {"site": "x", "ordinal": 1}}])
    with pytest.raises(ValidationError):
        scenario.name = "other"
    assert pickle.loads(pickle.dumps(scenario)) == scenario


# ---- protocol


def test_bare_name_is_short_for_the_protocol() -> None:
    assert made(protocol="dp_batch") == made(protocol={"name": "dp_batch"}) == made()


@pytest.mark.usefixtures("other_protocol")
def test_the_variant_selects_the_form() -> None:
    assert made(protocol={"name": "other"}).protocol.resolved_form == "old"
    assert made(protocol={"name": "other", "variant": "O-1"}).protocol.resolved_form == "new"
    assert made(protocol={"name": "other", "variant": "O-1", "form": "new"}).protocol.resolved_form == "new"


@pytest.mark.usefixtures("other_protocol")
def test_variant_has_to_fit_protocol_and_form() -> None:
    assert (
        message(protocol={"variant": "O-1"})
        == "protocol.variant: O-1 is a variant of the protocol other, not of dp_batch"
    )
    said = message(protocol={"name": "other", "variant": "O-1", "form": "old"})
    assert said == "protocol.form: O-1 is a variant of the form 'new', not of 'old'; leave form out"
    assert "did you mean 'O-1'?" in message(protocol={"name": "other", "variant": "O-11"})


@pytest.mark.usefixtures("other_protocol")
def test_variant_of_a_form_that_the_protocol_does_not_have() -> None:
    register_variant("O-2", protocol="other", form="newer", expected="HANG")(type("Changed", (), {}))
    said = message(protocol={"name": "other", "variant": "O-2"})
    expected = "O-2 is a variant of the form 'newer', which other does not have; register it with one of old, new"
    assert said == f"protocol.variant: {expected}; did you mean 'new'?"


# ---- rules: each message begins with the path of the wrong value


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        (
            {"faults": [{"kind": "skip", "rank": True, "at": {"site": "x", "ordinal": 0}}]},
            "faults[0].rank: expected a whole",
        ),
        (
            {"faults": [{"kind": "die", "rank": -1, "at": {"site": "x", "ordinal": 0}}]},
            "faults[0].rank: -1 is too small",
        ),
        ({"delays": [{"rank": 1, "by": "3ms"}]}, "delays[0].rank: rank 1: the topology has one rank, 0"),
        ({"delays": [{"rank": 0, "by": "0ms"}]}, "delays[0].by: expected a duration longer than 0s"),
        ({"ports": [{"port": 0}]}, "ports[0].port: 0 is too small"),
        (
            {"ports": [{"port": 5}, {"port": 5, "node": 1}, {"port": 5}]},
            "ports[2]: port 5 of node 0 is that of ports[0]",
        ),
        ({"delays": [{"rank": "9", "by": "1ms"}]}, "delays[0].rank: "),
        ({"delays": [{"rank": 0, "by": "1ms", "at": {}}]}, "delays[0].at: an address is either"),
        ({"delays": [{"rank": 0, "by": "1ms", "at": {"seq": 3}}]}, "delays[0].at: an address is either"),
        (
            {"delays": [{"rank": 0, "by": "1ms", "at": {"communicator": "dp"}}]},
            "communicator and seq; given: communicator",
        ),
        ({"expect": {"class": "HANG WITH SPACES"}}, "expect.class: 'HANG WITH SPACES' has characters"),
        ({"expect": {"verdict": "held", "culprit": {"rank": 0}}}, "expect.culprit: verdict held leaves no culprit"),
        (
            {"expect": {"verdict": "hold"}},
            "expect.verdict: unknown value 'hold'; expected one of held, vacuous, violated; did you",
        ),
        ({"name": ""}, "name: expected at least 1 character, got none"),
        ({"name": "x" * 101}, "name: 101 characters are too many; expected at most 100"),
        ({"name": 7}, "name: expected text, got the number 7"),
        (
            {"config": {"ubatch_size": 4, "dbo_decode_token_threshold": 3, "parallel_rules": "0.33"}},
            "config.dbo_decode_token_threshold: 3; expected at least 4, the number of microbatches",
        ),
        ({"workload": {"requests": [REQUEST], "limit": 0}}, "workload.limit: 0 is too small; expected at least 1"),
        ({"workload": 3}, "workload: expected a mapping"),
        ({"faults": [3]}, "faults[0]: expected a mapping (lines `key: value`, or {...}), got the number 3"),
    ],
)
def test_a_scenario_that_breaks_a_rule_is_refused_with_the_reason(sections: dict[str, Any], says: str) -> None:
    assert says in message(**sections)


def test_rank_has_to_be_a_member_of_the_communicator() -> None:
    fault = {"kind": "skip", "rank": 1, "at": {"communicator": "dp.0", "seq": 0}}
    topology = {"data_parallel_size": 2, "tensor_parallel_size": 2}
    said = message(topology=topology, faults=[fault])
    assert said == "faults[0].rank: rank 1 is not in the communicator dp.0, which has ranks 0, 2"
    altered = {**fault, "kind": "alter", "rank": 0, "change": {"root": 3}}
    assert message(topology=topology, faults=[altered]).startswith(
        "faults[0].change.root: rank 3 is not in the communicator"
    )
    made(topology=topology, faults=[{**fault, "rank": 2}])


def test_pydantic_users_see_the_path_too() -> None:
    with pytest.raises(ValidationError, match=r"faults\[0\].rank: rank 3: the topology has one rank, 0"):
        EngineScenario(
            name="x",
            workload=Workload(requests=(RequestSpec(prompt_tokens=1, output_tokens=1),)),
            faults=(Skip.model_validate({"kind": "skip", "rank": 3, "at": {"site": "x", "ordinal": 0}}),),
        )


def test_violated_is_understood_where_class_or_culprit_is_given() -> None:
    assert made(expect={"class": "HANG:*"}).expect.verdict == "violated"
    assert made(expect={"culprit": {"rank": 0}}).expect.verdict == "violated"
    assert made(expect={"verdict": "violated"}).expect.klass is None
    assert made(expect={}).expect.verdict == "held"


# ---- what a backend receives


def test_a_scenario_gives_the_world_with_faults_delays_and_limits() -> None:
    scenario = made(
        topology={"data_parallel_size": 2, "pipeline_parallel_size": 2},
        faults=[{"kind": "alter", "rank": 0, "at": {"communicator": "ep.0", "seq": 5}, "change": {"count": 7}}],
        delays=[
            {"rank": 2, "by": "3ms", "at": {"site": "dp.agree"}},
            {"rank": 3, "by": "1s"},
            {"rank": 3, "by": "1s", "at": {"thread": "ubatch.1"}},
        ],
        limits={"stall": "2s", "deadline": "1m"},
    )
    told = world(scenario)
    assert told.size == 4
    assert [(spec.kind, spec.name, spec.domain, spec.ranks) for spec in told.communicators] == [
        ("pp", "pp.0", "device", (0, 1)),
        ("pp", "pp.1", "device", (2, 3)),
        ("pp_cpu", "pp_cpu.0", "host", (0, 1)),
        ("pp_cpu", "pp_cpu.1", "host", (2, 3)),
        ("dp", "dp.0", "device", (0, 2)),
        ("dp", "dp.1", "device", (1, 3)),
        ("dp_cpu", "dp_cpu.0", "host", (0, 2)),
        ("dp_cpu", "dp_cpu.1", "host", (1, 3)),
        ("ep", "ep.0", "device", (0, 2)),
        ("ep", "ep.1", "device", (1, 3)),
        ("pp_broadcast", "pp_broadcast.0", "device", (0, 1)),
        ("pp_broadcast", "pp_broadcast.1", "device", (2, 3)),
    ]
    assert told.faults == (Fault("alter", 0, At(communicator="ep.0", seq=5), {"count": 7}),)
    late = Delay(3, At(), 1_000_000_000), Delay(3, At(thread="ubatch.1"), 1_000_000_000)
    assert told.delays == (Delay(2, At("dp.agree"), 3_000_000), *late)
    assert (told.stall_ns, told.deadline_ns) == (2_000_000_000, 60_000_000_000)


def test_communicators_that_are_alone_have_the_name_of_their_kind() -> None:
    told = world(made(topology={"data_parallel_size": 3}))
    assert [(spec.name, spec.ranks) for spec in told.communicators] == [
        ("dp", (0, 1, 2)),
        ("dp_cpu", (0, 1, 2)),
        ("ep", (0, 1, 2)),
    ]


def test_order_of_creation() -> None:
    """Spec chapter 9.2: tensor-parallel, pipeline, data-parallel and expert groups, then that of sampled tokens."""
    sizes = {"data_parallel_size": 2, "pipeline_parallel_size": 2, "tensor_parallel_size": 2}
    told = world(made(topology=sizes)).communicators
    assert [*dict.fromkeys(spec.kind for spec in told)] == ["tp", "pp", "pp_cpu", "dp", "dp_cpu", "ep", "pp_broadcast"]
    assert [(spec.name, spec.ranks) for spec in told if spec.kind == "tp"] == [
        ("tp.0", (0, 1)),
        ("tp.1", (2, 3)),
        ("tp.2", (4, 5)),
        ("tp.3", (6, 7)),
    ]
    assert [spec.ranks for spec in told if spec.kind == "pp"] == [(0, 2), (1, 3), (4, 6), (5, 7)]


def test_program_arguments_are_plain_data_that_the_protocol_understands() -> None:
    scenario = made(protocol={"form": "0.14"}, config={"cudagraph_capture_sizes": [4, 2]})
    args = scenario.arguments()
    assert json.loads(json.dumps(asdict(args)))["requests"] == [
        [0, 4, 2, None, None, False, None, False, None, None, False, None]
    ]
    assert (args.form, args.variant, args.step_ns) == ("0.14", None, 20_000_000)
    prepared = DataParallelBatch().prepare(args)
    assert prepared.config == scenario.config
    assert prepared.timeline.steps == 2


# ---- changed copies


def test_with_limit_and_with_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.0,5,6\n2023-11-16 18:17:04.0,7,8")
    scenario = made(workload={"requests": [REQUEST] * 3, "step_duration": "10ms"}, topology={"data_parallel_size": 2})
    limited = options.run(scenario, requests=2)
    assert (limited.workload.limit, limited.workload.step_duration) == (2, 10_000_000)
    assert len(limited.requests()) == 2
    assert limited.topology == scenario.topology
    assert scenario.workload.limit is None
    replaced = options.run(scenario, str(trace), 1)
    assert replaced.requests() == [Request(0, 5, 6)]
    assert replaced.workload.step_duration == 10_000_000
    monkeypatch.chdir(tmp_path)
    seen_from_here = options.run(scenario, "trace.csv")
    assert seen_from_here.requests(Path("/")) == [Request(0, 5, 6), Request(10**9, 7, 8)]
    assert options.run(scenario, "elsewhere.csv").file == "elsewhere.csv"


@pytest.mark.parametrize("count", [0, -1, 10**7, True])
def test_with_limit_refuses(count: int) -> None:
    with pytest.raises(ScenarioError, match=r"workload\.limit"):
        options.run(made(), requests=count)


def test_with_workload_refuses_what_no_file_is_called() -> None:
    with pytest.raises(ScenarioError, match=r"workload\.azure_csv\.file"):
        options.run(made(), "a\nb")


# ---- as text


def test_dump_is_readable() -> None:
    scenario = made(
        description="Two lines,\nof which this is one.\n",
        protocol={"form": "0.14"},
        topology={"data_parallel_size": 2},
        config={"cudagraph_capture_sizes": [1, 2, 4], "cudagraph_mode": "FULL"},
        workload={"requests": [{"arrival": "1500us", **REQUEST}], "limit": 5},
        faults=[{"kind": "skip", "rank": 1, "at": {"site": "dp.agree", "ordinal": 5}}],
        expect={"class": "HANG"},
    )
    assert dump_scenario(scenario) == (
        "name: made\n"
        "description: |\n"
        "  Two lines,\n"
        "  of which this is one.\n"
        "protocol:\n"
        "  form: '0.14'\n"
        "topology:\n"
        "  data_parallel_size: 2\n"
        "config:\n"
        "  cudagraph_mode: FULL\n"
        "  cudagraph_capture_sizes: [1, 2, 4]\n"
        "workload:\n"
        "  limit: 5\n"
        "  requests:\n"
        "  - {arrival: 1.5ms, prompt_tokens: 4, output_tokens: 2}\n"
        "faults:\n"
        "- {kind: skip, rank: 1, at: {site: dp.agree, ordinal: 5}}\n"
        "expect:\n"
        "  verdict: violated\n"
        "  class: HANG\n"
    )
