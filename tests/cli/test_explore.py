"""Tests `dpsim explore`: its output, its exit codes, and the files that it writes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign import files as exploring
from dpsim.campaign import lone_ranks, whole
from dpsim.campaign.subject import Subject
from dpsim.checks.expected import UNMEANT
from dpsim.contract.interface import Rank
from dpsim.trace import TraceError, read_trace
from tests.cli.commands import EXPECTED, HEALTHY, SKIP, Answer, dpsim_, write
from tests.cli.protocols import Kept, Polls, Shares, scenario

pytestmark = pytest.mark.runs_once  # some of the protocols keep state between runs

MODULE = ("--module", "tests.cli.protocols")


def explore(name: str, *words: str | Path, ranks: int = 2, more: str = "") -> Answer:
    write(Path(f"{name}.yaml"), scenario(name, ranks, more))
    return dpsim_("explore", f"{name}.yaml", *MODULE, *words)


ASSUMES = "assumes: no rank dies; no message is lost, duplicated, reordered or added"
ON_DEVICES = (
    "assumes: no rank dies; unlimited residency; communicators are connected; unlimited launch queue; "
    "no allocation waits; no other effect of hardware"
)


# ---- its output


def test_explore_prints_a_proof() -> None:
    answer = explore("t_look")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == (
        "PROVEN  holds in every schedule of this world\n"
        f"{ASSUMES}\n"
        'note: no rank calls rank.decide, so no check compares values; write rank.decide("label", value, "world")\n'
        "\n"
        "scenario   t_look\n"
        "params     ranks 2\n"
        "schedules  3 in 3 classes; on average 3.0 choices\n"
        "races      2 of 2 pairs of sites seen in both orders\n"
        "probes     2 of 3 reached; never: never\n"
        "expected: held; met\n"
    )
    assert not Path(".dpsim").exists()


def test_explore_names_a_program_without_choices(healthy: Path) -> None:
    assert dpsim_("explore", healthy).out.splitlines() == [
        "PROVEN  holds in every schedule of this world",
        ON_DEVICES,
        "",
        "scenario   three",
        "params     ranks 3, steps 6",
        "schedules  1, the only one: nothing here can come in another order",
        "probes     1 of 2 reached; never: differed",
        "expected: held; met",
    ]


def test_explore_prints_a_sample() -> None:
    answer = explore("t_look", "--strategy", "random", "--schedules", "150")
    assert answer.code == 0
    assert answer.out.splitlines()[0] == "SAMPLED  holds in 150 schedules; 0 of the last 100 were of a new class"
    assert "one schedule is no proof" not in answer.out
    answer = explore("t_look", "--strategy", "fifo")
    assert answer.out.splitlines()[0] == "SAMPLED  holds in 1 schedule; there may be others"


@pytest.mark.parametrize("words", [(), ("--jobs", "2"), ("--strategy", "random", "--schedules", "3")])
def test_a_program_that_does_nothing_is_not_proven(words: tuple[str, ...]) -> None:
    answer = explore("t_nothing", *words)
    nothing = "no rank issued anything but decisions, sleeps and idle gets: there was nothing to coordinate"
    unmet = f"expected: held; NOT met: expected held, got vacuous ({UNMEANT})"
    assert (answer.code, answer.out.splitlines()[0], answer.out.splitlines()[-1]) == (1, f"VACUOUS  {nothing}", unmet)
    assert explore("t_nothing", "--json", *words).json["scenarios"][0]["verdict"] == "vacuous"
    answer = dpsim_("run", "t_nothing.yaml", *MODULE)
    said = nothing.replace("gets:", "gets (sim):")
    assert (answer.code, answer.out.splitlines()[0], answer.out.splitlines()[-1]) == (1, f"VACUOUS  {said}", unmet)
    assert dpsim_("run", "t_nothing.yaml", *MODULE, "--json").json["verdict"] == "vacuous"


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("t_nothing", ["run"], 0),
        ("t_nothing", ["explore"], 0),
        ("t_nothing", ["explore", "--all-up-to", "ranks=2,requests=1"], 0),
        ("t_look", ["run"], 1),
        ("t_look", ["explore"], 1),
        ("t_nothing", ["explore", "--all-up-to", "ranks=2,requests=2"], 1),
    ],
)
def test_a_scenario_may_expect_that_nothing_is_coordinated(name: str, words: list[str], code: int) -> None:
    """If a scenario expects "vacuous", a world in which a rank does something is not as expected."""
    write(Path(f"{name}.yaml"), scenario(name, 2, "expect: {verdict: vacuous}\n"))
    answer = dpsim_(words[0], f"{name}.yaml", *MODULE, *words[1:])
    assert answer.code == code, answer.out
    assert ("NOT met: expected vacuous, got " in answer.out) == bool(code)


@pytest.mark.parametrize("words", [("run",), ("explore",), ("explore", "--jobs", "2")])
def test_state_that_ranks_share_is_bad_input(words: tuple[str, ...]) -> None:
    write(Path("t_shares.yaml"), scenario("t_shares"))
    answer = dpsim_(words[0], "t_shares.yaml", *MODULE, *words[1:])
    assert (answer.code, answer.out) == (2, "")
    place = f"tests/cli/protocols.py:{Shares.run.__code__.co_firstlineno}"
    assert answer.err.splitlines()[0] == (
        f"dpsim: Shares.run ({place}) changed self.count. Ranks in one process share it, and ranks in "
        "separate processes do not; keep what changes in local variables of run"
    )


@pytest.mark.parametrize(
    ("requests", "said"), [("1", "VACUOUS  in all these"), ("2", "PROVEN  every one of these worlds")]
)
def test_worlds_in_which_nothing_is_done_are_counted(requests: str, said: str) -> None:
    limits = f"ranks=2,requests={requests}"
    answer = explore("t_nothing", "--all-up-to", limits)
    assert answer.code == (requests == "1")
    assert [line for line in answer.out.splitlines() if line.startswith(said)]
    assert (f"NOT met: expected held, got vacuous ({UNMEANT})" in answer.out) == (requests == "1")
    assert ("vacuous, with nothing to coordinate" in answer.out) == (requests == "2")


def test_explore_prints_a_bounded_verdict_for_runs_that_were_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was cut off and not judged does not meet an expectation."""
    of = Subject.of
    monkeypatch.setattr(Subject, "of", staticmethod(lambda *given: replace(of(*given), longest=50)))

    async def polls_for_long(self: Polls, rank: Rank, prepared: Any) -> None:
        for _ in range(100):
            await rank.mailbox("box").poll("poll")

    monkeypatch.setattr(Polls, "run", polls_for_long)  # it ends, because the timed run would find a livelock
    answer = explore("t_polls")
    line = polls_for_long.__code__.co_firstlineno + 2
    assert answer.code == 1
    polls = "each poll is a choice of the schedule; poll once a step, or wait with `get`"
    assert [*answer.out.splitlines()[:4], answer.out.splitlines()[-1]] == [
        "BOUNDED  no schedule was judged: 1 of 1 were cut off after 50 choices and not judged",
        f"polls: rank 0 polls in a loop at poll, tests/cli/test_explore.py:{line}: {polls}",
        "a run stood here after 50 choices, where it was cut off:",
        f"  ranks 0, 1 before its first step: poll box at poll[25], tests/cli/test_explore.py:{line}",
        "expected: held; NOT met: no schedule was judged",
    ]


