"""Tests Ray itself: one node, several nodes, and a server for clients find the same as one process, even if some are
lost. The tests need the extra `ray`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.cli.commands import process, write

pytestmark = [
    pytest.mark.runs_once,
    pytest.mark.skipif(find_spec("ray") is None or find_spec("grpc") is None, reason="Ray is not installed"),
]

MODULE = ("--module", "tests.campaign.order_programs")
WORLD = "name: filled\nprotocol: {name: t_fills, params: {ranks: 6}}\n"  # five ranks post to one mailbox


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    write(Path("x.yaml"), WORLD)


LISTENS = "0A"
"""The state of a listening socket in `/proc/net/tcp`."""


def addresses(ancestor: int) -> set[str]:
    """Returns the addresses at which processes started by this one listen, as the kernel writes them."""
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


@pytest.mark.nightly
def test_a_ray_that_starts_here_listens_on_the_loopback_address_alone() -> None:
    """The test starts another process, because Ray reads the environment at its import."""
    script = (
        "import os; from dpsim.campaign.ray_cluster import RayCluster\n"
        "from tests.campaign.test_ray_nodes import addresses\n"
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


QUICK = {"RAY_worker_niceness": "0"}
"""Ray lowers the priority of its workers, so that a busy machine starves them. This setting turns that off."""

COUNTS = ("verdict", "schedules", "classes", "redundant", "cut", "failures")


@pytest.mark.slow
def test_one_node_finds_what_one_process_does() -> None:
    alone = explored_by_ray()
    on_ray = explored_by_ray("--cluster", "auto", "--jobs", "2", "--work", "night")
    assert [on_ray[key] for key in COUNTS] == [alone[key] for key in COUNTS]
    assert [explored_by_ray("--resume", "night")[key] for key in COUNTS] == [alone[key] for key in COUNTS]


@pytest.mark.nightly
def test_units_of_killed_workers_are_repeated() -> None:
    """The test kills a worker ten times during a unit; each unit is repeated."""
    write(Path("x.yaml"), WORLD.replace("ranks: 6", "ranks: 9"))
    command = [sys.executable, "-c", SHORT_TASKS, "explore", "x.yaml", *MODULE, "--strategy", "dpor"]
    command += ["--schedules", "100000", "--cluster", "auto", "--jobs", "2", "--work", "night"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **QUICK}
    kills, seen = 0, 0
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as running:
        while running.poll() is None:
            units = len([*Path("night/units").glob("[!.]*")]) if Path("night/units").exists() else 0
            if kills < 10 and units > seen:
                seen = units
                kills += kill_a_worker(running.pid)
        assert running.stdout is not None
        said = running.stdout.read()
    assert kills == 10
    assert "40,320 in 40,320 classes" in said
    assert "PROVEN" in said


SHORT_TASKS = """
from dpsim.campaign import ray_units
from dpsim.cli.ending import main
ray_units.TASK_SECONDS = 0.5
main()
"""
"""Without short tasks there are fewer tasks than kills."""


def kill_a_worker(ancestor: int) -> bool:
    """Kills one of the processes started by this one that is doing a unit now."""
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
import os, subprocess, sys, time
from pathlib import Path
from ray.cluster_utils import Cluster
from tests.campaign.test_ray_nodes import free_port, kill_a_worker

nodes, way, command, port = int(sys.argv[1]), sys.argv[2], sys.argv[3:], free_port()
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "ray_client_server_port": port})
others = [cluster.add_node(num_cpus=1) for _ in range(nodes - 1)]
command += ["--cluster", f"ray://127.0.0.1:{port}" if way == "client" else "auto"]
env = {**os.environ} if way == "client" else {**os.environ, "RAY_ADDRESS": cluster.address}
running, losses, seen = subprocess.Popen(command, env=env), 0, 0
while way == "losses" and running.poll() is None:
    units = len([*Path("night/units").glob("[!.]*")]) if Path("night/units").exists() else 0
    if units > seen and losses < 4:
        seen = units
        if losses % 2:
            cluster.remove_node(others.pop(), allow_graceful=False)
            losses += 1
        else:
            losses += kill_a_worker(os.getpid())
    time.sleep(0.05)
code = running.wait()
print(losses, flush=True)
cluster.shutdown()
sys.exit(code)
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def explored_by_nodes(nodes: int, way: str, *more: str) -> tuple[Any, int]:
    """Runs Ray's own utility for clusters in another process. Returns the result, and the number of lost workers and
    nodes.
    """
    words = ["explore", "x.yaml", *MODULE, "--strategy", "dpor", "--schedules", "100000", "--json", *more]
    command = [sys.executable, "-c", CLUSTER, str(nodes), way, sys.executable, "-m", "dpsim.cli", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **QUICK}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return found["scenarios"][0], int(done.stdout.split()[-1])


@pytest.mark.nightly
@pytest.mark.parametrize(("nodes", "way"), [(2, "whole"), (4, "whole"), (2, "client")])
def test_several_nodes_find_what_one_process_does(nodes: int, way: str) -> None:
    """Several nodes find the same as one process, also through a server for clients (`ray://`)."""
    alone = explored_by_ray()
    found, _ = explored_by_nodes(nodes, way)
    assert [found[key] for key in COUNTS] == [alone[key] for key in COUNTS]


@pytest.mark.nightly
def test_an_exploration_survives_lost_workers_and_nodes() -> None:
    """Of four nodes, two are lost during the exploration, and two workers too."""
    write(Path("x.yaml"), WORLD.replace("ranks: 6", "ranks: 9"))
    found, losses = explored_by_nodes(4, "losses", "--work", "night")
    assert losses == 4
    assert (found["verdict"], found["schedules"], found["classes"]) == ("proven", 40_320, 40_320)
