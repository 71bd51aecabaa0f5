"""Tests `dpsim list` and `dpsim schema`: the names that a user can run, and the keys of a scenario file."""

from __future__ import annotations

import re

import pytest

import tests.scenario.params.protocols  # noqa: F401 - registers
from dpsim import runner
from dpsim.contract.world import BackendUnavailable
from tests.cli.commands import Fake, dpsim_, needs_torch


def test_list_prints_protocols_variants_and_backends() -> None:
    answer = dpsim_("list")
    assert answer.code == 0
    assert re.search(r"^  t_largest +plain, loud$", answer.out, re.MULTILINE)
    assert re.search(
        r"^  T-OWN +t_largest +A rank decides on the number that it has seen itself", answer.out, re.MULTILINE
    )
    assert re.search(r"^  sim +runs here$", answer.out, re.MULTILINE)
    found = dpsim_("list", "--json").json
    assert list(found) == ["scenarios", "protocols", "variants", "backends"]
    assert {"name": "sim", "reason": None} in found["backends"]
    assert "T-OWN" in {entry["name"] for entry in found["variants"]}
    assert all(entry["expected"] or entry["reason"] for entry in found["variants"])


def test_list_says_why_a_backend_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "backend_names", lambda: ["fake", "torchless"])
    monkeypatch.setitem(runner._backends, "fake", Fake(BackendUnavailable("it needs 2 abaci, and there are none")))
    monkeypatch.setattr(runner, "find_backend", needs_torch(runner.find_backend))
    answer = dpsim_("list")
    assert "  fake       cannot run here: it needs 2 abaci, and there are none\n" in answer.out
    assert "  torchless  cannot run here: cannot be loaded: No module named 'torch'\n" in answer.out


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("scenarios",), {"scenarios"}),
        (("museum",), {"scenarios"}),
        (("variants", "--only", "t-own"), {"variants"}),
        (("--only", "T-OW?"), {"scenarios", "protocols", "variants", "backends"}),
    ],
)
def test_list_prints_only_the_selected_names(words: tuple[str, ...], kinds: set[str]) -> None:
    found = dpsim_("list", *words, "--json").json
    assert set(found) == kinds
    names = [entry["name"] for entries in found.values() for entry in entries]
    if words[0] in ("scenarios", "museum"):
        assert {name.startswith("museum/") for name in names} == {words[0] == "museum"}
    else:
        assert names == ["T-OWN"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("variant",), "did you mean 'variants'?; expected one of scenarios, museum, protocols, variants, backends"),
        (("--only", "nothing-like-it"), "no name has this text; `dpsim list` prints all names"),
        (("backends", "--only", "x"), "no name has this text; `dpsim list backends` prints all names"),
    ],
)
def test_list_refuses_unknown_names(words: tuple[str, ...], says: str) -> None:
    answer = dpsim_("list", *words)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


def test_schema_prints_the_schema_of_scenarios() -> None:
    answer = dpsim_("schema")
    assert answer.code == 0
    assert answer.json["title"] == "dpsim scenario"
