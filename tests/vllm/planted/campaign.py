"""Plants each mistake in a copy of the tree, and runs tests there to see which of them notice it.

    shipped    pytest scenarios -k sim, and all schedules of the scenarios that expect a result of exploring
    quick      the tests of `make test` of the room whose file was changed, without scenarios

The quick tests run only if the shipped scenarios do not notice the mistake. A run that exceeds its time limit also
counts as noticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests import ROOT
from tests.vllm.planted.engines import ENGINES
from tests.vllm.planted.mistake import By, Mistake
from tests.vllm.planted.steps import STEPS

MISTAKES = (*STEPS, *ENGINES)
LEFT_OUT = (".*", "__pycache__", "*.egg-info", "shared")
SHIPPED: Sequence[Sequence[str]] = (
    ("scenarios", "-k", "sim and not gloo and not nccl"),
    ("tests/vllm/test_explored_scenarios.py", "-m", "slow or not slow"),
)
BOUND_S = 900


class Answer(NamedTuple):
    """What notices a mistake, and the last lines of its failure."""

    by: By
    failed: str


class Copy:
    """A copy of the tree.

    Each change of a file gets a new modification time, because Python's bytecode cache compares size and time.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changes = 0

    def write(self, path: Path, text: str) -> None:
        before = path.stat().st_mtime
        path.write_text(text)
        self.changes += 1
        os.utime(path, (before + 10 + self.changes,) * 2)

    @contextmanager
    def with_one(self, mistake: Mistake) -> Iterator[None]:
        """Plants the mistake for the duration of the `with` block."""
        path = mistake.path(self.root)
        healthy = path.read_text()
        self.write(path, mistake.planted(healthy))
        try:
            yield
        finally:
            self.write(path, healthy)

    def failed(self, arguments: Sequence[str]) -> str:
        """Runs pytest in the copy. Returns its output on the first failure, or "" if all tests pass."""
        ours = ("PYTEST_", "HYPOTHESIS_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        environment["PYTHONPATH"] = str(self.root)
        options = ["-q", "-x", "-p", "no:cacheprovider", "--tb=short"]
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        try:
            ran = subprocess.run(
                command, cwd=self.root, env=environment, text=True, capture_output=True, timeout=BOUND_S
            )
        except subprocess.TimeoutExpired:
            return f"no end within {BOUND_S} s"
        if ran.returncode not in (0, 1):
            raise RuntimeError(f"{' '.join(command)} ends with {ran.returncode}\n{ran.stdout}{ran.stderr}")
        return ran.stdout[-1500:] if ran.returncode else ""


@contextmanager
def copied() -> Iterator[Copy]:
    """Yields a copy of the tree, and deletes it afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT))
        yield Copy(root)


def parts(mistake: Mistake) -> list[tuple[By, Sequence[str]]]:
    """Returns the tests that may notice a mistake, in three parts."""
    return [*(("shipped", arguments) for arguments in SHIPPED), ("quick", [f"tests/vllm/{mistake.room}"])]


def asked(copy: Copy, mistake: Mistake) -> Answer:
    """Plants a mistake and returns what notices it."""
    with copy.with_one(mistake):
        for by, arguments in parts(mistake):
            if failed := copy.failed(arguments):
                return Answer(by, failed)
    return Answer("nothing", "")


def main(names: Sequence[str]) -> None:
    counts = {"shipped": 0, "quick": 0, "nothing": 0}
    with copied() as copy:
        for mistake in MISTAKES:
            if not names or mistake.name in names:
                answer = asked(copy, mistake)
                counts[answer.by] += 1
                print(f"{mistake.program:20} {mistake.name:30} {answer.by}", flush=True)
                if names:
                    print(answer.failed, flush=True)
    print(", ".join(f"{by} {count}" for by, count in counts.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