@pytest.mark.parametrize("strategy", ["dpor", "portfolio"])
def test_dpor_runs_until_its_budget(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With only a time budget, DPOR has no bound on the number of schedules. With a number, or without a budget, it has
    one.
    """
    monkeypatch.setattr("dpsim.cli.explore.SCHEDULES", 2)
    bounded = explore("t_look", "--strategy", "dpor", "--json").json["scenarios"][0]
    assert (bounded["verdict"], bounded["schedules"]) == ("sampled", 2)
    by_both = explore("t_look", "--strategy", "dpor", "--budget", "60s", "--schedules", "1", "--json").json["scenarios"]
    assert (by_both[0]["verdict"], by_both[0]["schedules"]) == ("sampled", 1)
    by_time = explore("t_look", "--strategy", strategy, "--budget", "60s", "--json").json["scenarios"][0]
    assert (by_time["verdict"] == "proven") == (strategy == "dpor")


def test_explore_without_time_judges_no_schedule() -> None:
    answer = explore("t_look", "--budget", "0s")
    assert (answer.code, answer.err) == (1, "")
    assert [answer.out.splitlines()[0], answer.out.splitlines()[-1]] == [
        "SAMPLED  no schedule was judged",
        "expected: held; NOT met: no schedule was judged",
    ]


def test_explore_prints_a_violation_and_writes_a_trace() -> None:
    answer = explore("t_lost")
    assert (answer.code, answer.err) == (1, "")
    lines = answer.out.splitlines()
    assert lines[0] == "VIOLATED  HANG:MAILBOX  HANG: a rank waits for a message that does not come"
    (trace,) = Path(".dpsim").iterdir()
    name, command = trace.stem.removeprefix("t_lost-"), f"dpsim replay .dpsim/{trace.name} --module tests.cli.protocols"
    at = next(at for at, line in enumerate(lines) if line.startswith("schedule "))
    assert lines[at:] == [
        f"schedule  3 choices with 1 switch, failure {name}, found by dpor in run 2",
        f"next      {command} --full",
        "",
        "explored  t_lost: 2 schedules in 2 classes; on average 3.0 choices",
        "expected: held; NOT met: expected held, got violated",
    ]
    lines = explore("t_lost", "--full").out.splitlines()
    at = lines.index("schedule:")
    assert lines[at + 1 : at + 4] == ["  rank 0 first[0]", "  rank 0 second[0]", "  rank 1 delivers wake[0]"]
    assert f"next      {command}" in lines
    at = lines.index("races      1 of 2 pairs of sites seen in both orders")
    assert lines[at + 1] == "           only rank 0 first before rank 1 delivers wake"


def test_the_printed_command_shows_it_again() -> None:
    answer = explore("t_lost")
    command = next(line for line in answer.out.splitlines() if line.startswith("next      dpsim "))
    again = dpsim_(*command.split()[2:])
    assert again.code == 0
    assert again.out.splitlines()[0] == answer.out.splitlines()[0]
    assert again.out.splitlines()[-1] == "replayed along 3 choices: the same run again"


def test_the_same_failure_is_the_same_file() -> None:
    for words in ((), ("--strategy", "random", "--seed", "5", "--keep-going", "--schedules", "50"), ("--jobs", "2")):
        explore("t_lost", *words)
    assert len([*Path(".dpsim").iterdir()]) == 1


def test_a_trace_follows_no_link(tmp_path: Path) -> None:
    explore("t_lost")
    (trace,) = Path(".dpsim").iterdir()
    mine = tmp_path / "mine"
    mine.write_text("mine")
    trace.unlink()
    trace.symlink_to(mine)
    explore("t_lost")
    assert mine.read_text() == "mine"
    assert not trace.is_symlink()
    assert trace.read_text().startswith('{"format"')


def test_a_failure_that_needs_a_draw_is_confirmed() -> None:
    """The hang needs both sends to wait for their receives. The normal form of the schedule contains these draws, and
    its run shows the hang.
    """
    answer = explore("t_cross", "--full")
    assert answer.code == 1
    assert "NOT CONFIRMED" not in answer.out
    assert "  rank 0 world_cpu 0>1 #0: rendezvous\n  rank 1 world_cpu 1>0 #0: rendezvous\n" in answer.out


def test_expected_failures_are_met(planted: Path, broken: Path) -> None:
    assert dpsim_("explore", planted).code == 0
    assert dpsim_("explore", broken).code == 1
    answer = explore("t_lost", more="expect: {verdict: violated, class: 'HANG:*'}\n")
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "expected: violated, HANG:*; met")
    answer = explore("t_lost", more="expect: {verdict: violated, class: 'RACE:*'}\n")
    assert answer.code == 1
    assert answer.out.endswith("NOT met: expected a finding of class RACE:*, got HANG:MAILBOX:NO_MESSAGE\n")


def test_keep_going_reports_each_failure_once() -> None:
    answer = explore("t_two", "--keep-going", ranks=3)
    assert answer.code == 1
    assert answer.out.count("VIOLATED  ") == 2
    assert answer.out.startswith("failure 1 of 2\n")
    assert "\nfailure 2 of 2\n" in answer.out
    replays = [line.split()[3] for line in answer.out.splitlines() if line.startswith("next      dpsim replay ")]
    assert sorted(replays) == sorted(str(path) for path in Path(".dpsim").iterdir())
    assert len({*replays}) == 2
    for trace in replays:
        assert dpsim_("replay", trace, *MODULE).code == 0
    found = explore("t_two", "--keep-going", "--json", ranks=3).json["scenarios"][0]["failures"]
    assert [one["trace"] for one in found] == replays
    assert all(one["seen"] > 1 for one in found)
    assert explore("t_two", ranks=3).out.count("VIOLATED  ") == 1, (
        "without --keep-going only the first failure is reported"
    )


def test_explore_counts_the_verdicts_of_several_scenarios(healthy: Path, planted: Path) -> None:
    for jobs in ("1", "2"):
        answer = dpsim_("explore", healthy, planted, "--jobs", jobs)
        assert answer.code == 0
        assert answer.out.splitlines()[-1] == "2 scenarios: 1 proven, 1 violated"


def test_json_has_every_key() -> None:
    found = explore("t_lost", "--json").json
    (row,) = found["scenarios"]
    (failure,) = row["failures"]
    trace = next(Path(".dpsim").iterdir())
    assert (found.keys(), found["met"]) == ({"met", "scenarios"}, False)
    assert row == {
        "scenario": "t_lost",
        "verdict": "violated",
        "lost": None,
        "against": None,
        "assumes": [],
        "no_other_effect": [],
        "touched": [],
        "met": False,
        "unmet": "expected held, got violated",
        "limit": None,
        "schedules": 2,
        "classes": 2,
        "redundant": 0,
        "cut": 0,
        "unended": 0,
        "longest": 10_000,
        "within": None,
        "unfinished": None,
        "progress": row["progress"],
        "stood": None,
        "new_per_hundred": 100.0,
        "races": {"pairs": 2, "both_orders": 1},
        "probes": {"early": 0, "late": 2, "never": 0},
        "failures": [failure],
        "class": "HANG:MAILBOX",
        "detail": "NO_MESSAGE",
        "culprit": row["culprit"],
        "agreed": None,
        "chain": row["chain"],
        "waits": [],
        "ground": [],
        "no_return": row["no_return"],
        "swap": "rank 0 reads mailbox box (second[0]) before rank 0 receives message 1 of rank 1 (wake[0])",
        "one_more": None,
        "repairs": [],
        "shared": None,
        "variant": None,
        "unprotected": [],
        "next": [],
        "confirmed": True,
        "trace": str(trace),
    }
    assert row["no_return"].startswith("rank 0 reads mailbox box (second[0]); ")
    assert (row["culprit"], row["chain"]) == (None, []), "no rank is blamed for a message that no rank ever sent"
    assert failure == {
        "class": "HANG:MAILBOX",
        "detail": "NO_MESSAGE",
        "what": "HANG:MAILBOX",
        "fingerprint": trace.stem.removeprefix("t_lost-"),
        "by": "dpor",
        "first": 2,
        "seen": 1,
        "schedule": ["rank 0 first[0]", "rank 0 second[0]", "rank 1 delivers wake[0]"],
        "confirmed": True,
        "trace": str(trace),
    }


def test_a_wrong_footprint_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin of each confirmation: the normal form omits polls as if they affected nothing. So its run does
    not show the failure.
    """
    from dpsim.explore.normal_form import normal_form

    def shorter(steps: Any, causes: Any = None) -> Any:
        return [step for step in normal_form(steps, causes) if "first" not in step.label and "second" not in step.label]

    monkeypatch.setattr("dpsim.explore.explorer.normal_form", shorter)
    monkeypatch.setattr("dpsim.explore.strategies.replay.ordinary", lambda candidates: len(candidates) - 1)
    answer = explore("t_lost")
    assert answer.code == 1
    assert "\nNOT CONFIRMED: a run along this schedule does not show it. Some op touches more than" in answer.out
    assert answer.out.endswith("expected: held; NOT met: expected held, got violated\n")
    assert explore("t_lost", "--json").json["scenarios"][0]["confirmed"] is False
    violated = explore("t_lost", more="expect: {verdict: violated}\n")
    assert (violated.code, violated.out.splitlines()[-1]) == (
        1,
        "expected: violated; NOT met: the failure could not be confirmed",
    )


def test_explore_switches_findings_off(tmp_path: Path) -> None:
    file = write(tmp_path / "x.yaml", HEALTHY + SKIP)
    assert dpsim_("explore", file).code == 1
    answer = dpsim_("explore", file, "--off", "HANG:*")
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == "expected: held; met"


# ---- bad input


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("quickstart", "--strategy", "dpo"),
            "--strategy: there is no strategy 'dpo'; did you mean 'dpor'? (there are ",
        ),
        (("quickstart", "--budget", "soon"), "--budget: "),
        (("quickstart", "--budget", "60"), "--budget: "),
        (("quikstart",), "no scenario 'quikstart': "),
        (
            ("three.yaml", "--all-up-to", "rank=2"),
            "--all-up-to: 'rank' is no parameter; did you mean 'ranks'? (there are ranks, steps)",
        ),
        (
            ("three.yaml", "--all-up-to", "ranks=0"),
            "--all-up-to: ranks=0; expected a number from 1 to 4096, as in ranks=4096",
        ),
        (("three.yaml", "--all-up-to", "ranks=900,steps=900"), "--all-up-to: these are "),
        (("three.yaml", "--all-up-to", "ranks=1", "--keep-going"), "--keep-going: with --all-up-to "),
        (("three.yaml", "--off", "HNAG"), "--off: no finding has a class that 'HNAG' selects"),
        (("quickstart", "--module", "no_such_module"), "cannot import the module no_such_module: ModuleNotFoundError"),
    ],
)
@pytest.mark.usefixtures("healthy")
def test_bad_input_of_explore_ends_with_2_and_one_line(words: tuple[str, ...], said: str) -> None:
    answer = dpsim_("explore", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"dpsim: {said}")
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_explore_reports_a_protocol_that_keeps_state_between_runs(jobs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kept, "runs", -1)  # the timed run comes first
    answer = explore("t_state", "--jobs", jobs, ranks=3)
    assert (answer.code, answer.err) == (1, "")
    lines = answer.out.splitlines()
    assert (
        lines[0]
        == "VIOLATED  NONDETERMINISM:REPEAT  NOT REPEATABLE: a repetition of the same schedule gave another run"
    )
    where = "culprit   rank 0, before its first step, poll.1 at tests/cli/protocols.py:"
    assert any(line.startswith(where) for line in lines)
    assert any(line.strip().startswith("again:   poll own at poll.0[0], tests/cli/protocols.py:") for line in lines)
    assert "\nnext " not in answer.out, "a command whose run might not show the failure again is not recommended"
    assert not Path(".dpsim").exists()


