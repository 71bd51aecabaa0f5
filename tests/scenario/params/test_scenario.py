"""Tests of scenarios with parameters: reading, error messages with the place of each value, writing, and running."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from pydantic import BaseModel

from dpsim.campaign.token import Token, read_token
from dpsim.contract import registry
from dpsim.contract.ops import DECISION_VALUE, KIND
from dpsim.contract.program import Arguments, Program, Unsuitable
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, ScenarioError, dump_scenario, parse_scenario, prepare, scenario_from
from dpsim.scenario.params.per_rank import PerRank
from dpsim.scenario.schema import schema
from dpsim.testing import scenarios
from tests.scenario.params import protocols
from tests.scenario.params.protocols import Everything, Few, Largest, Sizes

TEXT = """name: two
protocol:
  name: t_largest
  params: {ranks: 3, steps: 2, seen: {others: 1, 2: 3}}
"""


def made(**params: Any) -> Scenario:
    return scenario_from({"name": "made", "protocol": {"name": "t_largest", "params": params}})


def test_a_program_gets_its_model() -> None:
    scenario = parse_scenario(TEXT)
    assert scenario.protocol.params == Sizes(ranks=3, steps=2, seen=PerRank(1, {2: 3}))
    _, args, prepared = prepare(scenario)
    assert args.params == {"ranks": 3, "steps": 2, "seen": {"others": 1, "2": 3}}, (
        "worker processes receive plain data, before they import the model"
    )
    assert pickle.loads(pickle.dumps(args)) == args
    assert prepared.params == scenario.protocol.params


def test_a_scenario_with_parameters_runs() -> None:
    result = run_scenario(parse_scenario(TEXT))
    assert (result.verdict, result.world.size) == ("held", 3)
    assert [(one.kind, one.name, one.domain) for one in result.world.communicators] == [
        ("world", "world", "device"),
        ("world", "world_cpu", "host"),
    ]
    decided = {raw[DECISION_VALUE] for journal in result.run.journals for raw in journal if raw[KIND] == "decision"}
    assert decided == {3}


@pytest.mark.xdist_group("gloo")
def test_a_scenario_with_parameters_runs_on_gloo() -> None:
    """Runs a scenario on gloo. The workers receive plain data, and then import the module of the model."""
    assert run_scenario(parse_scenario(TEXT), "gloo").verdict == "held"


def test_a_scenario_is_written_with_every_parameter() -> None:
    scenario = parse_scenario("{name: two, protocol: {name: t_largest, params: {steps: 2}}}")
    written = dump_scenario(scenario)
    assert yaml.safe_load(written)["protocol"]["params"] == {"ranks": 2, "steps": 2, "seen": 0}
    assert parse_scenario(written) == scenario
    assert scenario_from({**dict(scenario)}) == scenario


@settings(deadline=None)
@given(scenarios(protocol="t_everything", max_faults=0))
def test_every_kind_of_parameter_is_written_and_read(scenario: Scenario) -> None:
    assert parse_scenario(dump_scenario(scenario)) == scenario
    assert prepare(scenario)[2].params == scenario.protocol.params


def test_a_token_has_the_parameters() -> None:
    scenario = made(steps=2, seen={"others": 0, 1: 2})
    word = str(Token(scenario, (), "HANG", "dpor", 10))
    assert read_token(word).scenario == scenario


def test_python_code_may_pass_the_model_itself() -> None:
    scenario = scenario_from({"name": "x", "protocol": {"name": "t_largest", "params": Sizes(steps=4)}})
    assert scenario == scenario_from({"name": "x", "protocol": {"name": "t_largest", "params": {"steps": 4}}})


WRONG = [
    ("{steps: 0}", "bad:4:19: protocol.params.steps: 0 is too small; expected at least 1"),
    (
        '{steps: "2"}',
        "bad:4:19: protocol.params.steps: expected a whole number, got the text '2'; leave out the quotes",
    ),
    ("{ranks: 2}", "bad:4:11: protocol.params: the key 'steps' is missing"),
    ("3", "bad:4:11: protocol.params: expected a mapping"),
    ("{steps: 1, seen: 4}", "bad:4:28: protocol.params.seen: 4 is too large; expected at most 3"),
    ("{steps: 1, seen: {1: 2}}", "protocol.params.seen: the ranks that are not named have no value; expected others:"),
    ("{steps: 1, seen: {others: 1, 01x: 2}}", "protocol.params.seen: '01x' is no rank; expected 0, 1, ... or others"),
    ("{steps: 1, seen: {others: 1, 1: 9}}", "protocol.params.seen.1: 9 is too large"),
    ("{steps: 1, seen: {others: 1, 5: 2}}", "protocol.params.seen.5: rank 5: the world has 2 ranks, 0 to 1"),
]


@pytest.mark.parametrize(("params", "said"), WRONG, ids=[params for params, _ in WRONG])
def test_an_error_of_a_parameter_names_its_place(params: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(f"name: x\nprotocol:\n  name: t_largest\n  params: {params}\n", "bad")
    assert said in str(caught.value)
    assert str(caught.value).count("\n") == 0


DEEP = [
    ("{work: [{tokens: 1}, {tokenz: 1}]}", "protocol.params.work[1]: unknown key 'tokenz'"),
    ("{first: {tokens: 0}}", "protocol.params.first.tokens: 0 is too small"),
    (
        "{mode: graphs}",
        "protocol.params.mode: unknown value 'graphs'; expected one of eager, graph; did you mean 'graph'",
    ),
    ("{even: 3}", "protocol.params.even: "),
    ("{even: 6, most: 3}", "even: more than most; expected at most that"),
    ("{limit: 3}", "protocol.params: unknown key 'limit'"),
]


@pytest.mark.parametrize(("params", "said"), DEEP, ids=[params for params, _ in DEEP])
def test_an_error_at_any_depth_names_its_place(params: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(f"name: x\nprotocol:\n  name: t_everything\n  params: {params}\n")
    assert said in str(caught.value)


def test_a_name_for_text_takes_a_number() -> None:
    """Checks that a text parameter accepts a number in a file, like every text field of a scenario."""
    scenario = parse_scenario("{name: x, protocol: {name: t_everything, params: {text: 0.1}}}")
    assert scenario.protocol.params == Everything(text="0.1")


PLACES = [
    ("name: x\nprotocol: t_largest\n", "2:11: protocol.params: the key 'steps' is missing"),
    ("name: x\nprotocol: {name: conformance, params: {a: 1}}\n", "conformance has no parameters here; remove it"),
    ("name: x\nprotocol: {name: t_largets, params: {steps: 1}}\n", "2:18: protocol.name: no protocol is registered as"),
    ("name: x\nprotocol: {name: t_largest, steps: 1}\n", "unknown key 'steps' here; expected one of name, form, "),
    ("name: x\nsteps: 1\nprotocol: {name: t_largest, params: {steps: 1}}\n", "it belongs under protocol.params"),
    (
        "name: x\nprotocol: {name: t_largest, params: {steps: 1}}\n"
        "faults: [{kind: die, rank: 2, at: {site: a, ordinal: 0}}]\n",
        "faults[0].rank: rank 2: the world has 2 ranks, 0 to 1",
    ),
]


@pytest.mark.parametrize(("text", "said"), PLACES)
def test_an_error_beside_the_parameters_names_its_place(text: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text)
    assert said in str(caught.value)


def test_a_misspelt_key_beside_others() -> None:
    """Checks that one error names all mistakes of the parameters."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario("name: x\nprotocol:\n  name: t_largest\n  params: {stepz: 2, ranks: 9}\n", "bad")
    assert str(caught.value).splitlines() == [
        "bad:4:11: protocol.params: the key 'steps' is missing",
        "bad:4:12: protocol.params: unknown key 'stepz'; expected one of ranks, steps, seen; did you mean 'steps'?",
        "bad:4:29: protocol.params.ranks: 9 is too large; expected at most 8",
    ]


