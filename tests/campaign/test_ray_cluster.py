"""Exploring on a cluster of Ray: what one process finds, also where workers die; and the line without Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dpsim.campaign import plans, ray_units
from dpsim.campaign.in_order import InOrder
from dpsim.campaign.processes import explore_all
from dpsim.campaign.ray_cluster import NoCluster, RayCluster
from dpsim.campaign.ray_units import RayUnits
from dpsim.campaign.remote import OtherVersion, Source, do_there
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, UnitResult
from dpsim.contract.world import BackendUnavailable
from dpsim.explore.strategies import frontier
from dpsim.scenario import load_scenario
from dpsim.testing import holds
from tests import ROOT
from tests.campaign import bound_programs, order_programs  # noqa: F401  # register their protocols
from tests.campaign.orders import told
from tests.cli.commands import dpsim_, process, write

pytestmark = pytest.mark.runs_once
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")

MODULE = ("--module", "tests.campaign.order_programs")
WORLD = "name: filled\nprotocol: {name: t_fills, params: {ranks: 6}}\n"  # five messages to one mailbox


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(plans, "UNIT_STEPS", 100)
    write(Path("x.yaml"), WORLD)


# ---- without Ray


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("auto", "--cluster: Ray is not installed here; install it: pip install -e '.[ray]' in a clone of dpsim"),
        ("http://x", "--cluster: 'http://x' is no cluster; expected auto or ray://HOST:PORT"),
    ],
)
def test_without_ray_it_is_one_line(address: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    answer = dpsim_("explore", "x.yaml", *MODULE, "--cluster", address)
    assert (answer.code, answer.out, answer.err) == (2, "", f"dpsim: {said}\n")


def test_holds_needs_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NoCluster, match="Ray is not installed here; install it: "):
        holds(load_scenario(Path("x.yaml")), cluster="auto")


def test_holds_explores_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = PretendedRay()
    monkeypatch.setattr(RayCluster, "at", lambda address: nullcontext(Pretended(ray)))
    assert holds(load_scenario(Path("x.yaml")), cluster="auto", strategy="dpor").verdict == "proven"
    assert ray.tasks > 1


class Pretended(NamedTuple):
    ray: PretendedRay

    def on(self, sources: list[Source]) -> RayUnits:
        return RayUnits(self.ray, sources, width=2)


class Errors:
    """The exceptions of Ray that are looked at."""

    class RayError(Exception):
        pass

    class RuntimeEnvSetupError(RayError):
        pass

    class RayTaskError(RayError):
        pass


class Ref:
    def __init__(self, answer: Any) -> None:
        self.answer = answer


class PretendedRay:
    """As much of Ray as is used, in this process. `loses`: the numbers of tasks that are lost."""

    exceptions = Errors

    def __init__(self, loses: frozenset[int] = frozenset(), how: type[Exception] = Errors.RayError) -> None:
        self.how = how
        self.loses = loses
        self.tasks = 0
        self.cancelled = 0

    def remote(self, function: Any) -> Any:
        ray = self

        class Task:
            def options(self, **_: Any) -> Any:
                return self

            def remote(self, *arguments: Any) -> Ref:
                ray.tasks += 1
                return Ref(None if ray.tasks in ray.loses else function(*arguments))

        return Task()

    def wait(self, refs: list[Ref], num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        return refs[-num_returns:], refs[:-num_returns]  # the last comes first

    def get(self, ref: Ref) -> Any:
        if ref.answer is None:
            raise self.how("the node is gone")
        return ref.answer

    def cancel(self, ref: Ref, force: bool) -> None:
        self.cancelled += 1


ONE_UNIT, ALL_UNITS = 1e-9, 1e9
"""Seconds of a task: with these the number of its units depends on no clock."""

BOUNDED = "within preemptions=2"
"""A search with many units."""


def found_with(ray: PretendedRay, by: str = "dpor", **more: Any) -> Any:
    scenario = load_scenario(Path("x.yaml"))
    sources = [Source.of(scenario, None)]
    units = RayUnits(ray, sources, width=2)
    return explore_all([Subject.of(scenario)], by, schedules=10**6, elsewhere=units, **more)[0]


def test_what_is_lost_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost tasks, and results in another order: the same. A unit that is lost four times is no proof."""
    monkeypatch.setattr(ray_units, "TASK_SECONDS", ONE_UNIT)
    (uncut,) = explore_all([Subject.of(load_scenario(Path("x.yaml")))], "dpor", schedules=10**6)
    assert (uncut.verdict, len(uncut.exploration.classes)) == ("proven", 120)
    assert told(found_with(PretendedRay())) == told(uncut)
    sound, losing = PretendedRay(), PretendedRay(frozenset({2, 3, 5, 9}))
    assert told(found_with(sound)) == told(found_with(losing)) == told(uncut)
    assert losing.tasks == sound.tasks + 4
    lost = found_with(PretendedRay(frozenset(range(9, 10**6))))
    assert lost.verdict == "lost"
    assert lost.exploration.lost.startswith("4 processes ended over the same ")


