"""`dpsim explore` of sets of worlds: which worlds a limit cut short, and the command that goes on."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign import lone_ranks, processes, whole
from dpsim.campaign import units as units_module
from dpsim.campaign.cut_short import Limit
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, UnitResult
from dpsim.cli import explore as explore_command
from dpsim.cli import explore_again
from dpsim.cli.explore_again import TypedCommand
from dpsim.scenario import parse_scenario
from tests.agreeing import SKIP
from tests.cli.commands import HEALTHY, Answer, dpsim_, write
from tests.cli.protocols import scenario

MODULE = ("--module", "tests.cli.protocols")
NEXT = re.compile(r"^next +dpsim (.*)$", re.MULTILINE)


def explore(name: str, *words: str | Path, ranks: int = 2, more: str = "") -> Answer:
    write(Path(f"{name}.yaml"), scenario(name, ranks, more))
    return dpsim_("explore", f"{name}.yaml", *MODULE, *words)


def next_of(answer: Answer) -> list[str]:
    """The words of the suggested command."""
    found = NEXT.search(answer.out)
    return [] if found is None else shlex.split(found[1])


def test_worlds_that_too_few_schedules_cut_short() -> None:
    answer = explore("t_look", "--all-up-to", "ranks=3", "--schedules", "2", "--strategy", "dpor", "--off", "RACE:*")
    lines = answer.out.splitlines()
    assert lines[0] == "SAMPLED  no failure; 1 proven, 2 sampled"
    named = "the first one is world 2, as the scenario has it"
    assert f"sampled   2 worlds, ended by --schedules 2; --full lists all; {named}" in lines
    assert lines[-1] == "expected: held; met (`expect: {explored: proven}` would demand a proof)"
    assert lines[-2] == f"next      dpsim {shlex.join(next_of(answer))}"
    assert next_of(answer)[:2] == ["explore", "t_look.yaml"]
    again = dpsim_(*next_of(answer))
    assert again.out.startswith("PROVEN  every one of these worlds holds in every schedule\n"), (
        "the recommended command continues until the proof"
    )
    assert next_of(again) == []
    assert again.out.endswith("\nexpected: held; met\n"), "a proof needs no hint"


def test_the_same_as_json() -> None:
    words = ("--all-up-to", "ranks=3", "--schedules", "2", "--strategy", "dpor", "--json")
    [row] = explore("t_look", *words).json["scenarios"]
    [cut] = row["cut_short"]
    world = parse_scenario(cut.pop("first_scenario").encode(), "cut", Path())
    assert cut.pop("all") == [
        {"world": 2, "params": {"ranks": 2}, "differs": ""},
        {"world": 3, "params": {"ranks": 3}, "differs": "params: {ranks: 3}"},
    ]
    assert cut == {"limit": "schedules", "reason": "ended by --schedules 2", "begun": True, "worlds": 2, "first": 2}
    assert world.protocol.plain_params == {"ranks": 2}
    assert (row["verdict"], row["met"], row["unmet"], row["not_varied"]) == ("sampled", True, None, [])
    [command] = row["next"]
    [row] = dpsim_(*shlex.split(command)[1:]).json["scenarios"]
    assert (row["verdict"], row["cut_short"], row["next"]) == ("proven", [], [])


def test_full_names_each_world_that_a_limit_cut_short() -> None:
    """Without `--full`, only the first one has a line, and the line mentions `--full`."""
    words = ("--all-up-to", "ranks=3", "--schedules", "2", "--strategy", "dpor")
    named = "          world 3, params: {ranks: 3}"
    whole = explore("t_look", *words, "--full").out
    assert named in whole.splitlines()
    assert "lists all" not in whole
    assert "world 3" not in explore("t_look", *words).out


def test_the_probes_that_a_program_does_not_declare() -> None:
    """A variant may have undeclared probes. `probes` counts the worlds that reached them. The twin declares all."""
    words = ("t_nothing", "--all-up-to", "ranks=2")
    assert "probes    here in 2 worlds" in explore(*words).out.splitlines()
    assert explore(*words, "--json").json["scenarios"][0]["probes"] == {"here": 2}
    assert "probes     none declared; reached: here" in explore("t_nothing").out.splitlines()
    answer = explore("t_look", "--all-up-to", "ranks=2")
    assert "probes    early in 1 world, late in 2 worlds; never: never" in answer.out.splitlines()


def test_worlds_that_the_time_did_not_reach() -> None:
    answer = explore("t_look", "--all-up-to", "ranks=3", "--budget", "0s", "--schedules", "7")
    assert answer.out.splitlines()[0] == "SAMPLED  no failure; 3 not begun"
    assert "not begun  3 worlds, ended by --budget 0s; --full lists all; the first one is world 1" in answer.out
    assert next_of(answer)[2:] == [
        *("--schedules", "7", "--budget", "10s", "--all-up-to", "ranks=3"),
        *(*MODULE, "--strategy", "dpor"),
    ]


def test_worlds_that_were_not_begun_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result names at most `LISTED` of them, because a set may have millions. The twin names all three."""
    words = ("--all-up-to", "ranks=3", "--budget", "0s")
    [cut] = explore("t_look", *words, "--json").json["scenarios"][0]["cut_short"]
    named = [(one["world"], one["differs"]) for one in cut["all"]]
    assert named == [(1, "params: {ranks: 1}"), (2, ""), (3, "params: {ranks: 3}")]
    lines = explore("t_look", *words, "--full").out.splitlines()
    assert (
        lines[lines.index("           world 2, as the scenario has it") + 1] == "           world 3, params: {ranks: 3}"
    )
    monkeypatch.setattr(whole, "LISTED", 2)
    lines = explore("t_look", *words, "--full").out.splitlines()
    assert lines[lines.index("           world 2, as the scenario has it") + 1] == "           and 1 further world"
    assert "further" not in explore("t_look", *words).out