def test_explore_prints_why_its_workers_were_lost() -> None:
    answer = explore("t_deadly", "--jobs", "2")
    why = "two processes ended over the same 1 schedule (dpor), the last by signal 9. Out of memory?"
    assert (answer.code, answer.err) == (3, "")
    assert answer.out.startswith(f"LOST  {why}")
    assert answer.out.splitlines()[-1].startswith(f"expected: held; NOT met: lost: {why}")


def test_explore_prints_the_verdict_if_it_cannot_write_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """If dpsim cannot write a trace, it still prints the verdict, and the exit code agrees with it."""
    write(Path("file"), "")
    answer = explore("t_lost", "--save", "file/folder")
    assert answer.code == 1
    assert "VIOLATED  HANG:MAILBOX" in answer.out
    assert "\nnext " not in answer.out
    assert answer.err.startswith("dpsim: warning: no trace of the failure of t_lost was written: [Errno 20] Not a dir")
    answer = explore("t_lost", "--save", "file/folder", "--json")
    assert (answer.code, answer.json["scenarios"][0]["trace"]) == (1, None)

    def no(*_: Any, **__: Any) -> None:
        raise TraceError("this cannot be written")

    monkeypatch.setattr(exploring, "write_judged", no)
    answer = explore("t_lost")
    assert answer.code == 1
    assert answer.err == "dpsim: warning: no trace of the failure of t_lost was written: this cannot be written\n"
    assert "VIOLATED  HANG:MAILBOX" in answer.out


