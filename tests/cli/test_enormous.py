"""Tests valid scenarios that are very large. dpsim refuses them before the first step, or `--memory` allows them. A
timer prints the progress.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from dpsim.cli.console import Progress
from dpsim.cli.timer import FREE, Timer
from tests.cli.commands import dpsim_, write
from tests.scenario import test_estimate  # noqa: F401  # registers t_large

HUGE = "name: big\nprotocol: {name: t_large, params: {megabytes: 9000}}\n"
SAID = (
    "dpsim: big: about 3 steps, 30 records, 9 GB; expected at most 8 GB: make it smaller, or allow more with --memory\n"
)


@pytest.mark.parametrize("command", ["run", "explore"])
def test_refused_and_allowed(command: str) -> None:
    file = write(Path("big.yaml"), HUGE)
    answer = dpsim_(command, file)
    assert (answer.code, answer.out, answer.err) == (2, "", SAID)
    answer = dpsim_(command, file, "--memory", "16GB")
    assert answer.code == 0
    assert "dpsim: big: about 3 steps, 30 records, 9 GB\n" in answer.err
    assert dpsim_(command, file).code == 2, "the next command has the usual limit"
    answer = dpsim_(command, file, "--memory", "much")
    assert (answer.code, answer.err) == (
        2,
        "dpsim: --memory: 'much' is no size of memory; expected e.g. 16GB or 500MB\n",
    )


def test_a_stranger_s_trace_asks_for_it() -> None:
    dpsim_("run", write(Path("small.yaml"), HUGE.replace("9000", "1")), "--trace", "x.jsonl")
    header, rest = Path("x.jsonl").read_text().split("\n", 1)
    asked = json.loads(header)
    asked["scenario"]["protocol"]["params"]["megabytes"] = 9000
    Path("x.jsonl").write_text(json.dumps(asked, separators=(",", ":")) + "\n" + rest)
    answer = dpsim_("replay", "x.jsonl")
    assert (answer.code, answer.out, answer.err) == (2, "", SAID)


def test_a_timer_rings_while_python_computes() -> None:
    rung: list[int] = []
    timer = Timer(0.005, lambda: rung.append(1))
    timer.start()
    try:
        turns = 0
        while len(rung) < 3 and turns < 1_000_000_000:
            turns += 1
    finally:
        timer.stop()
    assert len(rung) == 3
    assert signal.getsignal(signal.SIGALRM) in FREE
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_timer_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGALRM, other)
    try:
        timer = Timer(0.001, lambda: None)
        timer.start()
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        timer.stop()
        assert signal.getsignal(signal.SIGALRM) is other
    finally:
        signal.signal(signal.SIGALRM, before)


def test_progress_before_the_first_step(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with Progress("x on sim", lambda: now[0]) as progress:
        assert signal.getsignal(signal.SIGALRM) not in FREE, "SIGALRM without a handler would end this process"
        for seconds in (4, 11, 12, 22):
            now[0] = seconds
            signal.raise_signal(signal.SIGALRM)
        progress(3, 7)
        now[0] = 33
        signal.raise_signal(signal.SIGALRM)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "dpsim: x on sim: no step yet after 11 s",
        "dpsim: x on sim: no step yet after 22 s",
        "dpsim: x on sim: step 3 of 7 after 33 s",
    ]