def test_a_default_number_of_schedules_is_no_option_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a portfolio stays at this number whatever the budget, so the command begins anew with DPOR. The
    twin gives the number, and goes on in the same folder.
    """
    monkeypatch.setattr(explore_command, "SCHEDULES", 1)
    answer = explore("t_look", "--all-up-to", "ranks=2", "--work", "night")
    assert "\nsampled   1 world, ended by 1 schedule, the default of --schedules; the first one is" in answer.out
    assert next_of(answer)[2:] == [
        *("--all-up-to", "ranks=2", "--work", "night-dpor", *MODULE, "--schedules", "10", "--strategy", "dpor")
    ]
    assert dpsim_(*next_of(answer)).out.startswith("PROVEN")
    [row] = explore("t_look", "--all-up-to", "ranks=2", "--json").json["scenarios"]
    assert row["cut_short"][0]["reason"] == "ended by 1 schedule, the default of --schedules"
    answer = explore("t_look", "--all-up-to", "ranks=2", "--schedules", "1", "--work", "day")
    assert "\nsampled   1 world, ended by --schedules 1; the first" in answer.out
    assert next_of(answer)[-2:] == ["--resume", "day"]


def test_the_recommended_command_resumes_a_work_folder_with_its_strategy() -> None:
    """A twin without this rule would suggest a strategy that the folder refuses."""
    answer = explore("t_look", "--all-up-to", "ranks=2", "--schedules", "1", "--work", "night")
    assert next_of(answer)[-2:] == ["--resume", "night"]
    assert "--strategy" not in next_of(answer)
    again = dpsim_(*next_of(answer))
    assert (again.code, again.err, again.out.split()[0]) == (0, "", "PROVEN")
    refused = dpsim_(*next_of(answer), "--strategy", "dpor")
    assert refused.err == "dpsim: night: has the work of another strategy: portfolio; this is dpor\n"


def test_a_suggested_folder_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of an earlier exploration has the first name, and a file has the second one. The twin, a command with
    the first name, is refused.
    """
    monkeypatch.setattr(explore_command, "SCHEDULES", 1)
    set_of_two = ("t_look", "--all-up-to", "ranks=2")
    explore(*set_of_two, "--work", "night-dpor")
    write(Path("night-dpor-2"), "a file")
    command = next_of(explore(*set_of_two, "--work", "night"))
    assert command[command.index("--work") + 1] == "night-dpor-3"
    assert dpsim_(*command).out.startswith("PROVEN")
    twin = dpsim_(*["night-dpor" if word == "night-dpor-3" else word for word in command])
    assert (twin.code, twin.out) == (2, "")
    interrupt_after(2, monkeypatch)
    Path("t_look-work").mkdir()
    assert "t_look-work-2" in next_of(explore("t_look", "--all-up-to", "ranks=3", ranks=3))


