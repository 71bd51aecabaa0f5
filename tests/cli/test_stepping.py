"""Tests `dpsim replay` with --until, --break and --step, and a user who quits pdb."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsim.campaign.rank_state import look_of
from dpsim.campaign.stepping import Stepping, break_address
from dpsim.cli.app import app
from dpsim.contract.ops import Ask, Record, Stored, Take
from dpsim.contract.words import BadInput
from dpsim.sim.onlooker import onlooker
from tests.agreeing import HEALTHY, SKIP
from tests.cli.commands import Answer, dpsim_, process, write
from tests.cli.protocols import scenario

MODULE = ("--module", "tests.cli.protocols")


def typed(words: str, *command: str) -> Answer:
    """Runs a command whose user types these words."""
    result = CliRunner().invoke(app, [*command], input=words, prog_name="dpsim")
    assert onlooker() is None
    return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def trace() -> str:
    """The trace of a run in which rank 1 leaves out its agreement of step 2."""
    write(Path("x.yaml"), HEALTHY + SKIP)
    dpsim_("run", "x.yaml", "--trace", "x.jsonl")
    return "x.jsonl"


def test_a_run_stops_before_a_step(trace: str) -> None:
    answer = dpsim_("replay", trace, "--until", "1")
    first, *lines = answer.out.splitlines()
    assert (answer.code, answer.err, first) == (0, "", "stopped before step 1")
    assert lines[0].startswith("rank 0  step 1: waits in world_cpu #1, for ranks 1, 2")
    assert all("step 2" not in line for line in lines)


def test_until_names_a_step_that_no_rank_reaches(trace: str) -> None:
    answer = dpsim_("replay", trace, "--until", "99")
    assert answer.err == "dpsim: --until: no rank reached step 99\n"
    assert "the same run again" in answer.out


def test_the_debugger_stops_in_the_program_and_shows_every_rank(trace: str) -> None:
    words = "ranks\nrank 2 rank.step\nrank 7\nrank 0\np rank.rank, rank.step\nc\n"
    answer = typed(words, "replay", trace, "--break", "rank 1 dp.agree[1]")
    assert answer.code == 0
    assert "tests/agreeing.py" in answer.out
    assert answer.out.count("ranks 0, 1  step 1: wait in world_cpu #1, for rank 2") == 2
    assert "(1, 1)" in answer.out
    assert "*** 7: no such rank; expected rank N [EXPRESSION]" in answer.out
    assert "prepared = " in answer.out
    assert answer.out.endswith("the same run again\n")
    assert "dpsim/sim" not in answer.out


def test_the_debugger_says_that_a_rank_has_not_started(trace: str) -> None:
    answer = typed("rank 2 mail\nc\n", "replay", trace, "--break", "rank 0 dp.agree[0]")
    assert "*** rank 2 has not started; expected rank N [EXPRESSION]" in answer.out


def test_a_rank_without_a_frame_has_ended_or_has_not_started() -> None:
    async def program() -> None: ...

    looks, ended, fresh = Stepping(), program(), program()
    looks.programs = [ended, fresh]
    ended.close()
    assert [looks.without_frame(rank) for rank in range(3)] == ["has ended", "has not started", ""]
    fresh.close()


def test_the_run_is_another_one_if_the_user_changes_something(trace: str) -> None:
    """If the user changes a step in the debugger, the run differs from the recorded one."""
    answer = typed("!rank.step = 5\nc\n", "replay", trace, "--break", "rank 0 dp.agree[1]")
    assert answer.code == 1
    assert "NOT the same run" in answer.out


@pytest.mark.parametrize("words", ["q\n", "n\nq\n"])
def test_quitting_ends_the_command_in_one_line(trace: str, words: str) -> None:
    """pdb ends the run in a call of the program, or in the trace function."""
    answer = typed(words, "replay", trace, "--break", "dp.agree[1]")
    assert answer.code == 130
    assert answer.err == "dpsim: quit from the debugger, without a result\n"
    assert "GeneratorExit" not in answer.out + answer.err
    assert "VIOLATED" not in answer.out


def test_a_step_into_a_call_stays_in_the_program(trace: str) -> None:
    """The debugger does not step into code of dpsim, where it has no line of the program to show."""
    answer = typed("s\n" * 6 + "q\n", "replay", trace, "--break", "dp.agree[1]")
    assert answer.code == 130
    assert "dpsim/sim" not in answer.out
    assert not [word for word in ("Error", "GeneratorExit", "Traceback") if word in answer.out + answer.err]


@pytest.mark.parametrize("words", ["r\nn\nn\n", "n\n" * 12, "s\n" * 12, "r\nr\n", "r\nc\n"])
def test_the_debugger_ends_where_the_program_returns(words: str) -> None:
    """pdb's own rules stop in a frame of dpsim, which has no line of the program, so pdb itself raises IndexError."""
    write(Path("x.yaml"), HEALTHY)
    dpsim_("run", "x.yaml", "--trace", "x.jsonl")
    answer = typed(words, "replay", "x.jsonl", "--break", "rank 2 experts.read[5]")
    assert (answer.code, answer.err) == (0, "")
    assert "--Return--\n" in answer.out
    assert "run()->None\n" in answer.out
    assert ("run() has returned, so pdb ends" in answer.out) == (words[-2] in "ns")
    assert "StopIteration" not in answer.out
    assert answer.out.endswith("the same run again\n")


