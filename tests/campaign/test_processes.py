"""Tests explorations over several processes. They find the same verdicts, failures and classes as one process. A worker
process that dies loses only its unit, which another one repeats.
"""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign import plans, unit_process
from dpsim.campaign import processes as parallel
from dpsim.campaign import subject as exploration
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, do
from dpsim.checks.classes import class_and_detail, row_of
from dpsim.checks.expected import Expected
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import World
from tests.trouble import from_outside
from tests.worlds.cases import CASES

pytestmark = pytest.mark.runs_once  # these programs count their runs or end their process

PROVEN = ["wake_pause 2x2", "dp_wave_skip 2x2", "deep_bracket 0 decoys gap 1", "kill host 2x4", "agreement host 2x3"]
BROKEN = ["wake_pause 2x2 bug", "dp_wave_skip 2x2 bug", "kill host 2x4 bug", "agreement host 2x3 bug"]


def subjects(names: list[str]) -> list[Subject]:
    cases = [CASES[name] for name in names]
    return [Subject(one.world, one.program, one.args, one.tolerated, one.name) for one in cases]


def stable_results(found: list[Explored]) -> list[Any]:
    """Returns the results that must not depend on the number of processes."""
    found_of = [one.exploration for one in found]
    failures = [{(each.fingerprint, each.seen) for each in one.failures.values()} for one in found_of]
    return [(one.verdict, one.classes, failed) for one, failed in zip(found_of, failures, strict=True)]


@pytest.mark.parametrize("names", [PROVEN, BROKEN], ids=["proven", "broken"])
def test_two_processes_find_what_one_does(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "UNIT_STEPS", 40)  # many units
    one = explore_all(subjects(names), "dpor", jobs=1, stop_at_first=False)
    two = explore_all(subjects(names), "dpor", jobs=2, stop_at_first=False)
    assert stable_results(one) == stable_results(two)
    assert [each.verdict for each in one] == ["proven" if names is PROVEN else "violated"] * len(names)
    assert all(each.confirmed for each in two)


