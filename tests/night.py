"""Night: runs the parts of `make nightly` one after another, each within its bound, and prints a table of them.

    python -m tests.night                       # all parts
    python -m tests.night real torch --size 10  # two of them, with ten times the time and the draws

A part is a part of `dpsim campaign nightly`, or the nightly tests in some folders. Its bound is real. After SHARE of
the bound, a campaign begins no further world (`--budget`), and a part of tests no further test (`conftest.py`). The
order of the tests differs from night to night (`conftest.in_order_of_night`), and so do those that are left out. If a
part is not over at its bound, it is ended, and that is a failure.

At the default size all bounds together are at most MOST minutes on two cores. `--size` multiplies the bounds, and the
draws of a test (`tests.properties.of_night`). Exit code 1: a part failed; 2: there is no such part.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests import ROOT

MOST, SHARE = 100, 0.7


NO_TIME = "the time of this part of the night is up"
"""Why `conftest.py` leaves a test out."""


class Part(NamedTuple):
    """A part of the night. `minutes`: its bound. `paths`: its tests; without any it is a part of the campaign."""

    name: str
    minutes: float
    paths: tuple[str, ...] = ()


READERS = "tests/test_readers.py", "tests/test_readers_reverted.py"
OF_VLLM = "tests/vllm/test_readers.py", "tests/vllm/test_readers_reverted.py"
SEARCH = "tests/campaign", "tests/checks", "tests/explore", "tests/house", "tests/sim", "tests/worlds"

PARTS = (
    Part("scenarios", 7),
    Part("swarm", 6),
    Part("small", 6),
    Part("museum", 8),
    Part("oracle", 8, ("tests/interpreter",)),
    Part("search", 9, SEARCH),
    Part("readers", 8, (*READERS, *OF_VLLM)),
    Part("real", 9, ("tests/real", "tests/diagnose", "scenarios")),
    Part("torch", 9, ("tests/torch", "tests/vllm/torch")),
    Part("planted", 8, ("tests/vllm/planted",)),
    Part("culprits", 4, ("tests/blame",)),
    Part("against", 9, ("tests/interpreter/test_against.py", "tests/vllm/test_against_gloo.py")),
    Part("models", 9, ("tests/vllm",)),
)
"""The parts in the order of a night."""


class Ended(NamedTuple):
    """How a part ended. `seconds`: on the clock. `cpu`: the CPU seconds of all its processes."""

    part: Part
    seconds: float
    cpu: float
    result: str
    failed: bool


def part_of(path: str) -> Part | None:
    """Returns the part of a test file, that of the innermost folder; None if it has none."""
    found = [(len(own), part) for part in PARTS for own in part.paths if path == own or path.startswith(f"{own}/")]
    return max(found)[1] if found else None


def command(part: Part, size: float, out: Path, night: str) -> list[str]:
    """Returns the command that runs a part."""
    if not part.paths:
        words = ["--part", part.name, "--budget", f"{SHARE * part.minutes * 60:.0f}s", "--jobs", "2"]
        amount = "night" if size >= 10 else "hour"
        return [*campaign(out, night), *words, "--size", amount]
    inner = [path for other in PARTS for path in other.paths if other.name != part.name and path.startswith(part.paths)]
    ignored = [f"--ignore={path}" for path in inner]
    ends = time.time() + SHARE * part.minutes * 60
    own = [f"--junitxml={report_of(part)}", f"--night-ends={ends:.0f}", f"--night-seed={night}"]
    pytest = [sys.executable, "-m", "pytest", "-m", "nightly", "-n", "2", "--dist", "loadgroup", "-q"]
    return [*pytest, *own, *ignored, *part.paths]


def campaign(out: Path, night: str) -> list[str]:
    return [sys.executable, "-m", "dpsim", "campaign", "nightly", "--out", str(out), "--night", night]


def report_of(part: Part) -> Path:
    return ROOT / "build" / "nightly" / f"{part.name}.xml"


def within(words: Sequence[str], seconds: float, environment: dict[str, str]) -> int | None:
    """Runs a command for at most this number of seconds. Returns its exit code; None if it was killed."""
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **environment}, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also the processes that it left
        process.wait()


def run(part: Part, size: float, out: Path, night: str) -> Ended:
    """Runs a part within its bound. Its rows are in the file of the night."""
    start, before, bound = time.monotonic(), spent(), part.minutes * 60
    report = report_of(part)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    environment = {"DPSIM_NIGHT_SIZE": f"{size:g}"}
    code = within(command(part, size, out, night), bound, environment)
    if part.paths and report.exists():
        within([*campaign(out, night), "--part", "tests", "--tests", str(report)], 60, environment)
    result = f"NOT OVER after {part.minutes:g} min" if code is None else results(part, code)
    return Ended(part, time.monotonic() - start, spent() - before, result, code not in (0, 5))


def spent() -> float:
    """Returns the CPU seconds of the child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def results(part: Part, code: int) -> str:
    """Returns the result of a part in words. The exit code 5 of pytest: there is no such test."""
    word = {0: "passed", 5: "no test"}.get(code, f"FAILED ({code})")
    if not part.paths or not report_of(part).exists():
        return word
    cases = ElementTree.parse(report_of(part)).iter("testcase")
    found = Counter("left out" if NO_TIME in ElementTree.tostring(case, "unicode") else "run" for case in cases)
    return f"{word}: {found['run']} tests" + f", {found['left out']} left out" * bool(found["left out"])


def table(ended: Sequence[Ended]) -> str:
    """Returns the table of the parts that ended."""
    rows = [("part", "bound min", "seconds", "CPU s", "result")]
    rows += [_row(one.part.name, one.part.minutes, one.seconds, one.cpu, one.result) for one in ended]
    minutes = sum(one.part.minutes for one in ended)
    rows.append(_row("all", minutes, sum(one.seconds for one in ended), sum(one.cpu for one in ended), ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _row(name: str, minutes: float, seconds: float, cpu: float, result: str) -> tuple[str, str, str, str, str]:
    return name, f"{minutes:g}", f"{seconds:.0f}", f"{cpu:.0f}", result


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.night", description="Run the parts of a night.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(part.name for part in PARTS))
    parser.add_argument("--size", type=float, default=1, help="multiplies bounds and draws; 10 for a real night")
    parser.add_argument("--out", type=Path, default=Path(".dpsim/nights"), help="the folder of all nights")
    parser.add_argument("--night", default=datetime.now(UTC).date().isoformat(), help="its date")
    asked = parser.parse_args(arguments)
    named = {part.name: part for part in PARTS}
    if unknown := [name for name in asked.parts if name not in named]:
        parser.error(f"there is no part {unknown[0]!r} (there are {', '.join(named)})")
    ended = []
    for part in [named[name] for name in asked.parts] or PARTS:
        part = part._replace(minutes=part.minutes * asked.size)
        print(f"==> {part.name}, at most {part.minutes:g} min", flush=True)
        ended.append(run(part, asked.size, asked.out, asked.night))
    subprocess.run([sys.executable, "-m", "dpsim", "campaign", "report", str(asked.out)], cwd=ROOT, check=False)
    print(table(ended))
    return int(any(one.failed for one in ended))


if __name__ == "__main__":
    raise SystemExit(main())
