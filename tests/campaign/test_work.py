"""Tests work folders: an exploration that is interrupted and resumed has the same schedules, classes and verdict. It is
never proven with fewer schedules.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign import plans
from dpsim.campaign import work as kept
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, UnitResult, do
from dpsim.campaign.work import UnitFiles, WorkFolder, WorkRefused
from dpsim.explore import Exploration
from tests import ROOT
from tests.campaign.orders import HEAD, explored, orders, stable_results
from tests.properties import SIZE
from tests.trouble import from_outside
from tests.worlds.cases import CASES

pytestmark = pytest.mark.runs_once


@pytest.fixture(autouse=True)
def many_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "UNIT_STEPS", 40)


@pytest.fixture
def world() -> Subject:
    return orders(4, 2)  # 48 classes of schedules


@pytest.fixture
def whole(world: Subject) -> Any:
    """The result of an exploration without a work folder."""
    (found,) = explore_all([world], "dpor")
    assert (found.verdict, len(found.exploration.classes)) == ("proven", 48)
    return stable_results(found)


def cut_at(after: int, keeps: bool) -> Callable[[UnitFiles, UnitResult], None]:
    """Returns a writer that an interrupt stops at a unit, before or after its result is on disk."""
    left, keep = iter(range(after, -1, -1)), UnitFiles.keep

    def cut(files: UnitFiles, result: UnitResult) -> None:
        last = not next(left)
        if keeps or not last:
            keep(files, result)
        if last:
            raise KeyboardInterrupt

    return cut


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("strategy", ["dpor", "portfolio"])
def test_cuts_change_nothing(
    strategy: str, keeps: bool, world: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt at the first, third or fifth unit does not change the result, with one process or two."""
    (uncut,) = explore_all([world], strategy, schedules=10**6)
    for number, after in enumerate((0, 2, 4)):
        with monkeypatch.context() as patch:
            patch.setattr(UnitFiles, "keep", cut_at(after, keeps))
            with pytest.raises(KeyboardInterrupt):
                explored(world, tmp_path, 1 + number % 2, begin=not number, strategy=strategy)
    assert stable_results(explored(world, tmp_path, 2, strategy=strategy)) == stable_results(uncut)
    assert stable_results(explored(world, tmp_path, strategy=strategy)) == stable_results(uncut)


@pytest.mark.parametrize("names", ["wake_pause 2x2 bug", "kill host 2x4 bug", "agreement host 2x3 bug"])
def test_failures_are_resumed(names: str, tmp_path: Path) -> None:
    case = CASES[names]
    subject = Subject(case.world, case.program, case.args, case.tolerated, names)
    (uncut,) = explore_all([subject], "portfolio", schedules=10**6, stop_at_first=False)
    for times in range(3):
        again = explored(subject, tmp_path, 1 + times % 2, not times, strategy="portfolio", stop_at_first=False)
        assert stable_results(again) == stable_results(uncut)
        assert again.confirmed
    assert uncut.verdict == "violated"


# ---- files that are gone or damaged


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    file.write_bytes(data)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def exchange(file: Path) -> None:
    """Replaces the file by that of another unit."""
    other = next(one for one in file.parent.iterdir() if one != file)
    file.write_bytes(other.read_bytes())


HARMS = [Path.unlink, damage, empty, exchange]