def test_a_folder_of_two_scenarios_is_resumed_with_both() -> None:
    """The twin, a command with one of them, is refused."""
    for name in ("t_look", "t_cross"):
        write(Path(f"{name}.yaml"), scenario(name, 2))
    both = ("t_look.yaml", "t_cross.yaml")
    command = next_of(dpsim_("explore", *both, *MODULE, "--schedules", "1", "--work", "night"))
    assert command[1:3] == [*both]
    assert dpsim_(*command).err == ""
    assert dpsim_(command[0], *command[2:]).err.startswith("dpsim: night: has the work of another scenario")


def interrupt_after(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets Ctrl-C arrive in the unit after this number of them."""
    left = iter(range(units, -1, -1))

    def until(*given: Any) -> UnitResult:
        if not next(left):
            raise KeyboardInterrupt
        return units_module.do(*given)

    monkeypatch.setattr(processes, "do", until)


def test_an_interrupted_set_prints_its_open_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C prints what a limit does. Its command saves the results, and the next one goes on with them. The twin, an
    interrupt in the first unit, has no result.
    """
    interrupt_after(2, monkeypatch)
    answer = explore("t_look", "--all-up-to", "ranks=3", ranks=3)
    lines = answer.out.splitlines()
    assert lines[0] == "SAMPLED  no failure; 1 proven, 1 sampled, 1 not begun"
    assert {
        "explored   2 worlds in 2 schedules, smaller ones first",
        "sampled    1 world, ended by the interrupt; the first one is world 2, params: {ranks: 2}",
        "not begun  1 world, ended by the interrupt; the first one is world 3, as the scenario has it",
    } < {*lines}
    said = "dpsim: interrupted; sampled: explored 2 of 3 worlds, 2 schedules, no failure\n"
    assert (answer.code, answer.err) == (130, said)
    assert next_of(answer)[-4:] == ["--work", "t_look-work", "--strategy", "dpor"]
    interrupt_after(2, monkeypatch)
    again = dpsim_(*next_of(answer))
    assert (again.out.splitlines()[0], next_of(again)[-2:]) == (lines[0], ["--resume", "t_look-work"])
    interrupt_after(100, monkeypatch)
    assert dpsim_(*next_of(again)).out.startswith("PROVEN")
    interrupt_after(0, monkeypatch)
    assert explore("t_look", "--all-up-to", "ranks=3").out == ""


def test_an_interrupted_set_prints_the_world_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """World 2 fails, and Ctrl-C arrives in world 3, which the explorer gives out together with it."""

    def until(unit: Unit, *given: Any) -> UnitResult:
        if unit.subject == 2:
            raise KeyboardInterrupt
        return units_module.do(unit, *given)

    monkeypatch.setattr(processes, "do", until)
    answer = explore("t_second", "--all-up-to", "ranks=3", "--strategy", "dpor")
    assert answer.out.startswith("VIOLATED  world 2 of 3, and no smaller one:\n")
    assert "VIOLATED  CRASH:ASSERTIONERROR" in answer.out
    said = "dpsim: interrupted; violated: explored 2 of 3 worlds, "
    assert (answer.code, answer.err.startswith(said)) == (130, True)


def test_a_strategy_that_proves_nothing() -> None:
    answer = explore("t_look", "--all-up-to", "ranks=2", "--strategy", "fifo")
    said = "sampled   2 worlds, because --strategy fifo proves nothing; --full lists all; the first one is world 1"
    assert f"\n{said}" in answer.out
    assert dpsim_(*next_of(answer)).out.startswith("PROVEN")


def cut_after(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets dpsim cut off runs of more steps."""
    of = Subject.of
    monkeypatch.setattr(Subject, "of", staticmethod(lambda *given: replace(of(*given), longest=longest)))


def test_worlds_without_any_judged_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold no more than a single one does. The twin, a longer bound, judges them."""
    cut_after(50, monkeypatch)
    for words in ((), ("--all-up-to", "ranks=1")):
        answer = explore("t_polls_often", *words, ranks=1)
        assert answer.code == 1
        assert answer.out.splitlines()[-1].startswith("expected: held; NOT met: no schedule was judged")
    cut_after(5_000, monkeypatch)
    answer = explore("t_polls_often", "--all-up-to", "ranks=1")
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "expected: held; met")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "3 of 4 schedules did not end within 150 choices, and kept no event waiting"),
        (("--all-up-to", "ranks=1"), "1 world had schedules that did not end, and kept no event waiting"),
    ],
)
def test_a_schedule_that_does_not_end(words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty rank works without end if no message came before its first look. The twin ends soon."""
    cut_after(150, monkeypatch)
    for faulty in (True, False):
        name = "t_works_on" if faulty else "t_works_once"
        answer = explore(name, *words, "--strategy", "dpor", "--schedules", "4", ranks=1)
        last = answer.out.splitlines()[-1]
        assert (answer.code, "NOT met: " in last, said in last) == ((1, True, True) if faulty else (0, False, False))


def test_runs_that_never_end_have_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """No option goes on there. The twin suggests one."""
    cut_after(50, monkeypatch)
    answer = explore("t_polls_often", "--all-up-to", "ranks=1")
    assert answer.out.startswith("BOUNDED  no failure; 1 bounded\n")
    said = (
        "bounded   1 world, in which dpsim cut runs off after 50 choices; the first one is world 1, params: {ranks: 1}"
    )
    assert said in answer.out.splitlines()
    assert next_of(answer) == []
    monkeypatch.setattr(explore_again, "NO_OPTION_HELPS", frozenset({""}))
    assert next_of(explore("t_polls_often", "--all-up-to", "ranks=1")) != []


def test_a_single_world() -> None:
    answer = explore("t_look", "--schedules", "1", "--strategy", "random", "--seed", "3", ranks=3)
    assert next_of(answer) == [
        *("explore", "t_look.yaml", "--strategy", "dpor", "--schedules", "10", "--seed", "3", *MODULE)
    ]
    row = explore("t_look", "--schedules", "1", "--json", ranks=3).json["scenarios"][0]
    assert (row["limit"], len(row["next"])) == ("schedules", 1)
    row = explore("t_look", "--json", ranks=3).json["scenarios"][0]
    assert (row["limit"], row["next"]) == (None, [])


def test_each_of_several_scenarios_has_its_command() -> None:
    for name in ("t_look", "t_cross"):
        write(Path(f"{name}.yaml"), scenario(name, 2))
    answer = dpsim_("explore", "t_cross.yaml", "t_look.yaml", *MODULE, "--schedules", "1", "--strategy", "dpor")
    named = [shlex.split(words)[1] for words in NEXT.findall(answer.out)]
    assert named == [one for one in ("t_cross.yaml", "t_look.yaml") if f"scenario   {one[:-5]}\n" in answer.out]
    assert "t_look.yaml" in named


@pytest.mark.parametrize(
    ("options", "scenarios", "limits", "said"),
    [
        ({}, ["a.yaml", "b c.yaml"], {"schedules"}, "dpsim explore 'b c.yaml' --schedules 20 --strategy dpor"),
        ({"budget": ["--budget", "1m"]}, ["a", "b"], {"budget"}, "dpsim explore b --budget 10m --strategy dpor"),
        ({"torch": ["--torch", "t.py"]}, ["--x"], {"schedules"}, None),
        ({}, ["a", "b"], {"memory", "length", ""}, ""),
        ({}, ["a", "-"], {"schedules"}, "dpsim explore - --schedules 20 --strategy dpor < SCENARIO.yaml"),
        ({}, ["-", "b"], {"schedules"}, "dpsim explore b --schedules 20 --strategy dpor"),
        ({}, ["a", "-"], {"interrupt"}, "dpsim explore - --work search-work --strategy dpor < SCENARIO.yaml"),
    ],
)
def test_the_words_of_a_command(
    options: dict[str, list[str]], scenarios: list[str], limits: set[Limit], said: str | None
) -> None:
    from dpsim.campaign.files import Options

    found = TypedCommand(options, scenarios).goes_on(1, limits, Options(schedules=2, seconds=60.0))
    torch = "dpsim explore --torch t.py --schedules 20 --strategy dpor -- --x"
    assert found == (torch if said is None else said)


def test_explore_assumes_no_shared_objects_where_ranks_never_ran_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin runs ranks alone in all worlds, each with one class of schedules, and assumes nothing."""
    account = lone_ranks.Account()
    monkeypatch.setattr(lone_ranks, "ACCOUNT", account)
    account.alone = 1_000.0  # more than a tenth of the time
    words = ("explore", write(Path("x.yaml"), HEALTHY), "--all-up-to", "ranks=2,steps=1")
    answer = dpsim_(*words)
    assert "; ranks share no Python object: checked in 1 of 2 worlds; " in answer.out.splitlines()[1]
    assert "ranks share no Python object: checked in 0 of 2 worlds" in dpsim_(*words, "--json").out
    account.explored = 1e9
    answer = dpsim_(*words)
    assert "Python object" not in answer.out.splitlines()[1]
    assert "alone     each rank ran again in its own process in 2 of 2 worlds" in answer.out


def test_explore_assumes_no_shared_objects_where_some_pasts_ran_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin runs ranks alone for all pasts of all worlds, and assumes nothing."""
    account = lone_ranks.Account()
    monkeypatch.setattr(lone_ranks, "ACCOUNT", account)
    account.explored = 1e9
    words = ("t_look", "--all-up-to", "ranks=2")
    assert "Python object" not in explore(*words).out.splitlines()[1]
    monkeypatch.setattr(lone_ranks.Looking, "allowed", lambda looking: not looking.ran)  # one schedule
    assumed = explore(*words).out.splitlines()[1]
    assert assumed.endswith("; ranks share no Python object: checked for some pasts of each world")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--strategy", "dpor"), "VIOLATED  world 3 of 3, and no smaller one:"),
        (
            ("--strategy", "fifo"),
            "VIOLATED  world 3 of 3; of the smaller ones, 0 hold in every schedule and 2 in those that ran:",
        ),
    ],
)
def test_the_first_world_that_fails_after_worlds_that_a_limit_cut_short(words: tuple[str, ...], said: str) -> None:
    """Only where all smaller worlds were explored whole, the verdict says that none fails."""
    answer = explore("t_third", "--all-up-to", "ranks=3", *words)
    assert answer.out.splitlines()[0] == said


def test_keep_going_counts_the_schedules_that_fail() -> None:
    """A search that stops at the first failure says nothing about the rest, so it prints no number."""
    words = ("--strategy", "random", "--schedules", "30")
    found = explore("t_lost", *words, "--keep-going", "--json").json["scenarios"][0]
    seen = sum(one["seen"] for one in found["failures"])
    assert f"failing   {seen} of 30 schedules fail" in explore("t_lost", *words, "--keep-going").out.splitlines()
    assert "failing" not in explore("t_lost", *words).out
    write(Path("x.yaml"), HEALTHY + SKIP)
    assert "failing   1 of 1 schedule fails" in dpsim_("explore", "x.yaml", "--keep-going").out.splitlines()
