"""Tests a release of another package: each program, `from-vllm` and `check-engine` support it, or refuse it by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from dpsim.contract import registry
from dpsim.scenario.modules import names_to_import
from dpsim.vllm.config import EngineConfig, ParallelConfig033, Topology
from dpsim.vllm.data_parallel.step_v2 import DataParallelStepV2
from dpsim.vllm.from_vllm.translate import from_vllm
from dpsim.vllm.graphs.candidates import CandidateTable
from dpsim.vllm.releases import V0_33, Absent, named, names, register_release
from dpsim_engine.kinds import KINDS
from tests.cli.commands import Answer, dpsim_, write
from tests.vllm.answers.stand_in import few
from tests.vllm.releases.conftest import MODULE

EXPERTS: dict[str, Any] = {"enable_expert_parallel": True, "enable_eplb": True, "eplb_config": {"step_interval": 1}}
SPLIT: dict[str, Any] = {
    "enable_dbo": True,
    "dbo_decode_token_threshold": 2,
    "dbo_prefill_token_threshold": 2,
    "cudagraph_mode": "NONE",
}
PIPELINES = {"data_parallel_size": 2, "pipeline_parallel_size": 2}
RUNS: dict[str, tuple[str, str, dict[str, Any], dict[str, int]]] = {
    "dp_batch": ("dp_batch", "0.99", {}, {}),
    "experts": ("dp_batch", "0.99", EXPERTS, {}),
    "the V2 runner, experts": ("dp_batch", "v2-0.99", EXPERTS, {}),
    "eplb": ("eplb", "0.99", EXPERTS, {}),
    "dbo": ("dbo", "0.99", SPLIT, {}),
    "dbo of the V2 runner": ("dbo", "v2-0.99", SPLIT, {}),
    "pp_tokens": ("pp_tokens", "0.99", {}, {"data_parallel_size": 1, "pipeline_parallel_size": 2}),
    "engine": ("engine", "0.99", {}, {}),
    "engine_watched": ("engine_watched", "0.99", {}, {}),
    "startup": ("startup", "0.99", {}, {}),
    "startup_watched": ("startup_watched", "0.99", {}, {}),
    "whole_engine_dp": ("whole_engine_dp", "0.99", {}, {}),
    "whole_engine_dp, split": ("whole_engine_dp", "0.99", SPLIT, {}),
    "whole_engine": ("whole_engine", "0.99", {}, PIPELINES),
    "whole_engine_watched": ("whole_engine_watched", "0.99", {}, PIPELINES),
}


def run(tmp_path: Path, protocol: dict[str, Any], config: dict[str, Any], sizes: dict[str, int], *more: str) -> Answer:
    """Runs `dpsim run` with a scenario of two replicas."""
    scenario = {
        "name": "registered",
        "protocol": protocol,
        "topology": {"data_parallel_size": 2} | sizes,
        "config": config,
        "workload": {"requests": [{"prompt_tokens": 4, "output_tokens": 2}] * 2},
    }
    return dpsim_("run", write(tmp_path / "registered.yaml", json.dumps(scenario)), *more)


@pytest.mark.usefixtures("v0_99")
@pytest.mark.parametrize("case", RUNS)
def test_each_program_runs_it(case: str, tmp_path: Path) -> None:
    protocol, form, config, sizes = RUNS[case]
    answer = run(tmp_path, {"name": protocol, "form": form}, config, sizes)
    assert answer.code == 0, answer.out + answer.err
    assert "HELD" in answer.out


def test_a_module_makes_it_known(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"name": "dbo", "form": "0.99"}
    assert run(tmp_path, asked, SPLIT, {}).code == 2
    split, whole = (
        run(tmp_path, {"name": "dbo", "form": form}, SPLIT, {}, "--json", "--module", MODULE)
        for form in ("0.33", "0.99")
    )
    assert split.json["figures"]["forwards"]["threads"] > 0, "the twin"
    assert whole.json["figures"]["forwards"]["threads"] == 0, "the engine uses the agreement of the release"
    assert MODULE in registry.modules(), "worker processes import it"
    assert names_to_import("dbo", None) == ["tests/vllm/releases/v0_99.py"], (
        "a command that dpsim prints for the user imports it as well"
    )


@pytest.mark.usefixtures("v0_99")
def test_each_piece_is_swapped_by_its_name(tmp_path: Path) -> None:
    v1 = {"agreement": "v1-0.99", "graphs": "v1-0.99", "microbatches": "v1-0.99"}
    asked = {"name": "whole_engine_dp", "form": "source", "pieces": v1 | {"finish_sync": "0.99", "config": "0.99"}}
    assert run(tmp_path, asked, SPLIT, {}).code == 0
    moving = {"name": "whole_engine_dp", "form": "source", "pieces": {"experts": "0.99"}}
    assert run(tmp_path, moving, {"enable_eplb": True, "enable_expert_parallel": True}, {}).code == 0
    pipeline = {"name": "whole_engine", "form": "source", "pieces": {"tokens": "0.99", "transfer": "0.99"}}
    assert run(tmp_path, pipeline, {}, PIPELINES).code == 0
    assert names("graphs", "v1") == ("source-004", "v1-0.14", "v1-0.17", "v1-0.33", "v1-0.99")


@pytest.mark.usefixtures("v0_99")
def test_from_vllm_translates_for_a_registered_release() -> None:
    command = "VLLM_ALL2ALL_BACKEND=naive vllm serve m -dp 2 --enable-expert-parallel"
    answer = dpsim_("scenario", "from-vllm", command, "--release", "0.99")
    assert (answer.code, "form: '0.99'" in answer.out) == (0, True), answer.err
    assert "VLLM_ALL2ALL_BACKEND: of releases before 0.99" in answer.out
    assert from_vllm(command, "0.99").scenario.config.parallel_rules == "0.33", "release 0.99 has the rules of 0.33"
    unknown = dpsim_("scenario", "from-vllm", command, "--release", "0.98")
    assert (unknown.code, "--release: dp_batch has no form '0.98'" in unknown.err) == (2, True)


@pytest.mark.usefixtures("v0_99")
def test_check_engine_knows_the_pieces_of_a_registered_release(tmp_path: Path) -> None:
    """The new release has no stored answers. For its rows `check-engine` would call the release's own pieces."""
    place = few(tmp_path / "few", 5, ["decide"])
    answer = dpsim_("check-engine", "--stored", "--answers", place)
    assert answer.code == 0
    ours = {kind.name: [one.release for one in kind.of_release("0.99.0")] for kind in KINDS}
    assert {name for name, releases in ours.items() if releases == ["0.99.0"]} == set(ours) - {
        "sizes_004",
        "choices_004",
        "captures_004",
    }, "functions that 0.17 had for the last time"
    (decide,) = next(kind for kind in KINDS if kind.name == "decide").of_release("0.99.0")
    assert decide.where.startswith("tests/vllm/releases/v0_99.py:")
    assert [one.release for one in KINDS[0].of_release("0.33.0")] == ["0.33.0"]