def harmed_is_noticed(
    world: Subject, whole: Any, folder: Path, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Damages each file in turn and resumes. Returns the files whose damage changed the result, or cost more than their
    unit.
    """
    explored(world, folder, begin=True)
    wrong = []
    for file in sorted((folder / "units").iterdir()):
        harm(file)
        done: list[Unit] = []

        def counted(unit: Unit, *rest: Any, done: list[Unit] = done) -> UnitResult:
            done.append(unit)
            return do(unit, *rest)

        with monkeypatch.context() as patch:
            patch.setattr("dpsim.campaign.processes.do", counted)
            if stable_results(explored(world, folder)) != whole or len(done) != 1:
                wrong.append(file.name)
    return wrong


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmed_file_costs_its_unit(
    harm: Callable[[Path], None], world: Subject, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert harmed_is_noticed(world, whole, tmp_path, harm, monkeypatch) == []


def believes_a_list(files: UnitFiles, unit: Unit) -> UnitResult | None:
    """A faulty twin: it lists a unit as done before its result is on disk."""
    known = REAL_KNOWN(files, unit)
    if known is None and unit.number in range(1, 1 + len([*files._folder.iterdir()])):
        nothing = Exploration()
        return UnitResult(unit, nothing, [], True, False, True, unit.state, 0.0)
    return known


def believes_a_name(files: UnitFiles, unit: Unit) -> UnitResult | None:
    """A faulty twin: it does not compare the content of a file with the unit."""
    try:
        result = kept.unpacked((files._folder / files._key(unit)).read_bytes())
    except (OSError, kept.Damaged):
        return None
    result.unit = unit
    return result


REAL_KNOWN = UnitFiles.known


@pytest.mark.parametrize(("twin", "harm"), [(believes_a_list, Path.unlink), (believes_a_name, exchange)])
def test_readers_that_believe_too_much_are_found(
    twin: Any, harm: Callable[[Path], None], world: Subject, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnitFiles, "known", twin)
    assert harmed_is_noticed(world, whole, tmp_path, harm, monkeypatch)


def test_a_result_is_on_disk_before_it_counts(world: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder first writes the file, then its name, and then the plan takes the result. The faulty twin takes it
    first.
    """

    def events(early: bool) -> list[str]:
        seen: list[str] = []
        with monkeypatch.context() as patch:
            folder = tmp_path / str(early)
            real, sync, take = UnitFiles.keep, kept._sync, plans.Plan.take

            def keep(files: UnitFiles, result: UnitResult) -> None:
                if early:
                    seen.append("taken")
                real(files, result)

            def synced(path: Path) -> None:
                seen.append(f"synced {path.name}")
                sync(path)

            def taken(plan: plans.Plan, result: UnitResult) -> None:
                if not early:
                    seen.append("taken")
                take(plan, result)

            patch.setattr(UnitFiles, "keep", keep)
            patch.setattr(kept, "_sync", synced)
            patch.setattr(plans.Plan, "take", taken)
            explored(world, folder, begin=True)
        return seen[1:]

    good = events(early=False)
    assert good == ["synced units", "taken"] * (len(good) // 2)
    assert events(early=True) != good


def test_a_file_makes_nothing_but_plain_data(tmp_path: Path) -> None:
    """A pickle that names a function of the system is damaged, and dpsim does not call the function."""
    import pickle
    import zlib
    from hashlib import sha256

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "made"),)

    body = zlib.compress(pickle.dumps(Evil()))
    with pytest.raises(kept.Damaged):
        kept.unpacked(sha256(body).hexdigest().encode() + b"\n" + body)
    assert not (tmp_path / "made").exists()
    pickle.loads(zlib.decompress(body))
    assert (tmp_path / "made").exists()


# ---- folders of something else


def test_a_folder_of_another_exploration_is_refused(world: Subject, tmp_path: Path) -> None:
    folder = tmp_path / "night"
    WorkFolder.begin(folder, HEAD).__exit__(None, None, None)
    other = '^.*night: has the work of another scenario: orders; this is "wake"|wake$'
    with pytest.raises(WorkRefused, match=other):
        WorkFolder.resume(folder, {"scenario": "wake"})
    with pytest.raises(WorkRefused, match=r"night: has the work of an earlier exploration; --resume goes on with it$"):
        WorkFolder.begin(folder, HEAD)
    with pytest.raises(WorkRefused, match=r"has no work.json; expected a folder that --work wrote$"):
        WorkFolder.resume(tmp_path / "none", HEAD)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(WorkRefused, match=r"full: is not empty; expected a new folder$"):
        WorkFolder.begin(tmp_path / "full", HEAD)
    (folder / "work.json").write_text("[")
    with pytest.raises(WorkRefused, match=r"work.json: is no JSON object; expected what --work wrote$"):
        WorkFolder.resume(folder, HEAD)


