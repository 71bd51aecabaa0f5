"""Tests `dpsim replay`: it repeats the same run, or prints the first difference."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign import replay as campaign_replay
from dpsim.campaign.properties import DoesNotHold
from dpsim.contract import registry
from dpsim.contract.interface import Rank
from dpsim.scenario import parse_scenario
from dpsim.sim.hosts import watch
from dpsim.testing import holds
from dpsim.trace import Schedule, read_trace
from dpsim.version import version
from tests import ROOT
from tests.cli.commands import dpsim_, process, write
from tests.cli.protocols import Look, Lost, Polls, scenario

MODULE = ("--module", "tests.cli.protocols")


@pytest.fixture
def trace() -> str:
    """The trace of a protocol that hangs if both polls find nothing."""
    write(Path("t_lost.yaml"), scenario("t_lost", 3))
    assert dpsim_("explore", "t_lost.yaml", *MODULE).code == 1
    (path,) = Path(".dpsim").iterdir()
    return str(path)


def edit(trace: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes each line of a trace."""
    rows = [json.loads(line) for line in Path(trace).read_text().splitlines()]
    for row in rows:
        change(row)
    write(Path(trace), "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))


def test_replay_repeats_the_run_of_a_trace(trace: str) -> None:
    answer = dpsim_("replay", trace, *MODULE)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[-1] == "replayed along 4 choices: the same run again"
    found = dpsim_("replay", trace, *MODULE, "--json").json
    assert found.pop("next") == [f"dpsim replay {trace} {' '.join(MODULE)} --full"]
    assert found.pop("chain") == [], "no rank is blamed for a message that no rank ever sent"
    assert found == {
        "trace": trace,
        "scenario": "t_lost",
        "backend": "sim",
        "same": True,
        "class": "HANG:MAILBOX",
        "detail": "NO_MESSAGE",
        "class_in_trace": "HANG:MAILBOX:NO_MESSAGE",
        "steps": 4,
        "skipped": [],
        "added": [],
        "stalled": [],
        "agreed": None,
        "waits": [],
        "ground": [],
        "no_return": "rank 0 reads mailbox box (second[0]); 16 random schedules from there fail, too",
        "swap": "rank 0 reads mailbox box (second[0]) before rank 0 receives message 1 of rank 1 (wake[0])",
        "one_more": None,
        "repairs": [],
        "shared": None,
        "variant": None,
        "unprotected": [],
        "difference": None,
    }


@pytest.mark.slow
def test_a_long_schedule_is_folded_where_it_is_shown_and_whole_where_it_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "ASKS", 300)
    write(Path("t_polls.yaml"), scenario("t_polls"))
    answer = dpsim_("explore", "t_polls.yaml", *MODULE, "--full")
    assert answer.code == 1
    assert "VIOLATED  LIVELOCK:POLL" in answer.out
    first = answer.out.splitlines().index("  rank 0 poll[0]")
    assert "  ... this choice 510 times more, up to rank 0 poll[510]" in answer.out.splitlines()[first + 1 : first + 4]
    assert len(answer.out.splitlines()) < 40
    (path,) = Path(".dpsim").iterdir()
    schedule = trace_schedule(path)
    assert len(schedule) > 300
    answer = dpsim_("replay", path, *MODULE)
    assert answer.out.splitlines()[-1] == f"replayed along {len(schedule):,} choices: the same run again"


@pytest.mark.slow
def test_skipped_steps_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "ASKS", 300)
    write(Path("t_polls.yaml"), scenario("t_polls"))
    dpsim_("explore", "t_polls.yaml", *MODULE)
    (path,) = Path(".dpsim").iterdir()
    many = len(trace_schedule(path))

    async def one_poll(self: Polls, rank: Rank, prepared: Any) -> None:
        await rank.mailbox("box").poll("poll")

    monkeypatch.setattr(Polls, "run", one_poll)
    answer = dpsim_("replay", path, *MODULE, "--fallback")
    skipped = [line for line in answer.out.splitlines() if line.startswith("skipped: ")]
    assert 1 < len(skipped) < many // 100
    assert any(" times more, up to rank " in line for line in skipped)
    assert len(dpsim_("replay", path, *MODULE, "--fallback", "--json").json["skipped"]) == many - 2


def trace_schedule(path: Path) -> tuple[str, ...]:
    read = read_trace(str(path))
    for _ in read.journals():
        pass
    assert read.schedule is not None
    return read.schedule.steps


