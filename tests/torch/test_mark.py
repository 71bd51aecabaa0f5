"""Tests of `dpsim.mark`: outside of dpsim a mark has no effect, and the module imports nothing. Under dpsim, a report
names the line of each mark.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from dpsim import mark
from dpsim.diagnose.words import text
from tests.torch.runs import explored


def test_a_mark_does_nothing_by_itself_and_imports_nothing() -> None:
    code = (
        "import sys; from dpsim import mark; mark.step(1); mark.decide('x', 2); "
        "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'numpy') or name.startswith('dpsim.')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "['dpsim.mark']"


def test_a_listener_receives_marks() -> None:
    heard: list[Any] = []

    class Heard(mark.Listener):
        def step(self, number: int) -> None:
            heard.append(number)

        def decide(self, label: str, value: Any, group: Any) -> None:
            heard.append((label, value, group))

    listener = Heard()
    mark.listen(listener)
    try:
        mark.step(3)
        mark.decide("tokens", [1, 2])
    finally:
        mark._listeners.remove(listener)
    assert heard == [3, ("tokens", [1, 2], None)]


def test_a_report_names_the_line_of_each_decision() -> None:
    """Both ranks decide the same label, each at its own line."""
    [finding] = explored("decided.py", 2).findings
    assert tuple(map(text, finding.details)) == (
        "rank 0 decided side = left at decided.py:10",
        "rank 1 decided side = right at decided.py:12",
    )