def test_a_folder_counts_as_new_after_a_kill_before_its_head(tmp_path: Path) -> None:
    """A kill before work.json was written leaves no work, so the folder counts as new."""
    (tmp_path / "units").mkdir()
    (tmp_path / "lock").touch()
    (tmp_path / ".dpsim-trace-7.tmp").touch()
    WorkFolder.begin(tmp_path, HEAD).__exit__(None, None, None)
    WorkFolder.resume(tmp_path, HEAD).__exit__(None, None, None)


def test_two_processes_do_not_write_one_folder(tmp_path: Path) -> None:
    """A lock keeps a second process out of the folder. It disappears with its process, however that ends."""
    WorkFolder.begin(tmp_path / "night", HEAD).__exit__(None, None, None)
    hold = (
        "import sys; from pathlib import Path; from dpsim.campaign.work import WorkFolder\n"
        f"work = WorkFolder.resume(Path({str(tmp_path / 'night')!r}), {HEAD!r})\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(WorkRefused, match=r"night: another process explores with this folder; wait for its end$"):
            WorkFolder.resume(tmp_path / "night", HEAD)
        holder.kill()
    WorkFolder.resume(tmp_path / "night", HEAD).__exit__(None, None, None)


# ---- kills


def units_of(folder: Path) -> int:
    return len([*(folder / "units").glob("[!.]*")]) if (folder / "units").exists() else 0


def until_proven(folder: Path, jobs: Iterator[int], moments: Iterator[int], *words: str) -> tuple[int, str]:
    """Explores in a process that the test kills whenever it has written some units. Returns the number of kills, and
    the output.
    """
    kills = 0
    while True:
        command = [sys.executable, "-m", "tests.campaign.orders", str(folder), str(next(jobs)), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
            at = units_of(folder) + next(moments, 10**9)
            while process.poll() is None:
                if units_of(folder) >= at:
                    process.kill()
                    kills += process.wait() == -signal.SIGKILL
            assert process.stdout is not None
            said = process.stdout.read()
        if process.returncode != -signal.SIGKILL:
            return kills, said


LONG = (20, 2_000, (7, 2, 2), 20_160) if SIZE >= 10 else (4, 500, (6, 2, 2), 2_880)


@pytest.mark.parametrize(
    ("kills", "steps", "senders", "classes"),
    [
        pytest.param(2, 60, (4, 3), 144, marks=pytest.mark.slow),
        pytest.param(*LONG, marks=pytest.mark.nightly),
    ],
)
def test_kills_change_nothing(kills: int, steps: int, senders: tuple[int, ...], classes: int, tmp_path: Path) -> None:
    """SIGKILL at random units does not change the result, with one process and two in turn."""
    rng = random.Random(33)
    moments = iter([rng.randrange(0, 8) for _ in range(kills)])
    jobs = iter([1, 2] * kills)
    told, said = until_proven(tmp_path / "work", jobs, moments, str(steps), *map(str, senders))
    assert said.startswith(
        f"proven: holds in every schedule of this world; {classes:,} schedules ({classes:,} classes)"
    )
    assert told == kills


def test_ten_kills_of_workers_do_not_change_the_result(tmp_path: Path) -> None:
    """A worker process dies ten times, each time in another unit; the result is the same."""
    world = orders(4, 3)
    (expected,) = explore_all([world], "dpor")
    runs = tmp_path / "runs"
    runs.touch()

    class Dying(type(world.program)):  # type: ignore[misc]
        async def run(self, rank: Any, prepared: Any) -> None:
            if rank.rank == 0:
                with runs.open("a") as file:
                    file.write(".")
                if runs.stat().st_size % 14 == 0 and runs.stat().st_size <= 140:
                    from_outside(signal.SIGKILL)
            await super().run(rank, prepared)

    dying = Subject(world.world, Dying(), world.prepared, name="orders")
    found = explored(dying, tmp_path / "work", 2, begin=True)
    assert runs.stat().st_size > 140 + 144
    assert stable_results(found) == stable_results(expected)


def test_the_head_is_readable(tmp_path: Path) -> None:
    WorkFolder.begin(tmp_path / "night", HEAD).__exit__(None, None, None)
    assert json.loads((tmp_path / "night" / "work.json").read_text()) == HEAD