@pytest.mark.slow
def test_replay_in_a_fresh_process_does_not_depend_on_the_hash_seed(trace: str) -> None:
    said = set()
    for seed in "01":
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = process("replay", trace, *MODULE, env=env)
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1
    assert said.pop().endswith("the same run again\n")


async def polls_another_mailbox_first(self: Look, rank: Rank, prepared: Any) -> None:
    """The changed protocol: it makes another poll before the others."""
    if rank.rank == 0:
        await rank.mailbox("news").poll("news")
    await RUN(self, rank, prepared)


RUN = Look.run


def test_a_strict_replay_stops_after_the_protocol_changed(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lost, "run", polls_another_mailbox_first)
    answer = dpsim_("replay", trace, *MODULE)
    possible = ["rank 0 news[0]", "rank 1 delivers wake[0]", "rank 2 delivers wake[0]"]
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        f"dpsim: {trace}: choice 1 of 4 of the schedule: expected 'rank 0 first[0]', "
        f"possible are {', '.join(map(repr, possible))}. Likely causes: the protocol or the scenario has changed since "
        "the schedule was noted. Or the run depends on something beside the schedule (a clock, an unseeded random "
        "number, state that outlives a run). --fallback continues anyway; "
        "after a repair, `dpsim explore FILE` of its scenario shows whether the repair holds\n"
    )


def test_a_fallback_replay_continues_after_the_protocol_changed(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lost, "run", polls_another_mailbox_first)
    answer = dpsim_("replay", trace, *MODULE, "--fallback")
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert "skipped: rank 0 first[0]" in lines
    assert "added: rank 0 news[0]" in lines
    said = "replayed along 4 choices, of which 2 were skipped; 3 were added: NOT the same run; "
    assert any(line.startswith(said) for line in lines)
    assert any(line.startswith("first difference: ") for line in lines)
    found = dpsim_("replay", trace, *MODULE, "--fallback", "--json").json
    assert (len(found["skipped"]), len(found["added"]), found["same"]) == (2, 3, False)
    assert found["difference"]


def test_fallback_where_nothing_changed_skips_nothing(trace: str) -> None:
    answer = dpsim_("replay", trace, *MODULE, "--fallback")
    assert answer.code == 0
    assert "skipped" not in answer.out


