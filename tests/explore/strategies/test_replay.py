"""Tests the replay of a schedule, both strict and fallback, on a toy program.

A strict replay stops at the first word of the schedule that does not fit the run. A fallback replay skips such words,
and reports which ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from dpsim.contract.schedule import CutOff
from dpsim.explore.strategies.replay import Mismatch, ScheduleReplay
from dpsim.explore.strategies.walks import RandomWalk
from tests import ROOT
from tests.explore.toy import Seen, Toy

TOY = Toy("wx rx", "rx wx", "?x")


def schedules(toy: Toy, runs: int = 20) -> list[tuple[list[str], Seen]]:
    """Returns the schedules of some random runs, each with what the run showed."""
    walk, found = RandomWalk(), []
    for _ in range(runs):
        walk.begin()
        found.append((walk.schedule, toy.run(walk)))
        walk.end(True)
    return found


def follow(toy: Toy, noted: Sequence[str], strict: bool = True) -> tuple[ScheduleReplay, Seen]:
    replay = ScheduleReplay(noted, strict)
    assert replay.begin()
    seen = toy.run(replay)
    replay.end(True)
    return replay, seen


def test_there_is_one_run_in_a_schedule() -> None:
    replay, _ = follow(Toy("wx"), ["rank 0 wx[0]"])
    assert not replay.begin()


@pytest.mark.parametrize("strict", [True, False])
def test_every_schedule_gives_its_run(strict: bool) -> None:
    drawn = set()
    for noted, seen in schedules(TOY):
        replay, again = follow(TOY, noted, strict)
        assert again == seen
        assert (replay.schedule, replay.skipped, replay.added) == (noted, [], [])
        drawn |= {word for word in noted if "draw" in word}
    assert len(drawn) == 2, "draws are replayed: both options were seen"


def test_strict_stops_at_the_first_difference() -> None:
    noted = ["rank 0 wx[0]", "rank 1 rx[0]", "rank 1 wx[1]", "rank 0 rx[1]"]
    with pytest.raises(Mismatch) as raised:
        follow(Toy("wx rx", "rx rx"), noted)
    assert str(raised.value) == (
        "choice 3 of 4 of the schedule: expected 'rank 1 wx[1]', possible are 'rank 0 rx[1]', 'rank 1 rx[1]'. Likely "
        "causes: the protocol or the scenario has changed since the schedule was noted. Or the run depends on "
        "something beside the schedule (a clock, an unseeded random number, state that outlives a run)"
    )


def test_strict_refuses_a_schedule_that_is_too_short() -> None:
    with pytest.raises(
        Mismatch, match=r"choice 2 of 1 of the schedule: expected the end, possible are 'rank 0 rx\[1\]'. "
    ):
        follow(Toy("wx rx"), ["rank 0 wx[0]"])


def test_strict_where_the_run_ends_early() -> None:
    with pytest.raises(
        Mismatch, match=r"ended after choice 1 of 3 of the schedule, which goes on with 'rank 0 rx\[1\]'. L"
    ):
        follow(Toy("wx"), ["rank 0 wx[0]", "rank 0 rx[1]", "rank 0 rx[2]"])


def test_a_strict_replay_stops_at_a_draw_that_the_schedule_lacks() -> None:
    with pytest.raises(
        Mismatch, match=r"choice 1 of 1 of the schedule: expected 'rank 0 rx\[0\]', possible are 'rank 0 dra"
    ):
        follow(Toy("?x"), ["rank 0 rx[0]"])


def test_fallback_skips_and_says_what() -> None:
    """The schedule is one of an older program. Of its three actors one no longer exists, one now has more ops, and one
    has a different op. The replay reports the words that it skipped, and the steps that it added.
    """
    noted = ["rank 2 wx[0]", "rank 0 wx[0]", "rank 1 rx[0]", "rank 0 rx[1]", "rank 1 wx[1]"]
    replay, _ = follow(Toy("wx rx ry", "rx rx"), noted, strict=False)
    assert replay.schedule == ["rank 0 wx[0]", "rank 1 rx[0]", "rank 0 rx[1]", "rank 1 rx[1]", "rank 0 ry[2]"]
    assert replay.skipped == ["rank 2 wx[0]", "rank 1 wx[1]"]
    assert replay.added == ["rank 1 rx[1]", "rank 0 ry[2]"]


def test_a_fallback_replay_finds_draws_at_any_position() -> None:
    """In a normal form all draws come first. A fallback replay finds them there, and skips no step because of them."""
    toy = Toy("wx ?y", "?x wx")
    for noted, seen in schedules(toy):
        steps = [word for word in noted if "draw" not in word]
        draws = [word for word in noted if "draw" in word]
        replay, again = follow(toy, [*draws, *steps], strict=False)
        assert again == seen
        assert (replay.skipped, replay.added) == ([], [])


def test_fallback_without_the_draws_says_so() -> None:
    replay, _ = follow(Toy("?x"), ["rank 0 draw[1]: writes", "rank 0 ?x[0]"], strict=False)
    assert replay.added == ["rank 0 draw[0]: reads"]
    assert replay.skipped == ["rank 0 draw[1]: writes"]


def test_a_replay_ends_like_any_run() -> None:
    replay = ScheduleReplay(["rank 0 rx[0]"], strict=False, longest=3)
    replay.begin()
    with pytest.raises(CutOff, match="3 choices"):
        Toy("rx rx rx rx").run(replay)


# ---- in another process

PROGRAM = """
import sys
from tests.explore.toy import Toy
from dpsim.explore.strategies.replay import ScheduleReplay
replay = ScheduleReplay(sys.argv[1].split("|"))
replay.begin()
print(Toy("wx rx", "rx wx", "?x").run(replay).outcome)
replay.end(True)
"""


def test_a_schedule_means_the_same_in_every_process() -> None:
    noted, seen = schedules(TOY, 7)[-1]
    for seed in "01":
        env = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM, "|".join(noted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env)
        assert re.sub(r"\s+", "", done.stdout) == re.sub(r"\s+", "", str(seen.outcome)), done.stderr