class OtherGraphs(CandidateTable):
    """A table of graphs of a derived class."""


class StepWithOthers(DataParallelStepV2):
    """A V2 step with its own class of graphs."""

    graphs = OtherGraphs


def test_steps_of_the_v2_runner_have_their_own_graphs(tmp_path: Path) -> None:
    assert not isinstance(V0_33.v2, Absent)
    register_release(V0_33._replace(name="0.97", v2=V0_33.v2._replace(step=StepWithOthers)), __name__)
    for swaps, code in ({"graphs": "v2-0.97"}, 2), ({"graphs": "v2-0.97", "agreement": "v2-0.97"}, 0):
        answer = run(tmp_path, {"name": "whole_engine_dp", "form": "current", "pieces": swaps}, {}, {})
        assert answer.code == code, answer.err
        assert ("pieces.graphs: v2-0.97; expected those of the agreement v2-0.33" in answer.err) is bool(code)


# ---- what a release does not have


def test_a_piece_that_a_release_lacks_is_refused_by_name(tmp_path: Path) -> None:
    lacking = V0_33._replace(
        name="0.98", balance=Absent("release 0.98 moves no experts"), tokens=Absent("0.98 has no pipelines")
    )
    register_release(lacking, __name__)
    assert run(tmp_path, {"name": "dp_batch", "form": "0.98"}, {}, {}).code == 0
    answer = run(tmp_path, {"name": "dp_batch", "form": "0.98"}, EXPERTS, {})
    assert (answer.code, answer.err.strip().splitlines()[-1]) == (
        2,
        "dpsim: registered: config.enable_eplb: release 0.98 moves no experts",
    )
    pipeline = run(tmp_path, {"name": "pp_tokens", "form": "0.98"}, {}, {"pipeline_parallel_size": 2})
    assert (pipeline.code, "pp_tokens has no form '0.98'" in pipeline.err) == (2, True)
    whole = run(tmp_path, {"name": "whole_engine", "form": "0.98"}, {}, PIPELINES)
    assert (whole.code, "whole_engine has no form '0.98'" in whole.err) == (2, True)


def test_the_rules_of_a_registered_release_have_its_name() -> None:
    class Rules099(ParallelConfig033):
        """Configuration rules of release 0.99."""

    register_release(V0_33._replace(name="0.99", config=Rules099), __name__)
    made = (
        EngineConfig.model_validate({"parallel_rules": "0.99"}),
        from_vllm("vllm serve m -dp 2", "0.99").scenario.config,
    )
    assert [str(config.parallel_rules) for config in made] == ["0.99", "0.99"]
    assert [type(config.parallel_config(Topology(data_parallel_size=2))) for config in made] == [Rules099, Rules099]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": ""}, "a release has the name ''; expected letters"),
        ({"name": "current"}, "a release has the name 'current'"),
        ({"name": "0.99\n"}, r"a release has the name '0\.99.n'"),
        ({"flow": None}, "flow: expected a class derived from BatchFlow, got None"),
        ({"transfer": V0_33.flow}, "transfer: expected a class derived from Transfer, got <class"),
        ({"need_mask": 3}, "need_mask: expected a function, got 3"),
        ({"lockstep": "0.33"}, "lockstep: expected Lockstep, got '0.33'"),
        (
            {"startup": cast(Any, V0_33.startup)._replace(ports=int)},
            "startup.ports: expected a class derived from GroupPorts",
        ),
        ({"variables": "no"}, "variables: expected bool, got 'no'"),
    ],
)
def test_a_record_with_a_wrong_piece_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        register_release(V0_33._replace(**{"name": "0.99", **changes}), __name__)


def test_a_name_has_one_record() -> None:
    with pytest.raises(ValueError, match=r"a release '0\.33' is registered already"):
        register_release(V0_33._replace(balance=Absent("none")), __name__)
    with pytest.raises(ValueError, match="expected a name without v1- or v2-"):
        register_release(V0_33._replace(name="v2-0.99"), __name__)
    register_release(V0_33._replace(name="0.99"), __name__)
    register_release(V0_33._replace(name="0.99"), __name__)
    assert names("dp_batch")[-2:] == ("0.99", "v2-0.99")
    assert named("dp_batch", "v2-0.99") == (V0_33._replace(name="0.99"), "v2")