def test_units_together_have_the_schedules_of_the_whole() -> None:
    """An exploration in units finds the same as DPOR without units."""
    for subject, found in zip(subjects(PROVEN), explore_all(subjects(PROVEN), "dpor"), strict=True):
        whole = explore_subject(subject, "dpor").exploration
        counts = [(one.runs, len(one.classes), one.redundant, one.steps) for one in (whole, found.exploration)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("strategy", ["random", "pct", "pos"])
def test_the_seed_gives_the_schedules_and_not_the_clock(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def classes(jobs: int, seed: int) -> list[Any]:
        names = ["deep_bracket 1 decoys gap 1", "wake_pause 2x3"]
        return stable_results(explore_all(subjects(names), strategy, jobs=jobs, schedules=40, seed=seed))

    quick = classes(1, 3)
    monkeypatch.setattr(plans, "UNIT_STEPS", 1)
    assert classes(1, 3) == classes(2, 3) == quick
    assert strategy == "pct" or classes(1, 4) != quick


def test_the_limit_is_kept() -> None:
    for strategy, most in (("dpor", 30), ("random", 30), ("portfolio", 60), ("fifo", 1)):
        (found,) = explore_all(subjects(["wake_pause 3x3"]), strategy, schedules=30)
        assert (found.verdict, found.exploration.runs) == ("sampled", most), strategy


def test_a_search_without_time_makes_no_runs() -> None:
    """The time is up before the exploration starts. No schedule runs, and the summary says so."""
    for jobs in (1, 2):
        (found,) = explore_all(subjects(["wake_pause 2x2"]), jobs=jobs, seconds=-1)
        assert found.summary() == "sampled: no schedule was judged; 0 schedules (0 classes)"


def test_time_ends_within_a_unit() -> None:
    """No run starts after the time is up, though the unit has eight."""
    (subject,) = subjects(["wake_pause 2x2"])
    part = do(Unit(0, "dpor", 0, 8, True), subject, end=0.0)
    assert (part.exploration.runs, part.over) == (0, False)
    assert do(Unit(0, "dpor", 0, 8, True), subject).exploration.runs == 8


# ---- programs that depend on more than their schedule


class Acting(Program[Any]):
    """Calls a function once in each run, and then runs another program."""

    def __init__(self, inner: Program[Any], act: Callable[[], None]) -> None:
        self.inner = inner
        self.act = act

    async def run(self, rank: Rank, prepared: Any) -> None:
        if rank.rank == 0:
            self.act()
        await self.inner.run(rank, prepared)


def acting(act: Callable[[], None], name: str = "wake_pause 2x2") -> Subject:
    case = CASES[name]
    return Subject(case.world, Acting(case.program, act), case.args, case.tolerated, name)


def test_a_worker_that_dies_loses_its_unit_alone(tmp_path: Path) -> None:
    """A worker dies in its twentieth run, after it has completed units. Another worker takes over, and the result is
    the same.
    """
    runs = 0

    def die_once() -> None:
        nonlocal runs
        runs += 1
        if runs == 20 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            from_outside(signal.SIGKILL)

    (expected,) = explore_all(subjects(["wake_pause 2x3"]), "dpor", schedules=200)
    (found,) = explore_all([acting(die_once, "wake_pause 2x3")], "dpor", jobs=2, schedules=200)
    assert (tmp_path / "died").exists()
    assert stable_results([found]) == stable_results([expected])
    assert (found.verdict, found.exploration.runs) == (expected.verdict, expected.exploration.runs)


# ---- losses of processes, memory and files

ENDS_ITSELF = (
    "two processes ended over the same 1 schedule (dpor), the last by signal 9. Out of memory? Try fewer --jobs, or a "
    "smaller world"
)


def end_itself() -> None:
    from_outside(signal.SIGKILL)


def test_a_unit_that_ends_two_workers_is_no_verdict_and_the_others_are_explored() -> None:
    lost, other = explore_all([acting(end_itself), *subjects(["wake_pause 2x2"])], "dpor", jobs=2)
    assert (lost.verdict, lost.exploration.lost) == ("lost", ENDS_ITSELF)
    assert lost.summary() == f"lost: {ENDS_ITSELF}; 0 schedules (0 classes)"
    assert other.verdict == "proven"


@pytest.mark.parametrize("expected", [Expected(), Expected("violated"), Expected("violated", "HANG:*")], ids=str)
def test_a_lost_scenario_meets_no_expectation(expected: Expected) -> None:
    (lost,) = explore_all([replace(acting(end_itself), expected=expected)], "dpor", jobs=2)
    assert lost.unmet == f"lost: {ENDS_ITSELF}"


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(errno.ENOSPC, "full"), OSError(errno.EMFILE, "many")], ids=str
)
def test_an_earlier_finding_is_reported(
    error: Exception, jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ninth run finds no memory or disk space. The report contains a failure that was found before, and claims
    nothing about the rest.
    """
    monkeypatch.setattr(plans, "UNIT_STEPS", 1)  # each unit has one run
    runs = tmp_path / "runs"  # shared by all processes

    def exhaust() -> None:
        with runs.open("a") as file:
            file.write(".")
        if runs.stat().st_size > 8:
            raise error

    (whole,) = explore_all(subjects(["wake_pause 2x2 bug"]), "dpor", stop_at_first=False)
    (lost,) = explore_all([acting(exhaust, "wake_pause 2x2 bug")], "dpor", jobs=jobs, stop_at_first=False)
    assert whole.verdict == "violated"
    assert lost.verdict == "lost"
    assert 0 < lost.exploration.runs < whole.exploration.runs
    assert lost.failure is not None
    row = row_of(lost.failure.problem.klass)
    assert lost.report().startswith(f"VIOLATED  {class_and_detail(row.name)[0]}  {row.words}\n")


def test_a_system_error_of_a_program_is_a_finding() -> None:
    """The healthy twin of a lost run: a system error that is not a lack of memory or files is a finding about the
    program.
    """

    def refuse() -> None:
        raise OSError(errno.EACCES, "not yours")

    (found,) = explore_all([acting(refuse)], "dpor", jobs=1)
    assert found.verdict == "violated"
    assert found.findings[0].klass == "CRASH:PERMISSIONERROR"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize("always", [False, True])
def test_a_stopped_worker_is_replaced_or_the_run_is_lost(
    always: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "LOOK_SECONDS", 0.05)

    def stop() -> None:
        if always or not (tmp_path / "stopped").exists():
            (tmp_path / "stopped").touch()
            from_outside(signal.SIGSTOP)

    (found,) = explore_all([acting(stop)], "dpor", jobs=2)
    assert found.verdict == ("lost" if always else "proven")
    assert ("was stopped and did not go on" in found.summary()) == always


def test_an_exploration_ends_if_a_worker_does_not_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(parallel, "LATE_SECONDS", 0.1)
    (found,) = explore_all([acting(lambda: signal.pause())], "dpor", jobs=2, seconds=0.1)
    assert found.summary() == "sampled: no schedule was judged; 0 schedules (0 classes)"


@pytest.mark.parametrize(("most", "verdict"), [(1, "proven"), (0, "lost")])
def test_an_exploration_with_too_few_processes_takes_longer_or_is_lost(
    most: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If only one of two processes starts, the work takes longer. If none starts, the run is lost."""
    made: list[Any] = []
    real = unit_process.UnitProcess

    def start(*args: Any) -> Any:
        if len(made) == most:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        made.append(real(*args))
        return made[-1]

    monkeypatch.setattr(parallel, "UnitProcess", start)
    names = ["wake_pause 2x2", "wake_pause 2x2"]
    found = explore_all(subjects(names), "dpor", jobs=2)
    assert [one.verdict for one in found] == [verdict, verdict]
    assert verdict == "proven" or found[0].exploration.lost.startswith("no process could be started: ")


class Rebuilt(Exception):
    """An exception that pickle can rebuild."""


class Awkward(Exception):
    """An exception that pickle cannot rebuild: pickle passes one argument to a constructor that needs two."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("error", [Rebuilt("a"), Awkward("a", "b")], ids=["rebuilt", "awkward"])
def test_an_exception_in_a_run_reaches_the_caller(error: Exception, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(*_: Any) -> None:
        raise error

    monkeypatch.setattr(exploration, "judge", judge)
    kind = RuntimeError if jobs == 2 and isinstance(error, Awkward) else type(error)
    with pytest.raises(kind) as raised:
        explore_all(subjects(["wake_pause 2x2"]), jobs=jobs)
    assert str(raised.value) in ("a", "a and b", "tests.campaign.test_processes.Awkward: a and b")
    assert jobs == 1 or "in judge\n    raise error" in raised.value.__notes__[0]


def test_progress_reports_units_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The explorer reports progress after the first run of a unit, not only after the unit."""
    monkeypatch.setattr(unit_process, "REPORT_EVERY_S", -1.0)
    for jobs in (1, 2):
        runs: list[int] = []
        (found,) = explore_all(subjects(["wake_pause 2x1"]), "dpor", jobs=jobs, progress=runs.append)
        assert {1, 2, found.exploration.runs} <= {*runs}
        assert max(runs) == found.exploration.runs


def test_a_line_of_progress_has_the_state_of_the_search() -> None:
    """The progress line counts units and schedules, with one process and with two. At the end no unit is open."""
    lines: list[str] = []
    for jobs in (1, 2):
        (found,) = explore_all(
            subjects(["wake_pause 2x2"]), "dpor", jobs=jobs, watch=lambda standing: lines.append(standing.line())
        )
        told = found.how_far
        assert told is not None
        assert (told.schedules, told.open) == (found.exploration.runs, 0)
        assert told.as_json()["units_done"] == told.units > 1
        assert told.estimate is not None
        assert told.line().startswith(f"{told.schedules} schedules, ")
        assert " units done, 0 open; about " in told.line()
    assert any(" open; about " in line for line in lines)


SCRIPT = """
    import multiprocessing, os, signal, sys
    from dpsim.campaign.subject import Subject
    from dpsim.campaign.processes import explore_all
    from dpsim.contract.program import Program
    from dpsim.contract.world import World

    class Interrupts(Program):
        async def run(self, rank, prepared):
            os.kill(os.getppid(), signal.SIGINT)
            while True:
                await rank.mailbox("nothing").poll("for ever")

    def once(*_):  # both workers interrupt, and the second may come while the first is dealt with
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, once)
    try:
        explore_all([Subject(World(1, ()), Interrupts())], jobs=2)
    except KeyboardInterrupt:
        print("interrupted", multiprocessing.active_children())
"""


def test_an_interrupt_leaves_no_processes() -> None:
    """After an interrupt no worker process remains, though the current runs would poll without end."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.stdout == "interrupted []\n", done.stderr


class Polls(Program[Any]):
    async def run(self, rank: Rank, prepared: Any) -> None:
        for _ in range(100):  # it ends, because the timed run would find a livelock
            await rank.mailbox("nothing").poll("for.long")


@pytest.mark.parametrize("strategy", ["dpor", "portfolio"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_program_that_polls_for_long_is_bounded(strategy: str, jobs: int) -> None:
    (found,) = explore_all([Subject(World(1, ()), Polls(), longest=50)], strategy, jobs=jobs)
    assert found.verdict == "bounded"
    assert "cut off after 50 choices" in found.summary()
    assert "proven" not in found.summary()
