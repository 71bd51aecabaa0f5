"""Tests that the reader of scenario files reads all keys that the writer writes, with any value that the model allows.

The values follow from the model of a scenario, so a new key is drawn as soon as the model has it.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from dpsim.scenario import Scenario, ScenarioError, dump_scenario, parse_scenario, scenario_from
from dpsim.scenario.messages import MessageSpec
from dpsim.scenario.params.shapes import Either, Fields, Many, fields
from dpsim.testing.models import values
from tests.every_value import TEXTS
from tests.properties import slow_but
from tests.protocols import served

SERVED = served(nodes=2)
ACTORS: list[Any] = [0, 1, "frontend", "engine.1"]
CLASSES = ["HANG", "HANG:COLLECTIVE", "RACE:*"]
WORDS = ["yes", "null", "~", "0x10", "1e3", "1:30", "<<", "=", "-x", "#", "'", '"', "*a", "&a", "!x", "%"]
"""Words that YAML reads as something else, if the writer does not quote them."""
CONTENTS = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
KINDS_OF_FAULTS = fields(Scenario)["faults"].item.options  # type: ignore[union-attr]
OWN = {
    "faults": st.tuples(*map(values, KINDS_OF_FAULTS)).map(list),
    "name": st.from_regex(r"[A-Za-z0-9_./-]{1,20}", fullmatch=True),
    "description": st.text(max_size=60) | TEXTS,
    "messages": st.lists(
        st.fixed_dictionaries(
            {key: values(one) for key, one in fields(MessageSpec).items() if key != "content"} | {"content": CONTENTS}
        ),
        max_size=2,
    ),
}
SECTIONS = {key: OWN[key] if key in OWN else values(one) for key, one in fields(Scenario).items() if key != "protocol"}


def fitted(value: Any, draw: st.DrawFn) -> Any:
    """Returns a drawn value with names of this world, and without keys that exclude each other."""
    if isinstance(value, list):
        return [fitted(one, draw) for one in value]
    if not isinstance(value, dict):
        return value
    value = {key: fitted(one, draw) for key, one in value.items()}
    for key in {"rank", "to", "root"} & value.keys():
        value[key] = draw(st.sampled_from(ACTORS[:2] if key == "root" else ACTORS))
    for key, least in {"by": 1, "time": 0, "stall": 1, "deadline": 10**15}.items():
        if key in value:
            value[key] = f"{draw(st.integers(least, least + 10**15 - 1))}ns"
    if "node" in value:
        value["node"] %= 2
    if {"site", "seq"} <= value.keys():
        value = address(value, draw)
    if set(value.get("at") or ()) == {"thread"} and "kind" in value:
        value["at"] |= {"site": "a", "ordinal": 3}
    if "dtype" in value and "communicator" not in value:  # a change, and no call
        value = dict([draw(st.sampled_from([one for one in value.items() if one[1] is not None] or [("count", 1)]))])
    if "call" in value:
        value |= inserted(value["call"], draw)
    if "verdict" in value and value["verdict"] != "violated":  # an expectation with a class is one of a violation
        value |= {"verdict": "violated"} if value["class"] else {"culprit": None}
    if value.get("class") is not None:
        value["class"] = draw(st.sampled_from(CLASSES))
    if "switched_off" in value:
        value["switched_off"] = [draw(st.sampled_from(CLASSES)) for _ in value["switched_off"]]
    return {key: one for key, one in value.items() if one is not None}


def inserted(call: dict[str, Any], draw: st.DrawFn) -> dict[str, Any]:
    """Returns the rank and the call of an insertion, which fits the communicators of this world."""
    rank, count = draw(st.sampled_from(ACTORS[:2])), call["count"]
    forms = {
        "all_reduce": {"reduce": "sum"} if call.get("reduce") is None else {"reduce": call["reduce"], "dtype": "int32"},
        "broadcast": {"root": 1},
        "all_gather": {"sizes": [count, count]},
        "send": {"peer": 1 - rank},
    }
    op = draw(st.sampled_from([*forms]))
    group = draw(st.sampled_from([{"communicator": "world_cpu"}, {"communicator": "world", "stream": "s"}]))
    kept = {key: call[key] for key in ("dtype", "site", "step") if key in call}
    return {"rank": rank, "call": kept | group | {"op": op, "count": count} | forms[op]}


def address(value: dict[str, Any], draw: st.DrawFn) -> dict[str, Any]:
    """Returns one of the three forms of an address."""
    word = draw(st.sampled_from([value["site"] or "a", *WORDS]))
    site = {"site": word, "ordinal": value["ordinal"] or 0, "thread": value["thread"]}
    call = {"communicator": "world", "seq": value["seq"] or 0}
    return draw(st.sampled_from([site, call, {"thread": value["thread"] or "t"}]))


@st.composite
def scenarios(draw: st.DrawFn, section: str) -> Scenario:
    """Draws scenarios with any valid content of a section."""
    drawn = fitted(draw(SECTIONS[section]), draw)
    try:
        return scenario_from({**dict(SERVED), section: drawn})
    except ScenarioError:
        reject()


def keys_in(value: Any) -> set[str]:
    """Returns the keys of all mappings in plain data, or of all models in a shape."""
    if isinstance(value, dict):
        return {*value}.union(*map(keys_in, value.values()))
    match value:
        case list():
            return set[str]().union(*map(keys_in, value))
        case Fields(fields=inner):
            return keys_in(inner)
        case Many(item=inner):
            return keys_in(inner)
        case Either(options=options):
            return keys_in([*options])
    return set()


@pytest.mark.parametrize("section", slow_but(SECTIONS, lambda section: section in ("messages", "expect")))
def test_a_section_is_read_as_it_was_written(section: str) -> None:
    """Writes and reads scenarios with any content of a section, until each key of its models has occurred."""
    written = set[str]()

    @settings(max_examples=50)
    @given(scenarios(section))
    def check(scenario: Scenario) -> None:
        text = dump_scenario(scenario)
        written.update(keys_in(yaml.safe_load(text)[section]) if section in yaml.safe_load(text) else ())
        assert parse_scenario(text) == parse_scenario(text.encode()) == scenario

    check()
    assert keys_in(fields(Scenario)[section]) <= written