def test_stepping_over_a_return_stops_in_the_caller(trace: str) -> None:
    """After the return of `told`, `n` stops in its caller. `rank 1` shows the rank at the breakpoint."""
    write(
        Path("mine.py"),
        "from dpsim.contract.registry import register_protocol\n"
        "from tests.sized import SizedProgram\n\n"
        '@register_protocol("t_helped")\n'
        "class Helped(SizedProgram):\n"
        "    async def run(self, rank, prepared):\n"
        "        rank.step = 0\n"
        "        size = await self.told(rank)\n"
        "        if rank.rank == 1:\n"
        "            rank.step = 1\n\n"
        "    async def told(self, rank):\n"
        '        await rank.host("world").barrier(site="all")\n'
        "        return 7\n",
    )
    write(Path("y.yaml"), scenario("t_helped", 2))
    dpsim_("run", "y.yaml", "--module", "mine.py", "--trace", "y.jsonl")
    words = "n\nn\nn\nb mine.py:10\nc\nrank 1 rank.rank, size\ncl 1\nc\n"
    answer = typed(words, "replay", "y.jsonl", "--module", "mine.py", "--break", "rank 0 all[0]")
    assert "told()->7\n" in answer.out
    assert "mine.py(10)run()\n-> rank.step = 1\n" in answer.out
    assert "(1, 7)" in answer.out
    assert sys.gettrace() is None
    assert answer.out.endswith("the same run again\n")


def test_break_names_the_last_op_if_the_run_does_not_make_the_given_one(trace: str) -> None:
    """Rank 1 leaves out this op, so the error names its last op, and that address works."""
    answer = dpsim_("replay", trace, "--break", "rank 1 dp.agree[2]")
    last = "'rank 1 experts.read[2]'"
    assert answer.err == f"dpsim: --break: the run made no op at rank 1 dp.agree[2]; its last op is at {last}\n"
    assert (answer.code, answer.out) == (2, "")
    assert typed("c\n", "replay", trace, "--break", last.strip("'")).code == 0


def test_break_suggests_the_site_for_a_misspelt_one(trace: str) -> None:
    """Rank 1 has ops at `dp.agree`. The twin spells the site correctly, and gets its last op."""
    for words in ("dp.agre", "rank 1 dp.agre[1]"):
        answer = dpsim_("replay", trace, "--break", words)
        assert answer.err == f"dpsim: --break: the run made no op at {words}; did you mean 'dp.agree'?\n"
    assert "did you mean" not in dpsim_("replay", trace, "--break", "rank 1 dp.agree[2]").err


def test_the_banner_names_the_rank_and_the_call_in_which_pdb_stops(trace: str) -> None:
    """The positions show a rank past its call if no rank is missing there, so the banner says where pdb is."""
    stop = "pdb stops in rank {}: the rank has issued this call, and the call has not returned"
    last = typed("c\n", "replay", trace, "--break", "rank 2 dp.agree[1]").out.splitlines()
    assert "ranks 0 to 2  step 1: are past dp.agree[1], and may continue" in last
    assert stop.format("2 dp.agree[1]") in last
    first = typed("c\n", "replay", trace, "--break", "dp.agree").out.splitlines()
    assert "ranks 1, 2  are before their first op, and may continue" in first
    assert stop.format("0 dp.agree[0]") in first


@pytest.mark.parametrize("words", ["", "rank x y z", "a b c[1]", "dp.agree[x]"])
def test_break_refuses_words_that_are_no_address_of_an_op(words: str) -> None:
    with pytest.raises(BadInput, match="no address of an op"):
        break_address(words)


def test_a_wrong_option_of_stepping_is_bad_input(trace: str) -> None:
    for words in (("--break", "a b c"), ("--step", "--json"), ("--until", "-1")):
        answer = dpsim_("replay", trace, *words)
        assert answer.code == 2
        assert answer.out.count("\n") == ("--json" in words), "stdout has the JSON object of the error, or nothing"