def test_replay_cuts_off_a_protocol_that_polls_since_the_trace(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def polls(self: Look, rank: Rank, prepared: Any) -> None:
        while rank.rank == 0:
            await rank.mailbox("news").poll("news")

    monkeypatch.setattr(Lost, "run", polls)
    monkeypatch.setattr("dpsim.explore.strategies.replay.ScheduleReplay.__init__.__defaults__", (True, None, 30))
    answer = dpsim_("replay", trace, *MODULE, "--fallback")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(
        f"dpsim: {trace}: the run was cut off after 30 choices, and the schedule has 4 choices: something "
    )


def test_replay_of_a_trace_without_a_schedule_runs_in_time(healthy: Path, traces: tuple[str, str]) -> None:
    """A trace without a schedule replays its scenario in a timed run, also if that hangs."""
    for name in traces:
        answer = dpsim_("replay", name)
        assert answer.code == 0
        assert answer.out.splitlines()[-1] == "replayed in time, without a schedule: the same run again"
    assert dpsim_("replay", "a.jsonl", "--json").json["steps"] is None


# ---- traces that cannot be used


def bad(trace: str, *words: str) -> str:
    answer = dpsim_("replay", trace, *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    return answer.err


def test_replay_refuses_a_file_that_is_no_trace() -> None:
    assert bad("missing.jsonl") == "dpsim: missing.jsonl: No such file or directory\n"
    write(Path("x.jsonl"), "nonsense\n")
    assert bad("x.jsonl").startswith("dpsim: x.jsonl:1: not a trace: ")


def test_replay_refuses_a_trace_of_another_version(trace: str) -> None:
    def newer(row: dict[str, Any]) -> None:
        if "version" in row:
            row["version"] = 99

    edit(trace, newer)
    assert "99" in bad(trace, *MODULE)


def test_replay_refuses_a_schedule_that_was_edited(trace: str) -> None:
    """A schedule with one step removed does not match its digest."""

    def shorter(row: dict[str, Any]) -> None:
        if row.get("section") == "schedule":
            row["schedule"]["steps"].pop()

    edit(trace, shorter)
    assert "the schedule was changed after it was written: its SHA-256 is " in bad(trace, *MODULE)


def test_replay_refuses_a_body_that_was_cut_off(trace: str) -> None:
    write(Path(trace), "\n".join(Path(trace).read_text().splitlines()[:2]) + "\n")
    assert trace in bad(trace, *MODULE)


def test_replay_refuses_an_unregistered_protocol(trace: str) -> None:
    """The trace names a protocol that this process does not have, for example because the user forgot --module."""

    def renamed(row: dict[str, Any]) -> None:
        if "scenario" in row:
            row["scenario"]["protocol"]["name"] = "forgotten"

    edit(trace, renamed)
    said = bad(trace)
    assert "forgotten" in said
    assert "--module" in said


def test_a_trace_contains_the_schedule_of_its_exploration(trace: str) -> None:
    """The trace contains the schedule that the exploration printed."""
    read = read_trace(trace)
    for _ in read.journals():
        pass
    assert read.schedule is not None
    assert (read.schedule.strategy, len(read.schedule.steps)) == ("dpor", 4)
    assert read.header.verdict == "violated"


# ---- tokens


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    """The same failure as a token."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(DoesNotHold) as raised:
        holds(parse_scenario(scenario("t_lost", 3)))
    assert raised.value.replay.endswith(" --module tests.cli.protocols"), "the file is not in this folder"
    return raised.value.replay.split()[2]


def test_a_token_is_the_same_failure(token: str) -> None:
    answer = dpsim_("replay", token, "--module", ROOT / "tests" / "cli" / "protocols.py")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("VIOLATED  HANG:MAILBOX")
    assert answer.out.splitlines()[-1] == "replayed along 4 choices: the same run again"
    found = dpsim_("replay", token, *MODULE, "--json").json
    assert (found["trace"], found["same"], found["steps"], found["skipped"]) == ("the token", True, 4, [])


def turning_line(said: str) -> str:
    """Returns the line `turning` of a report, with its continuation."""
    found = re.search(r"^turning .*(?:\n +.*)*", said, re.MULTILINE)
    return found[0] if found else ""


@pytest.mark.parametrize("what", ["token", "trace"])
def test_a_replay_has_the_turning(what: str, request: pytest.FixtureRequest) -> None:
    """A replay prints the same line as the exploration: the point after which all schedules fail, and the events to
    swap.
    """
    replayed = dpsim_("replay", request.getfixturevalue(what), *MODULE, "--no-results", columns=200)
    write(Path("again.yaml"), scenario("t_lost", 3))
    explored = dpsim_("explore", "again.yaml", *MODULE, "--no-results", columns=200)
    assert turning_line(explored.out)
    assert turning_line(replayed.out) == turning_line(explored.out)


def test_a_replay_that_fails_in_any_order_has_no_turning(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    """The faulty twin: no order of this program finishes, so the line `turning` would be wrong."""

    async def always(self: Lost, rank: Rank, seen: list[Any]) -> None:
        await rank.mailbox("other").get("never")

    monkeypatch.setattr(Lost, "after", always)
    answer = dpsim_("replay", token, *MODULE, "--no-results")
    assert answer.out.startswith("VIOLATED  HANG:MAILBOX")
    assert "\nturning" not in answer.out


def test_a_trace_of_an_unknown_protocol_asks_for_the_module_first(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names versions only if another version recorded the trace."""
    monkeypatch.delitem(registry._protocols, "t_lost")
    answer = dpsim_("replay", trace)
    assert answer.code == 2
    before, _, names = answer.err.partition("there are: ")
    assert "no protocol is registered as 't_lost'" in before
    assert "add --module FILE.py" in before
    assert "version" not in answer.err
    assert "recorded it" not in names
    monkeypatch.setattr(campaign_replay, "version", lambda: "9.9")
    assert dpsim_("replay", trace).err.endswith(f"; dpsim {version()} recorded it, and this is 9.9\n")


def test_replay_of_a_token_after_the_repair_finds_another_run(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lost, "after", Look.after)
    answer = dpsim_("replay", token, *MODULE)
    assert answer.code == 1
    said, following = answer.out.splitlines()[-2:]
    assert said.endswith("NOT the same run; it was HANG:MAILBOX:NO_MESSAGE, now no finding")
    assert following == (
        "after a repair, run the test of the log with --dpsim-replay=TOKEN: it explores all schedules. "
        "Or save the scenario of the log as FILE, and run `dpsim explore FILE --module tests.cli.protocols`"
    )


def test_a_token_is_explained_and_drawn(token: str, tmp_path: Path) -> None:
    explained = dpsim_("explain", token, *MODULE, "--json").json
    assert (explained["class"], explained["detail"]) == ("HANG:MAILBOX", "NO_MESSAGE")
    picture = tmp_path / "token.html"
    answer = dpsim_("export", token, *MODULE, "-o", picture)
    assert (answer.code, answer.err) == (0, "")
    assert picture.read_text().startswith("<!doctype html>") or "<html" in picture.read_text()


@pytest.mark.parametrize("command", ["explain", "export"])
def test_a_bad_token_is_neither_explained_nor_drawn(command: str) -> None:
    answer = dpsim_(command, "dpsim1.AAAA")
    assert (answer.code, answer.err) == (2, bad("dpsim1.AAAA"))


@pytest.mark.parametrize("word", ["dpsim1.", "dpsim1.AAAA", "dpsim7.AAAA", "dpsim1." + "A" * 20_000])
def test_replay_refuses_a_bad_token(word: str) -> None:
    assert bad(word).startswith("dpsim: the token ")


def test_replay_refuses_a_module_that_is_no_file() -> None:
    said = bad("dpsim1.AAAA", "--module", "tests/missing.py")
    assert said == "dpsim: cannot import the module tests/missing.py: ImportError: there is no such file\n"


def test_a_terminal_obeys_nothing_of_a_trace(trace: str) -> None:
    """The output escapes control characters in the schedule and in the recorded class."""

    def change(row: dict[str, Any]) -> None:
        if "class" in row:
            row["class"] = "X\x1b[31m"
        if row.get("section") == "schedule":
            steps = ("rank 9 \x1b[31m\n[0]", *row["schedule"]["steps"])
            row["schedule"] = Schedule("dpor", steps).content()

    edit(trace, change)
    said = dpsim_("replay", trace, *MODULE, "--fallback").out
    assert "skipped: rank 9 \\x1b[31m\\n[0]\n" in said
    assert "it was X\\x1b[31m, now HANG:MAILBOX:NO_MESSAGE" in said
    assert all(line.isprintable() for line in said.splitlines())


def test_a_token_is_replayed_on_the_simulation() -> None:
    said = bad("dpsim1.AAAA", "--backend", "gloo")
    assert said.startswith("dpsim: a token is replayed on sim, not on gloo: replay it on sim first; ")
    assert ".dpsim/results/latest/trace.jsonl" in said


def test_the_replay_of_a_token_leaves_the_trace_that_the_refusal_names(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSIM_RESULTS", "1")
    dpsim_("replay", token, *MODULE)
    assert "the same run again" in dpsim_("replay", ".dpsim/results/latest/trace.jsonl", *MODULE).out


def test_an_order_that_no_gate_can_force_is_refused() -> None:
    """A real backend refuses an order that no gate can force. The simulation replays the same trace."""
    write(Path("t_off.yaml"), scenario("t_two_streams", more="checks: {switched_off: [RACE:BUFFER]}\n"))
    assert dpsim_("run", "t_off.yaml", *MODULE, "--trace", "off.jsonl").code == 0
    said = bad("off.jsonl", "--backend", "gloo", *MODULE)
    assert said.startswith("dpsim: t_two_streams: the gloo backend cannot force the order in which two streams use")
    assert dpsim_("replay", "off.jsonl", *MODULE).code == 0


@pytest.mark.slow
@pytest.mark.xdist_group("gloo")
def test_a_replay_on_gloo_delivers_messages_as_in_the_schedule(trace: str) -> None:
    """On gloo, both polls find nothing, as in the schedule, whatever time gloo needs. So the rank hangs."""
    pytest.importorskip("torch")
    answer = dpsim_("replay", trace, "--backend", "gloo", *MODULE, "--json")
    assert (answer.code, answer.json["same"], answer.json["backend"]) == (0, True, "gloo"), answer.err
    assert (answer.json["class"], answer.json["detail"]) == ("HANG:MAILBOX", "NO_MESSAGE")
    assert dpsim_("replay", trace, "--backend", "gloo", *MODULE).out.splitlines()[-1] == (
        "replayed along 4 choices; then on gloo, in the same order: the same run again"
    )