# ---- sets of small worlds


def test_every_small_world_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "x.yaml", HEALTHY)
    for jobs in ("1", "2"):
        monkeypatch.setattr(lone_ranks, "ACCOUNT", lone_ranks.Account())
        answer = dpsim_("explore", file, "--all-up-to", "ranks=3,steps=2", "--jobs", jobs)
        assert (answer.code, answer.err) == (0, "")
        printed = re.sub("ranks share no Python object: [^;]*; ", "", answer.out)
        assert re.sub(r"in [1-9]\d* of", "in some of", printed) == (
            "PROVEN  every one of these worlds holds in every schedule\n"
            f"{ON_DEVICES}\n"
            "outside of this set: the scenario's own parameters\n"
            "\n"
            "scenario  three\n"
            "worlds    all 6 up to ranks 3, steps 2\n"
            "explored  6 worlds in 6 schedules, smaller ones first\n"
            "probes    agreed in 4 worlds; never: differed\n"
            "alone     each rank ran again in its own process in some of 6 worlds\n"
            "expected: held; met\n"
        )


@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_explore_names_the_first_small_world_that_fails(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first world that fails is the same, however many worlds the explorer gives out together."""
    monkeypatch.setattr(whole, "AT_ONCE", at_once)
    for jobs in ("1", "2"):
        answer = explore("t_small", "--all-up-to", "ranks=1,requests=2,requests.tokens=2", "--jobs", jobs)
        assert answer.code == 1
        lines = answer.out.splitlines()
        assert lines[0] == "VIOLATED  world 4 of 6, and no smaller one:"
        assert lines[2] == "  name: t_small-small"
        assert "worlds    all 6 up to ranks 1, requests 2, requests.tokens 2" in lines
        assert lines[3:6] == [
            "  protocol:",
            "    name: t_small",
            "    params: {ranks: 1, requests: [{tokens: 1}, {tokens: 2}]}",
        ]
        (trace,) = Path(".dpsim").iterdir()
        assert f"next      dpsim replay {trace} --module tests.cli.protocols --full" in lines
        assert lines[-1] == "expected: held; NOT met: expected held, got violated"
        requests = read_trace(trace).header.scenario["protocol"]["params"]["requests"]
        assert [one["tokens"] for one in requests] == [1, 2]


def test_explore_counts_small_worlds_for_which_it_has_no_time(healthy: Path) -> None:
    answer = dpsim_("explore", healthy, "--all-up-to", "ranks=2,steps=8", "--budget", "0s")
    assert answer.out.splitlines()[0] == "SAMPLED  no failure; 16 not begun"
    row = dpsim_("explore", healthy, "--all-up-to", "ranks=2,steps=8", "--budget", "0s", "--json").json["scenarios"][0]
    assert [len(row.pop(key)) for key in ("cut_short", "next")] == [1, 1]  # test_explore_worlds reads them
    assert row == {
        "scenario": "three",
        "sizes": {"ranks": 2, "steps": 8},
        "not_varied": [],
        "outside": "the scenario's own parameters",
        "verdict": "sampled",
        "met": True,
        "unmet": None,
        "worlds": 16,
        "explored": 0,
        "proven": 0,
        "bounded": 0,
        "sampled": 0,
        "vacuous": 0,
        "alone": 0,
        "schedules": 0,
        "probes": {},
        "never_applied": [],
        "assumes": [],
        "lost": None,
        "violated": None,
    }


def test_explore_samples_small_worlds_that_are_too_large_to_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lone_ranks, "ACCOUNT", lone_ranks.Account())
    monkeypatch.setattr(lone_ranks, "SHARE", 0)  # ranks run alone along one schedule
    answer = explore("t_look", "--all-up-to", "ranks=2", "--schedules", "2", "--strategy", "dpor")
    lines = answer.out.splitlines()
    assert lines[0] == "SAMPLED  no failure; 1 proven, 1 sampled"
    assert lines[1].startswith(f"{ASSUMES}; ranks share no Python object: checked in ")


@pytest.mark.parametrize(
    ("expect", "line"),
    [
        (EXPECTED, "violated, HANG:COLLECTIVE:MISSING_RANK; met"),
        ("expect: {explored: {class: HANG}}\n", "violated, HANG; met"),
        ("expect: {class: CRASH}\n", "violated, CRASH; NOT met: expected a finding of class CRASH, got HANG:"),
        ("expect: {explored: proven}\n", "proven; NOT met: expected proven, got violated"),
        ("", "held; NOT met: expected held, got violated"),
    ],
)
def test_small_worlds_expect_what_base_expects(broken: Path, expect: str, line: str) -> None:
    """Each small world keeps a planted fault if its rank exists, and expects what the scenario expects, without the
    culprit.
    """
    file = write(broken, broken.read_text() + expect)
    answer = dpsim_("explore", file, "--all-up-to", "ranks=2,steps=4")
    assert answer.out.splitlines()[-1].startswith(f"expected: {line}")
    assert answer.code == (0 if line.endswith("; met") else 1)
    found = dpsim_("explore", file, "--all-up-to", "ranks=2,steps=4", "--json").json
    assert found["met"] is line.endswith("; met")


@pytest.mark.parametrize(
    ("expect", "line"),
    [
        ("{explored: proven}", "proven; met"),
        ("{verdict: violated}", "violated; NOT met: expected violated, got proven"),
    ],
)
def test_healthy_small_worlds_meet_or_miss_the_expectation(healthy: Path, expect: str, line: str) -> None:
    file = write(healthy, healthy.read_text() + f"expect: {expect}\n")
    answer = dpsim_("explore", file, "--all-up-to", "ranks=2,steps=1")
    assert answer.out.splitlines()[-1] == f"expected: {line}"


def test_a_proof_can_be_expected() -> None:
    """A scenario may expect a proof. If the budget ends before the proof, the expectation is not met."""
    file = write(Path("p.yaml"), scenario("t_look", 3) + "expect: {explored: proven}\n")
    words = ("explore", file, "--module", "tests.cli.protocols")
    answer = dpsim_(*words)
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "expected: proven; met")
    answer = dpsim_(*words, "--schedules", "1")
    assert (answer.code, answer.out.splitlines()[-1]) == (1, "expected: proven; NOT met: expected proven, got sampled")


def test_a_scenario_may_expect_other_results_of_explore_than_of_run() -> None:
    """A scenario may expect another result of `explore` than of `run`. The last line prints the expected culprit."""
    expect = "expect: {verdict: violated, explored: {class: HANG, culprit: {rank: 0, step: 7}}}\n"
    file = write(Path("p.yaml"), scenario("t_lost", 3) + expect)
    assert dpsim_("run", file, "--module", "tests.cli.protocols").code == 0
    answer = dpsim_("explore", file, "--module", "tests.cli.protocols")
    assert answer.code == 1
    assert answer.out.splitlines()[-1].startswith("expected: violated, HANG, culprit rank 0 in step 7; NOT met: ")