def test_units_that_are_short_share_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer tasks, and the same found, also where one with many units is lost."""
    monkeypatch.setattr(ray_units, "TASK_SECONDS", ONE_UNIT)
    monkeypatch.setattr(frontier, "LEAST", 2)
    alone = PretendedRay()
    uncut = told(found_with(alone, BOUNDED))
    monkeypatch.setattr(ray_units, "TASK_SECONDS", ALL_UNITS)
    together, losing = PretendedRay(), PretendedRay(frozenset({4, 6}))
    assert told(found_with(together, BOUNDED)) == told(found_with(losing, BOUNDED)) == uncut
    assert 2 * together.tasks < alone.tasks
    assert losing.tasks > together.tasks + 2, "each of its units is a task again"


def keeps_the_rest(self: RayUnits, ref: Any, plans: Any) -> Any:
    """Twin: what a task did not do after its first failure is not given out again."""
    units = self._under_way[ref]
    self._under_way[ref] = units[: len(ref.answer)]
    return ANSWERS(self, ref, plans)


ANSWERS = RayUnits._answers


def test_a_task_ends_at_its_first_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exploring process gets it at once, and gives the other units out again. A twin that keeps them is found."""
    write(Path("x.yaml"), "name: x\nprotocol: {name: t_misses, params: {ranks: 5}}\n")
    scenario = load_scenario(Path("x.yaml"))
    monkeypatch.setattr(frontier, "LEAST", 2)
    (uncut,) = explore_all([Subject.of(scenario)], BOUNDED, schedules=10**6, stop_at_first=False)
    monkeypatch.setattr(ray_units, "TASK_SECONDS", ALL_UNITS)
    assert told(found_with(PretendedRay(), BOUNDED, stop_at_first=False)) == told(uncut)
    assert uncut.verdict == "violated"
    monkeypatch.setattr(RayUnits, "_answers", keeps_the_rest)
    assert told(found_with(PretendedRay(), BOUNDED, stop_at_first=False)) != told(uncut)


def test_a_node_without_dpsim_is_no_loss() -> None:
    """Ray could not load the unit there, and will not."""
    with pytest.raises(
        BackendUnavailable, match="the same version of dpsim has to be installed on each: the node is gone"
    ):
        found_with(PretendedRay(frozenset({1}), Errors.RayTaskError))


def forgets(self: InOrder, unit: Unit, how: str, most: int = 1) -> None:
    """Twin: a lost unit counts as one that found nothing."""
    from dpsim.explore import Exploration

    self.take(UnitResult(unit, Exploration(), [], True, False, False, unit.state, 0.0))


def test_a_plan_that_forgets_lost_units_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InOrder, "lost", forgets)
    found = found_with(PretendedRay(frozenset({2})))
    assert (found.verdict, len(found.exploration.classes) < 120) == ("proven", True)


def test_another_version_is_refused() -> None:
    source = Source.of(load_scenario(Path("x.yaml")), None)._replace(dpsim="0" * 64)
    assert isinstance(do_there(source, Unit(0, "dpor", 0, 1, True)), OtherVersion)


def test_the_modules_of_a_program_travel() -> None:
    from dpsim.campaign.remote import sources_of

    files = sources_of([order_programs.__name__])
    assert files["tests/campaign/order_programs.py"] == Path(order_programs.__file__).read_bytes()
    assert "tests/__init__.py" in files
    assert not any(name.startswith("dpsim/") for name in files)


# ---- with Ray


LISTENS = "0A"
"""A state in `/proc/net/tcp`."""


