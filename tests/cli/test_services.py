"""Tests worlds with a service: commands print its name, and do not change numbers that are no ranks."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from dpsim import Program, Rank
from dpsim.cli.replay_text import REPAIRED
from dpsim.contract.registry import register_protocol
from dpsim.trace import Schedule
from tests.cli.commands import dpsim_

MODULE = "--module", __name__
"""In a world with `ranks 2`, the service is actor 2."""


class Pair(BaseModel):
    ranks: int = 2


@register_protocol("t_trained")
class Served(Program[Any]):
    """A service sets a key, and each rank polls it once. A rank that polls too early leaves a barrier out."""

    Params = Pair

    @staticmethod
    def ranks(params: Pair) -> int:
        return params.ranks

    def services(self, args: Any) -> tuple[str, ...]:
        return ("trainer",)

    async def serve(self, rank: Rank, args: Any) -> None:
        store = await rank.open_store(5, "open")
        assert store is not None
        store.set("key", 1, "publish")

    async def run(self, rank: Rank, args: Any) -> None:
        store = await rank.join_store(0, 5, "join")
        assert store is not None
        rank.step = 0
        seen = await store.get("key", "look", timeout_ns=0)
        await rank.host("world").broadcast(np.array([1], np.int32), 0, site="tell")
        if seen is not None:
            await rank.host("world").barrier(site="forward")


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("served.yaml").write_text("name: served\nprotocol: {name: t_trained}\n")


def test_parameters_stay_as_they_are() -> None:
    for command in ("run", "explore"):
        assert re.search(r"^params +ranks 2$", dpsim_(command, "served.yaml", *MODULE, "--full").out, re.MULTILINE)


def test_a_replay_names_the_service_and_counts_as_the_report() -> None:
    out = dpsim_("explore", "served.yaml", *MODULE, "--full").out
    steps = out.partition("\nschedule:\n")[2].partition("\n\n")[0].splitlines()
    (trace,) = Path(".dpsim").glob("*.jsonl")
    replayed = dpsim_("replay", trace, *MODULE, "--step", "--full").out
    assert "trainer sets publish[0]" in replayed
    assert "rank 2" not in replayed
    many = f"{len(steps)} choices and 1 draw"
    assert f"replayed along {many}: the same run again" in replayed
    numbers = [f"choice {number} of {len(steps)}:" for number in range(1, len(steps) + 1)]
    assert re.findall(r"^choice \d+ of \d+:", replayed, re.MULTILINE) == numbers
    assert steps[0] in replayed.partition("\nschedule:\n")[2].splitlines()


def test_a_difference_names_the_service_and_the_time_before_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service sets another value, which the rank learns. It has no step."""
    dpsim_("explore", "served.yaml", *MODULE)
    (trace,) = Path(".dpsim").glob("*.jsonl")

    async def other(self: Served, rank: Rank, args: Any) -> None:
        store = await rank.open_store(5, "open")
        assert store is not None
        store.set("other", 1, "publish")

    monkeypatch.setattr(Served, "serve", other)
    answer = dpsim_("replay", trace, *MODULE, "--fallback", "--no-results")
    lines = answer.out.splitlines()
    assert any(re.match("first difference: trainer, .*, before its first step$", line) for line in lines)
    assert "step -1" not in answer.out
    assert lines[-1] == REPAIRED
    assert "step -1" not in dpsim_("replay", trace, *MODULE, "--fallback", "--no-results", "--json").out


def test_a_picture_of_a_trace_names_the_service() -> None:
    dpsim_("run", "served.yaml", *MODULE, "--trace", "served.jsonl")
    assert dpsim_("export", "served.jsonl", *MODULE).code == 0
    assert '"actors":["rank 0","rank 1","trainer"]' in Path("served.html").read_text()


def test_a_delay_of_a_store_says_why_it_never_happens() -> None:
    Path("served.yaml").write_text(
        "name: served\nprotocol: t_trained\ndelays: [{rank: 1, by: 5ms, at: {site: look}}]\n"
    )
    out = dpsim_("run", "served.yaml", *MODULE).out
    assert "rank 1 reached look, but there it changes nothing: calls on stores, ports and events" in out


@register_protocol("t_routed")
class Routed(Served):
    """Each rank sends its number to the service. The service fails if rank 1 is first."""

    def services(self, args: Any) -> tuple[str, ...]:
        return ("router",)

    async def serve(self, rank: Rank, args: Any) -> None:
        first = await rank.mailbox("events").get("event")
        assert first == 0, "rank 1 was first"

    async def run(self, rank: Rank, args: Any) -> None:
        rank.send(rank.service("router"), "events", rank.rank, "done")


def test_a_replay_names_the_service_and_the_message_that_it_takes() -> None:
    write_routed()
    (path,) = Path(".dpsim").glob("*.jsonl")
    out = dpsim_("replay", str(path), "--step", *MODULE).out
    assert "  router took 1 at event[0]\n" in out
    assert "rank 2" not in out


def test_an_error_about_a_schedule_names_the_service() -> None:
    """A schedule that begins with a choice of the service does not fit. Its number would be 2."""
    write_routed()
    (path,) = Path(".dpsim").glob("*.jsonl")
    *records, last = path.read_text().splitlines()
    end = json.loads(last)
    old = end["schedule"]
    steps = ("rank 2 event[7]", *old["steps"][1:])
    end["schedule"] = {**old, "steps": steps, "digest": Schedule(old["strategy"], steps).digest}
    path.write_text("\n".join([*records, json.dumps(end, separators=(",", ":"))]) + "\n")
    strict = dpsim_("replay", str(path), *MODULE)
    assert "expected 'router event[7]'" in strict.err, strict.err
    loose = dpsim_("replay", str(path), "--fallback", *MODULE)
    assert "skipped: router event[7]" in loose.out, loose.out


def write_routed() -> None:
    Path("x.yaml").write_text("name: x\nprotocol: t_routed\n")
    assert dpsim_("explore", "x.yaml", *MODULE).code == 1
