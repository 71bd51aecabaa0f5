"""Tests that the JSON object of each command has exactly the keys that docs/json.md lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dpsim.cli.app import app
from dpsim_engine.check import Checked, Unasked
from dpsim_engine.command_text import as_json
from dpsim_engine.comparison import Compared
from tests import ROOT
from tests.cli.commands import dpsim_
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.dumps.test_judgement import HANGS, steps
from tests.vllm.reference.commands import commands
from tests.vllm.reference.json_fields.field import JsonField
from tests.vllm.reference.json_objects import ALL


def paths(value: Any, at: str = "") -> Iterator[str]:
    """Yields the keys of an object, and of the objects in it."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield f"{at}{key}"
            yield from paths(one, f"{at}{key}.")
    elif isinstance(value, list):
        for one in value:
            yield from paths(one, f"{at.removesuffix('.')}[].") if isinstance(one, dict) else ()


def unknown(value: Any, fields: tuple[JsonField, ...]) -> list[str]:
    """Returns the keys that no field describes. `*` in a field stands for any key and the keys below it."""
    known = {field.key for field in fields}
    free = (*(key.removesuffix("*") for key in known if key.endswith("*")), "scenarios[].violated.")
    return [path for path in paths(value) if path not in known and not path.startswith(free)]


def missing(value: Any, fields: tuple[JsonField, ...]) -> list[str]:
    """Returns the top-level keys that an object must contain, and lacks."""
    must = [one.key for one in fields if "." not in one.key and "absent" not in one.value]
    return [key for key in must if key not in value]


BAD = """\
name: bad
protocol: {name: dp_batch, variant: M-DP-1}
topology: {data_parallel_size: 2}
workload: {requests: [{arrival: 0ms, prompt_tokens: 1, output_tokens: 1}]}
expect: {verdict: held}
"""

COMMANDS = [
    ("dpsim run", "run skip_one --no-results"),
    ("dpsim run", "run quickstart --trace a.jsonl"),
    ("dpsim explore", "explore another_flag --no-results"),
    ("dpsim explore --all-up-to, --swarm", "explore quickstart --all-up-to ranks=1,requests=1,steps=1"),
    ("dpsim explore", "explore another_flag --coverage --no-results"),
    ("dpsim list", "list --only dp_batch"),
    ("dpsim list", "list backends"),
    ("dpsim show", "show HANG:JOIN"),
    ("dpsim show", "show M-DP-1"),
    ("dpsim museum NAME", "museum M-DP-1"),
    ("any command that ends with 2 or 3 without a result", "run no-such-scenario"),
]


@pytest.mark.parametrize(("title", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_the_keys_are_those_of_the_page(
    title: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = json.loads(dpsim_(*command.split(), "--json").out)
    del found["schema_version"]
    listed = (*ALL[title], *(ALL["dpsim list"] if title == "dpsim show" else ()))
    if title == "dpsim show":  # an entry has the keys of its list
        listed += tuple(
            JsonField(f"meanings[].{one.key.partition('[].')[2]}", "", "")
            for one in ALL["dpsim list"]
            if "[]." in one.key
        )
    assert unknown(found, listed) == []
    if not title.startswith(("dpsim list", "dpsim show")):
        assert missing(found, ALL[title]) == []


def test_the_keys_of_replay_and_compare_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of `replay` and `compare` are those of the page, for two traces that differ."""
    monkeypatch.chdir(tmp_path)
    for name in ("another_flag", "skip_one"):
        dpsim_("run", name, "--trace", f"{name}.jsonl", "--no-results")
    commands = {
        "dpsim replay": ("replay", "another_flag.jsonl"),
        "dpsim compare": ("compare", "another_flag.jsonl", "skip_one.jsonl"),
    }
    for title, words in commands.items():
        found = json.loads(dpsim_(*words, "--json").out)
        del found["schema_version"]
        assert (unknown(found, ALL[title]), missing(found, ALL[title])) == ([], []), title


def test_the_keys_of_explain_are_those_of_the_page(tmp_path: Path) -> None:
    steps(MadeJob(4), 3, HANGS["absent"][0]).write(tmp_path)
    found = json.loads(dpsim_("explain", tmp_path, "--json").out)
    del found["schema_version"]
    assert (unknown(found, ALL["dpsim explain"]), missing(found, ALL["dpsim explain"])) == ([], [])


def test_the_keys_of_campaign_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of `campaign` are those of the page, for two nights. The second night knows the mistake of the first."""
    monkeypatch.chdir(tmp_path)
    common = ("--part", "scenarios", "--out", "n", "--json")
    (tmp_path / "bad.yaml").write_text(BAD)
    for night in ("2026-11-26", "2026-11-27"):
        found = json.loads(dpsim_("campaign", "nightly", "bad.yaml", "--night", night, *common).out)
        del found["schema_version"]
        fields = ALL["dpsim campaign nightly"]
        assert (unknown(found, fields), missing(found, fields)) == ([], [])
        assert found["rows"][0]["failures"]
    found = json.loads(dpsim_("campaign", "report", "n", "--json").out)
    del found["schema_version"]
    assert (unknown(found, ALL["dpsim campaign report"]), missing(found, ALL["dpsim campaign report"])) == ([], [])
    assert found["known"]


def test_each_command_with_the_option_has_its_object() -> None:
    named = [name for name, one in commands(get_command(app), "dpsim") if any("--json" in p.opts for p in one.params)]
    assert set(named) - set(ALL) == set()
    assert len(named) >= 11


def test_answers_of_an_engine() -> None:
    """The keys of `check-engine` are those of the page. The object is made by hand, because a real one takes long."""
    compared = Compared("decide", "f", "0.33", "0.33", "a.py:1", 2, 1, {"mode": "why"}, 0, None)
    checked = Checked(ROOT, "", "", [compared], [Unasked("waves", "0.33", "why", trouble=False)])
    found, fields = as_json(checked), ALL["dpsim check-engine"]
    assert (unknown(found, fields), missing(found, fields)) == ([], [])


def test_a_key_that_is_not_listed_is_found() -> None:
    """The faulty twins: the test notices an additional key and a missing key."""
    fields = ALL["any command that ends with 2 or 3 without a result"]
    healthy = {"error": {"exit_code": 2, "message": "x"}}
    assert (unknown(healthy, fields), missing(healthy, fields)) == ([], [])
    assert unknown({"error": {"exit_code": 2, "code": 2}}, fields) == ["error.code"]
    assert missing({}, fields) == ["error"]
