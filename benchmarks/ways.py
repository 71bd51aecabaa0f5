"""Runs one exploration in eight ways: one process, two, killed and resumed, on Ray with and without lost workers.

    python -m benchmarks.ways               # prints the tables after some minutes; needs the extra ray
    python -m benchmarks.ways engines       # only this world

Each way must find the same verdict, schedules, classes, failures and traces, byte for byte. Otherwise the script exits
with 1. Two worlds are proven, and one has failures. CPU seconds are those of all processes of a way, including the
daemons of Ray.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests import ROOT

ENGINES = """\
name: engines
protocol: {name: engine, form: "0.33"}
topology: {data_parallel_size: 2}
config: {parallel_rules: "0.33", dp_sync_interval: 1}
workload:
  requests:
"""
REQUEST = "    - {arrival: 0ms, prompt_tokens: 1, output_tokens: 1}\n"
FILLS = ("--module", "tests.campaign.order_programs")
MISSES = ("--module", "tests.campaign.bound_programs")


class World(NamedTuple):
    """A world to explore. `cuts`: the numbers of units after which the script kills the process. `losses`: how many Ray
    workers it kills.
    """

    name: str
    text: str
    options: tuple[str, ...]
    cuts: tuple[int, ...]
    losses: int


WORLDS = (
    World("engines", ENGINES + 3 * REQUEST, (), (20, 60), 5),
    World("mailbox", "name: filled\nprotocol: {name: t_fills, params: {ranks: 8}}\n", FILLS, (20, 40), 3),
    World("late", "name: late\nprotocol: {name: t_misses, params: {ranks: 6}}\n", (*MISSES, "--keep-going"), (2, 6), 2),
)

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_SECONDS = 0.1
TASK = "ray::do_all_there"
CLUSTER = """
import os, subprocess, sys, time
from pathlib import Path
from ray.cluster_utils import Cluster
nodes, units = int(sys.argv[1]), int(sys.argv[2])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
others = [cluster.add_node(num_cpus=1) for _ in range(nodes - 1)]
running = subprocess.Popen(sys.argv[3:], env={**os.environ, "RAY_ADDRESS": cluster.address})
while units and running.poll() is None and len([*Path("night/units").glob("[!.]*")]) < units:
    time.sleep(0.05)
if units and running.poll() is None:
    cluster.remove_node(others[-1], allow_graceful=False)
    Path("lost").touch()
code = running.wait()
cluster.shutdown()
sys.exit(code)
"""


class Way(NamedTuple):
    """A way to explore. `before`, `after`: words before and after `dpsim explore ...`. `cut`: the script kills the
    process and resumes. `kills`: it kills Ray workers.
    """

    name: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    cut: bool = False
    kills: bool = False


WAYS = (
    Way("one process"),
    Way("two processes", after=("--jobs", "2")),
    Way("one process, killed twice and resumed", cut=True),
    Way("two processes, killed twice and resumed", after=("--jobs", "2"), cut=True),
    Way("Ray, two workers", after=("--cluster", "auto", "--jobs", "2")),
    Way("Ray, two workers that are killed", after=("--cluster", "auto", "--jobs", "2"), kills=True),
    Way("Ray, four nodes", (sys.executable, "-c", CLUSTER, "4", "0"), ("--cluster", "auto")),
    Way("Ray, four nodes, of which one is lost", (sys.executable, "-c", CLUSTER, "4", "5"), ("--cluster", "auto")),
)


class Outcome(NamedTuple):
    """The results of a way. `found`: what must be equal. `traces`: their number, and a digest of their bytes."""

    found: tuple[Any, ...]
    traces: str
    cpu: float
    units: int
    lost: int


# ---- processes


def stat(number: int) -> tuple[int, float]:
    """Returns the parent of a process, and its CPU seconds."""
    words = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return int(words[1]), (int(words[11]) + int(words[12])) / TICKS


def descendants(ancestor: int) -> Iterator[tuple[int, float]]:
    """Yields a process and its descendants, each with its CPU seconds."""
    seen: dict[int, tuple[int, float]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                seen[int(folder.name)] = stat(int(folder.name))
    for number, (_, cpu) in seen.items():
        above = number
        while above != ancestor and above in seen:
            above = seen[above][0]
        if above == ancestor:
            yield number, cpu


def units_of(folder: Path) -> int:
    return len([*folder.glob("units/[!.]*")])


def watched(command: list[str], here: Path, look: Callable[[subprocess.Popen[str], list[int]], None]) -> Any:
    """Runs a command to its end, and returns its output and the CPU seconds of all its processes. `look` may kill
    some.
    """
    cpu: dict[int, float] = {}
    looks = 0
    env = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_worker_niceness": "0"}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=here, env=env, text=True, stdout=subprocess.PIPE, stderr=quiet) as one:
        while one.poll() is None:
            if looks % 5 == 0:  # this costs a tenth of a core
                cpu.update(descendants(one.pid))
            looks += 1
            look(one, [*cpu])
            time.sleep(LOOK_SECONDS)
        assert one.stdout is not None
        return one.stdout.read(), sum(cpu.values()), one.returncode


def explored(world: World, way: Way) -> Outcome:
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        (here / "world.yaml").write_text(world.text)
        words = [sys.executable, "-m", "dpsim.cli", "explore", "world.yaml", *world.options, "--strategy", "dpor"]
        words += ["--schedules", "10000000", "--json", "--save", "traces", *way.after]
        cuts, cpu, lost, code = [*world.cuts] if way.cut else [], 0.0, 0, -signal.SIGKILL
        seen = 0

        def look(one: subprocess.Popen[str], numbers: list[int]) -> None:
            nonlocal lost, seen
            units = units_of(here / "night")
            if cuts and units >= cuts[0]:
                one.kill()
                cuts.pop(0)
                lost += 1
            if way.kills and lost < world.losses and units > seen:
                seen, killed = units, next((one for one in numbers if TASK in name_of(one)), 0)
                if killed:
                    os.kill(killed, signal.SIGKILL)
                    lost += 1

        option = "--work"
        while code == -signal.SIGKILL:
            said, took, code = watched([*way.before, *words, option, "night"], here, look)
            option, cpu = "--resume", cpu + took
        found = json.loads(said)["scenarios"][0]
        traces = sorted(here.glob("traces/*.jsonl"))
        digest = hashlib.sha256(b"".join(one.read_bytes() for one in traces)).hexdigest()[:8] if traces else ""
        same = tuple(found[key] for key in ("verdict", "schedules", "classes", "redundant", "failures"))
        return Outcome(
            same, f"{len(traces)} {digest}".strip(), cpu, units_of(here / "night"), lost + (here / "lost").exists()
        )


def name_of(number: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{number}/cmdline").read_text().replace("\0", " ")
    return ""


def main(names: list[str]) -> int:
    """Prints a table for each world."""
    same = True
    for world in (one for one in WORLDS if not names or one.name in names):
        print(f"\n{world.name}\n\n| way | verdict | schedules | classes | failures | traces | losses | units | CPU s |")
        print("| --- " * 9 + "|", flush=True)
        first: Outcome | None = None
        for way in WAYS:
            one = explored(world, way)
            first = first or one
            same &= (one.found, one.traces) == (first.found, first.traces)
            verdict, schedules, classes, _, failures = one.found
            cells = (
                way.name,
                verdict,
                f"{schedules:,}",
                f"{classes:,}",
                len(failures),
                one.traces,
                one.lost,
                one.units,
            )
            print(f"| {' | '.join(map(str, cells))} | {one.cpu:.0f} |", flush=True)
    print("\nall ways find the same" if same else "\nNOT the same")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