def test_each_choice_is_printed_with_its_waiting_ranks() -> None:
    write(Path("t_lost.yaml"), scenario("t_lost", 3))
    dpsim_("explore", "t_lost.yaml", *MODULE)
    (path,) = Path(".dpsim").iterdir()
    answer = dpsim_("replay", str(path), "--step", *MODULE)
    choices = [line for line in answer.out.splitlines() if line.startswith("choice ")]
    assert [line.partition(":")[0] for line in choices] == [f"choice {number} of 4" for number in range(1, 5)]
    assert "  rank 0  step 0: waits in other" in answer.out
    assert answer.out.splitlines()[-1] == "replayed along 4 choices: the same run again"


def test_a_look_never_waits_and_says_what_it_took() -> None:
    """A rank at a poll is never shown as waiting, and the output prints the poll's result. A rank in a get after the
    polls is shown as waiting.
    """
    write(Path("t_lost.yaml"), scenario("t_lost", 2))
    dpsim_("explore", "t_lost.yaml", *MODULE)
    (path,) = Path(".dpsim").glob("*.jsonl")
    out = dpsim_("replay", str(path), "--step", *MODULE).out
    assert "  rank 0  step 0: is at poll second[0]\n" in out
    assert "  rank 0  step 0: waits in other" in out
    assert "waits in box" not in out
    assert ": rank 0 first[0], and found nothing  (also possible: rank 1 delivers wake[0])\n" in out


@pytest.mark.parametrize(
    ("record", "look"),
    [
        (Take("take", 0, "main", "at", 0, "", "box", "poll"), "box"),
        (Take("take", 0, "main", "at", 0, "", "box", "get", 0), "box"),
        (Take("take", 0, "main", "at", 0, "", "box", "get", 5), ""),
        (Take("take", 0, "main", "at", 0, "", "box", "get"), ""),
        (Stored("store", 0, "main", "at", 0, "", 0, 80, "get", "k", 0), "key k"),
        (Stored("store", 0, "main", "at", 0, "", 0, 80, "get", "k", None), ""),
        (Stored("store", 0, "main", "at", 0, "", 0, 80, "set", "k", 0), ""),
        (Ask("ask", 0, "main", "at", 0, "", "query", 1), "at"),
        (Ask("ask", 0, "main", "at", 0, "", "synchronize", 1), ""),
    ],
)
def test_each_kind_of_record_is_a_look_or_none(record: Record, look: str) -> None:
    assert look_of(record) == look


def test_a_trace_without_a_schedule_has_no_choices(trace: str) -> None:
    answer = dpsim_("replay", trace, "--step")
    assert answer.err.startswith("dpsim: --step: the trace has no schedule")
    assert "at the end of the run:\n  ranks 0, 2  step 2: wait in world_cpu #2, for rank 1\n" in answer.out


def test_a_run_without_choices_says_so_and_shows_its_end(trace: str) -> None:
    """The twin has choices and no such line."""
    dpsim_("explore", "x.yaml")
    (path,) = Path(".dpsim").glob("*.jsonl")
    answer = dpsim_("replay", str(path), "--step")
    assert answer.err == "dpsim: --step: the run has no choice, because in each state at most one event was possible\n"
    first, *stand = answer.out.splitlines()
    assert first == "at the end of the run:"
    assert stand[0] == "  ranks 0, 2  step 2: wait in world_cpu #2, for rank 1"
    assert "--until STEP shows the ranks before that step, and --break ADDRESS opens pdb at an op" in stand
    write(Path("t_lost.yaml"), scenario("t_lost", 3))
    dpsim_("explore", "t_lost.yaml", *MODULE)
    (path,) = Path(".dpsim").glob("t_lost*.jsonl")
    twin = dpsim_("replay", str(path), "--step", *MODULE)
    assert twin.err == ""
    assert "at the end of the run" not in twin.out


@pytest.mark.slow
@pytest.mark.parametrize("words", ["q\n", "n\n" * 12 + "q\n", "s\n" * 12 + "q\n"])
def test_breakpoint_in_a_protocol_and_quitting_leave_no_noise(words: str) -> None:
    write(
        Path("mine.py"),
        "import numpy as np\n"
        "from dpsim.contract.registry import register_protocol\n"
        "from tests.sized import SizedProgram\n\n"
        '@register_protocol("t_stops")\n'
        "class Stops(SizedProgram):\n"
        "    async def run(self, rank, prepared):\n"
        "        rank.step = 0\n"
        "        if rank.rank:\n"
        "            breakpoint()\n"
        '            await rank.mailbox("box").get("never")\n',
    )
    write(Path("x.yaml"), scenario("t_stops", 2))
    done = process("run", "x.yaml", "--module", "mine.py", input=words)
    assert done.returncode in (130, 1)
    assert "GeneratorExit" not in done.stdout + done.stderr
    assert "BDBQUIT" not in done.stdout
    assert done.stdout.count('-> await rank.mailbox("box").get("never")') <= 1 + words.count("n")