def test_an_unknown_protocol_is_the_only_problem() -> None:
    """Checks that an unknown protocol is the only reported mistake. Without the protocol, the reader cannot check the
    parameters.
    """
    with pytest.raises(ScenarioError) as caught:
        parse_scenario("name: x\nprotocol: {name: t_largets}\n")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        (0, "NoRanks.ranks gave 0; expected a number of ranks from 1 to 4,096"),
        (5000, "NoRanks.ranks gave 5000; expected"),
        (13, "NoRanks.ranks raised RuntimeError: not 13; expected"),
    ],
)
def test_a_wrong_number_of_ranks_from_a_program_is_refused(ranks: int, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario_from({"name": "x", "protocol": {"name": "t_none", "params": {"ranks": ranks}}})
    assert f"protocol.params: {said}" in str(caught.value)


def test_a_fault_at_a_group_of_the_program() -> None:
    """Plants a fault at a communicator of the program's own groups. The faulty twin names the default communicator,
    which this program does not have, and the reader rejects it.
    """
    choice = {"name": "t_grouped", "params": {"ranks": 2}}
    fault: dict[str, Any] = {"kind": "die", "rank": 1, "at": {"communicator": "pair", "seq": 0}}
    result = run_scenario(scenario_from({"name": "x", "protocol": choice, "faults": [fault]}))
    assert [one.klass for one in result.findings] == ["HANG:COLLECTIVE:DEAD_RANK"]
    fault["at"] = {"communicator": "world_cpu", "seq": 0}
    with pytest.raises(ScenarioError, match="no communicator 'world_cpu' in this world; expected one of pair"):
        scenario_from({"name": "x", "protocol": choice, "faults": [fault]})


def test_a_token_brings_no_huge_world() -> None:
    scenario = scenario_from({"name": "x", "protocol": {"name": "t_none", "params": {"ranks": 65}}})
    assert scenario.beyond() == "65 ranks; expected at most 64"


async def _waits(params: Any) -> int:
    return 1


async def _run(self: Any, rank: Any, args: Any) -> None: ...


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"Params": Few}, "One has `Params` and does not say its ranks; write `@staticmethod` and `def ranks(params)`"),
        (
            {"Params": 3, "ranks": staticmethod(len)},
            "One.Params is 3; expected a class derived from pydantic.BaseModel",
        ),
        ({"Params": dict, "ranks": staticmethod(len)}, "One.Params is <class 'dict'>; expected a class"),
        ({"ranks": staticmethod(len)}, "One has `ranks` and no `Params`"),
        ({"Params": Few, "ranks": lambda self, params: 1}, "One.ranks is no static method; write `@staticmethod`"),
        ({"Params": Few, "ranks": classmethod(lambda cls, params: 1)}, "One.ranks is no static method"),
        ({"Params": Few, "ranks": staticmethod(lambda: 1)}, "One.ranks cannot be called"),
        ({"Params": Few, "ranks": staticmethod(_waits)}, "One.ranks is a coroutine function"),
        ({"Params": BaseModel, "ranks": staticmethod(len)}, "expected a class derived from pydantic.BaseModel"),
        ({"services": ("a",)}, "One.services is ('a',), and no method; write `def services(self, prepared)`"),
        ({"groups": ["w"]}, "One.groups is ['w'], and no method; write `def groups(self, prepared)`"),
        ({"nodes": property(len)}, "and no method; write `def nodes(self, prepared)`"),
        ({"figures": 1}, "One.figures is 1, and no method; write `def figures(self, prepared, journals)`"),
    ],
)
def test_a_program_with_wrong_parts_is_refused_at_its_definition(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        type("One", (Program,), {"run": _run, **parts})
    assert said in str(caught.value)


def test_a_caller_may_pass_plain_parameters_or_the_model() -> None:
    plain = Arguments(form="plain", params={"steps": 2})
    model = Arguments(form="plain", params=Sizes(steps=2))
    assert registry.prepared("t_largest", plain)[1] == registry.prepared("t_largest", model)[1] == model
    with pytest.raises(Unsuitable, match="the parameters of Largest: 1 validation error"):
        registry.prepared("t_largest", Arguments(form="plain", params={"steps": 0}))
    assert Largest.with_params(3) == 3, "dpsim does not validate parameters of another type"


def test_two_protocols_of_one_model() -> None:
    """Checks two protocols with one model. They share the class of their scenarios, and each has its own number of
    ranks.
    """
    assert type(made(steps=1)) is type(made(steps=2))
    assert issubclass(protocols.Sizes, BaseModel)


@pytest.mark.slow
def test_a_schema_asks_for_the_protocol_first() -> None:
    """Checks the JSON schema of several protocols, two of which share a definition of their parameters. The faulty twin
    is a schema without these protocols, which does not contain the definition.
    """
    entries = [registry.protocol(name) for name in ("t_none", "t_grouped", "t_everything")]
    found = schema(entries)
    named = []
    while "if" in found:
        named.append(found["if"]["properties"]["protocol"]["anyOf"][0]["const"])
        found = {**found["else"], "definitions": found["definitions"]} if "definitions" in found else found["else"]
    assert sorted(named) == ["t_everything", "t_grouped", "t_none"]
    assert schema(entries)["definitions"]["Few"]["additionalProperties"] is False
    assert "most" in schema(entries)["definitions"]["Everything"]["properties"]
    assert "Few" not in schema()["definitions"]
