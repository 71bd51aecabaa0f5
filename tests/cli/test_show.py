"""Tests `dpsim show` with each kind of name, with a name of two meanings, and with unknown names."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import tests.scenario.params.protocols  # noqa: F401 - registers
from dpsim.cli.show_text import all_calls
from dpsim.contract.interface import Rank
from dpsim.contract.keys import register_keys
from tests.cli.commands import HEALTHY, dpsim_, write


def shown(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dpsim_("show", name, "--json").json["meanings"]
    return found


def test_show_describes_each_kind_of_name() -> None:
    [protocol] = shown("t_largest")
    assert (protocol["kind"], protocol["forms"], protocol["variants"]) == ("protocol", ["plain", "loud"], ["T-OWN"])
    assert protocol["file"].endswith("tests/scenario/params/protocols.py")
    [variant] = shown("T-OWN")
    assert (variant["kind"], variant["protocol"], variant["expected"]) == (
        "variant",
        "t_largest",
        "DISAGREEMENT:LARGEST",
    )
    [klass] = shown("DISAGREEMENT:LARGEST")
    assert (klass["kind"], klass["variants"]) == ("class", ["T-OWN"])
    [backend] = shown("sim")
    assert (backend["kind"], backend["reason"]) == ("backend", None)


def test_show_prints_the_calls_of_the_contract() -> None:
    names = [one["name"] for one in shown("send") if one["kind"] == "call"]
    assert names == ["HostCommunicator.send", "DeviceCommunicator.send", "Rank.send"]
    [call] = shown("Rank.sleep")
    assert call["signature"] == "sleep(ns: int, site: str) -> Awaitable[None]"
    assert call["doc"] == inspect.getdoc(Rank.sleep)
    printed = dpsim_("show", "coalesced").out
    assert printed.startswith("call  DeviceCommunicator.coalesced\ncoalesced(stream: Stream) -> ")
    assert "    Transfers within the block form one group" in printed
    assert "did you mean 'coalesced'" in dpsim_("show", "coalescd").err


def test_every_call_of_a_rank_has_a_page() -> None:
    abstract = {f"Rank.{name}" for name in Rank.__abstractmethods__ if inspect.isfunction(vars(Rank)[name])}
    assert abstract <= {one["name"] for one in all_calls() if one["doc"]}


def test_show_prints_the_meaning_of_a_key() -> None:
    register_keys({"T-KEY-1": "Every rank greets."})
    assert shown("T-KEY-1") == [{"kind": "key", "name": "T-KEY-1", "meaning": "Every rank greets."}]
    assert "meaning  Every rank greets." in dpsim_("show", "T-KEY-1").out
    assert dpsim_("show", "T-KEY-2").err.startswith("dpsim: T-KEY-2: dpsim does not know this name")


def test_a_scenario_is_shown_with_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = write(tmp_path / "t_own.yaml", HEALTHY)
    monkeypatch.setattr("dpsim.cli.list_text.bundled_files", lambda: {"t_own": file})
    answer = dpsim_("show", "t_own")
    [scenario] = shown("t_own.yaml")
    assert answer.code == 0
    assert scenario["text"] == HEALTHY
    assert HEALTHY.rstrip() in answer.out
    assert "\nnext      dpsim run t_own\n" in answer.out


def test_a_name_of_two_things_is_shown_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = write(tmp_path / "t_largest.yaml", HEALTHY)
    monkeypatch.setattr("dpsim.cli.list_text.bundled_files", lambda: {"t_largest": file})
    assert [one["kind"] for one in shown("t_largest")] == ["scenario", "protocol"]


@pytest.mark.parametrize(("name", "hint"), [("t_larges", "t_largest"), ("HANG:JOINS", "HANG:JOIN"), ("sjm", "sim")])
def test_show_refuses_an_unknown_name(name: str, hint: str) -> None:
    answer = dpsim_("show", name)
    assert (answer.code, answer.out) == (2, "")
    assert f"{name}: dpsim does not know this name" in answer.err
    assert hint in answer.err


def test_show_explains_an_exit_code() -> None:
    [code] = shown("3")
    assert (code["kind"], code["name"], code["outcome"][0][:10]) == ("exit code", "3", "no verdict")
    assert dpsim_("show", "3").out.splitlines()[-1].split() == ["all", "codes", "docs/exit-codes.md"]


@pytest.mark.parametrize("name", ["4", "999", "03x", "129"])
def test_show_refuses_a_number_that_is_no_exit_code(name: str) -> None:
    answer = dpsim_("show", name)
    assert answer.code == 2
    assert answer.err.rstrip().endswith("docs/exit-codes.md has all exit codes") == name.isdecimal()