def addresses(ancestor: int) -> set[str]:
    """Where the processes that this one has started listen, as the kernel writes addresses."""
    sockets = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != ancestor and descends(int(folder.name), ancestor):
            for link in (folder / "fd").glob("*"):
                with suppress(OSError):
                    sockets.add(os.readlink(link))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and f"socket:[{words[9]}]" in sockets:
                found.add(words[1].partition(":")[0])
    return found


@needs_ray
@pytest.mark.nightly
def test_a_ray_that_starts_here_listens_on_the_loopback_address_alone() -> None:
    """In another process, since Ray looks at the environment when it is imported."""
    script = (
        "import os; from dpsim.campaign.ray_cluster import RayCluster\n"
        "from tests.campaign.test_ray_cluster import addresses\n"
        "with RayCluster.at('auto', 1) as cluster:\n"
        "    cluster.on([]); print(*addresses(os.getpid()))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    listening = {*done.stdout.split()}
    assert listening
    assert listening <= loopback


def explored_by_ray(*words: str) -> Any:
    done = process("explore", "x.yaml", *MODULE, "--strategy", "dpor", "--schedules", "100000", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["scenarios"][0]


COUNTS = ("verdict", "schedules", "classes", "redundant", "cut", "failures")


@needs_ray
@pytest.mark.slow
def test_one_node_finds_what_one_process_does() -> None:
    alone = explored_by_ray()
    on_ray = explored_by_ray("--cluster", "auto", "--jobs", "2", "--work", "night")
    assert [on_ray[key] for key in COUNTS] == [alone[key] for key in COUNTS]
    assert [explored_by_ray("--resume", "night")[key] for key in COUNTS] == [alone[key] for key in COUNTS]


@needs_ray
@pytest.mark.nightly
def test_workers_that_are_killed() -> None:
    """Ten times, while a unit is done: each is done again."""
    write(Path("x.yaml"), WORLD.replace("ranks: 6", "ranks: 8"))
    command = [sys.executable, "-m", "dpsim.cli", "explore", "x.yaml", *MODULE, "--strategy", "dpor"]
    command += ["--schedules", "100000", "--cluster", "auto", "--jobs", "2", "--work", "night"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    kills, seen = 0, 0
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as running:
        while running.poll() is None:
            units = len([*Path("night/units").glob("[!.]*")]) if Path("night/units").exists() else 0
            if kills < 10 and units > seen + 4:
                seen = units
                kills += kill_a_worker(running.pid)
        assert running.stdout is not None
        said = running.stdout.read()
    assert kills == 10
    assert "5,040 in 5,040 classes" in said
    assert "PROVEN" in said


def kill_a_worker(ancestor: int) -> bool:
    """One that does a unit now, of the processes that this one has started."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and "ray::do_all_there" in name_of(int(folder.name)):
            number = int(folder.name)
            if descends(number, ancestor):
                os.kill(number, signal.SIGKILL)
                return True
    return False


def name_of(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def descends(number: int, ancestor: int) -> bool:
    while number > 1:
        if number == ancestor:
            return True
        try:
            number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


CLUSTER = """
import os, subprocess, sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
others = [cluster.add_node(num_cpus=1) for _ in range(int(sys.argv[1]) - 1)]
for remove in (False, True):
    if remove:
        cluster.remove_node(others[-1])
    done = subprocess.run(sys.argv[2:], env={**os.environ, "RAY_ADDRESS": cluster.address}, stdout=subprocess.PIPE)
    print(done.stdout.decode().strip(), flush=True)
cluster.shutdown()
"""


@needs_ray
@pytest.mark.nightly
@pytest.mark.parametrize("nodes", [2, 4])
def test_nodes_of_a_cluster(nodes: int) -> None:
    """Ray's own utility for clusters, in another process; then one node is removed."""
    alone = explored_by_ray()
    words = ["explore", "x.yaml", *MODULE, "--strategy", "dpor", "--schedules", "100000", "--json", "--cluster", "auto"]
    command = [sys.executable, "-c", CLUSTER, str(nodes), sys.executable, "-m", "dpsim.cli", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    found = [json.loads(line)["scenarios"][0] for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == 2, done.stdout + done.stderr
    for one in found:
        assert [one[key] for key in COUNTS] == [alone[key] for key in COUNTS]
