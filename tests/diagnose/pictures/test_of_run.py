"""Tests of pictures of runs: the marks of findings, and that a trace and gloo give the picture of the simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.cli.export import picture_of
from dpsim.contract.events import VERBS, ScheduleEvent
from dpsim.diagnose.evidence import Extras
from dpsim.diagnose.pictures.of_run import picture_of_run
from dpsim.diagnose.pictures.op import Picture
from dpsim.diagnose.pictures.rows import content
from dpsim.runner import run_scenario
from dpsim.scenario import load_scenario
from dpsim.trace import write_trace
from tests.agreeing import HEALTHY, SKIP
from tests.checks.handmade import Made
from tests.cli.commands import write


def pictured(folder: Path, text: str, backend: str = "sim", in_ticks: bool = True) -> Picture:
    result = run_scenario(load_scenario(write(folder / "x.yaml", text)), backend)
    return picture_of_run(result.world, result.run, result.findings, "x.jsonl", in_ticks)


def of_hand(made: Made) -> Picture:
    return pictured_of(made)


def pictured_of(made: Made, *ends: Any) -> Picture:
    """Returns the picture of journals made by hand, with the given ends of the ranks."""
    return picture_of_run(made.world, made.run(*ends), judge(made.world, made.run(*ends)), "by hand")


def test_a_call_that_was_left_out_is_a_hole(tmp_path: Path) -> None:
    picture = pictured(tmp_path, HEALTHY + SKIP)
    [hole] = [hole for hole in picture.holes if hole.culprit]
    assert (hole.rank, hole.op.site, hole.op.step, picture.culprits) == (1, "dp.agree", 2, (1,))
    stuck = {(op.rank, op.site): op.label for op in picture.ops if op.begin is not None and op.end is None}
    assert {stuck[rank, "dp.agree"] for rank in (0, 2)} == {"waits for rank 1"}
    assert (1, "dp.agree") not in stuck


def test_a_finding_without_a_culprit_is_in_the_first_view() -> None:
    """Draws a run whose ranks decide differently in step 2 of 8. The first view of the picture shows that step rather
    than the last ones.
    """
    made = Made(2)
    for rank in (0, 1):
        for made[rank].step in range(8):
            work = made[rank].collective("dp", None, site="agree")
            made[rank].learned(work)
            value = rank if made[rank].step == 2 else 7
            made[rank].note("decision", "mode", value=value, communicator="dp", local=False)
    picture = of_hand(made)
    assert picture.undecided
    assert picture.focus == 2
    steps = dict(content(picture)["steps"])
    first, last = content(picture)["focus"]
    assert first <= steps[2] < last < steps[5]


def test_a_get_of_a_picture_shows_what_it_took() -> None:
    """A get that did not return shows no message, and a poll without a message shows `nothing`."""
    made = Made(2)
    made[1].post(0, ("done", 0), "events")
    made[0].learned(made[0].take("idle", "events"), ("done", 0))
    made[0].learned(made[0].take("poll", "events"), None)
    made[0].take("get", "events")
    said = [op.said for op in pictured_of(made, "blocked", "finished").ops if op.rank == 0]
    assert said == ["idle events -> ('done', 0)", "poll events -> nothing", "get events"]


def test_a_run_that_holds_has_none(tmp_path: Path) -> None:
    picture = pictured(tmp_path, HEALTHY)
    assert not [*picture.holes, *picture.pairs, *picture.culprits]
    assert all(op.end is not None and not op.label for op in picture.ops)
    assert picture.lines[0].startswith("HELD")


def test_a_trace_has_the_picture_of_its_run(tmp_path: Path) -> None:
    result = run_scenario(load_scenario(write(tmp_path / "x.yaml", HEALTHY + SKIP)))
    plain = result.scenario.model_dump(mode="json", by_alias=True)
    write_trace(tmp_path / "x.jsonl", result.run, scenario=plain, verdict="violated", klass=None)
    run = picture_of_run(result.world, result.run, result.findings, "x.jsonl")
    assert content(picture_of(tmp_path / "x.jsonl")) == content(run)


@pytest.mark.slow
def test_gloo_has_the_picture_of_the_simulation(dpsim_backend: Any, tmp_path: Path) -> None:
    dpsim_backend("gloo", size=3)
    real, simulated = (content(pictured(tmp_path, HEALTHY, backend)) for backend in ("gloo", "sim"))
    assert real == simulated


def test_a_race_marks_both_accesses_and_a_wait_between_them_none() -> None:
    for ordered in (False, True):
        made = Made(1)
        rank = made[0]
        x = rank.alloc("main", 4)
        rank.launch("write", "main", writes=[x])
        if ordered:
            rank.order("main", "side")
        rank.launch("use", "side", reads=[x])
        picture = of_hand(made)
        marked = [op.site for op in picture.ops if op.marked]
        assert marked == ([] if ordered else ["write", "use"])
        assert len(picture.pairs) == (not ordered)


MOVED = [
    (("rank 0 poll[0]", "rank 1 delivers post[0]"), ["rank 0 poll", "rank 1 post"]),
    (("rank 0 poll[0]", "rank 0 poll[7]"), ["rank 0 poll"]),
    (("rank 1 post[0]", "dp #0"), ["rank 1 post", "rank 0 agree", "rank 1 agree"]),
    (("rank 1 dp #0", "rank 0 poll[0]"), ["rank 1 agree", "rank 0 poll"]),
    (("rank 0 event 5 passes", "rank 0/helper poll[0]"), []),
    *[
        ((str(ScheduleEvent("rank 0", verb, "poll", 0)), "rank 1 delivers post[0]"), ["rank 0 poll", "rank 1 post"])
        for verb in sorted(VERBS)
    ],
]


@pytest.mark.parametrize(("swap", "outlined"), MOVED)
def test_the_events_of_the_turning_have_marks(swap: tuple[str, str], outlined: list[str]) -> None:
    made = Made(2)
    for rank in (0, 1):
        made[rank].learned(made[rank].collective("dp", None, site="agree"))
    made[0].learned(made[0].take("poll"), None)
    made[1].post(0, ("go",))
    extras = Extras(swap="one before the other", swaps=(swap,))
    picture = picture_of_run(made.world, made.run(), made.findings(), "by hand", extras=extras)
    marked = [op for op in picture.ops if op.turning is not None]
    assert sorted(f"rank {op.rank} {op.site}" for op in marked) == sorted(outlined)
    words = [op.turning for op in marked if op.turning]
    assert ("sent here; rank 0 receives it too late: message ('go',) (post[0])" in words) == ("delivers" in swap[1])
    sides = {side for side in ("too early", "too late") for text in words if f"{side}:" in text}
    assert sides == {"too early", "too late"} if len(outlined) > 1 else len(sides) == len(outlined)
    assert len(picture.turns) == (len(outlined) > 1)
    assert picture.lines[-1].startswith("turning   in this run, one before the other; otherwise, ")
    assert (content(picture)["turn"] is None) == (not outlined)


def op_at(picture: Picture, rank: int, site: str) -> tuple[int | None, int | None, int | None]:
    [one] = [op for op in picture.ops if (op.rank, op.site) == (rank, site)]
    return one.begin, one.arrival, one.end


def test_a_message_is_taken_after_its_post() -> None:
    made = Made(2)
    made[0].learned(made[0].take(), ("go",))
    for step in range(3):
        made[1].step = step
        made[1].add("sleep", "nap", ns=1)
    made[1].post(0, ("go",))
    picture = of_hand(made)
    assert op_at(picture, 1, "post") == (3, 3, 4)
    assert op_at(picture, 0, "get") == (0, 4, 5)
    [take] = [op for op in picture.ops if op.site == "get"]
    [post] = [op for op in picture.ops if op.site == "post"]
    assert take.key == post.key is not None


def test_a_stream_waits_for_an_event_of_another() -> None:
    made = Made(1)
    for _ in range(3):
        made[0].launch("early", "main")
    made[0].order("main", "side")
    made[0].launch("late", "side")
    picture = of_hand(made)
    assert op_at(picture, 0, "late")[0] == 3
    made = Made(1)
    for _ in range(3):
        made[0].launch("early", "main")
    made[0].launch("late", "side")
    assert op_at(of_hand(made), 0, "late")[0] == 3, "the op begins when its host issues it"


def test_crossed_sends_never_end_if_their_ranks_are_blocked() -> None:
    for ends in (("blocked", "blocked"), ("finished", "finished")):
        made = Made(2)
        for rank, peer in ((0, 1), (1, 0)):
            made[rank].transfer("send", peer, "main")
            made[rank].transfer("recv", peer, "main")
        picture = picture_of_run(made.world, made.run(*ends), (), "by hand")
        stand = [op.said for op in picture.ops if op.begin is not None and op.end is None]
        assert len(stand) == (2 if ends[0] == "blocked" else 0)


def test_a_thread_begins_after_its_start_and_a_join_returns_after_its_end() -> None:
    made = Made(1)
    rank = made[0]
    rank.launch("kernel", "main")
    rank.about_thread("start", "helper")
    rank.thread = "helper"
    for _ in range(4):
        rank.add("sleep", "nap", ns=1)
    rank.ended()
    rank.thread = "main"
    rank.learned(rank.about_thread("join", "helper"), None)
    picture = of_hand(made)
    assert op_at(picture, 0, "helper.start") == (1, 1, 2)
    assert op_at(picture, 0, "end") == (6, 6, 7)
    assert op_at(picture, 0, "helper.join") == (2, 7, 8)


def test_a_rank_that_died_shows_it_and_peers_wait_for_it() -> None:
    made = Made(2)
    for rank in (0, 1):
        made[rank].collective("cpu", None)
    made[1].journal.clear()
    picture = picture_of_run(made.world, made.run("blocked", "died"), made.findings("blocked", "died"), "by hand")
    assert [(op.rank, op.said, op.marked) for op in picture.ops if op.kind == "died"] == [(1, "died here", True)]
    assert [op.label for op in picture.ops if op.end is None] == ["waits for rank 1"]


def of_a_store(value: str) -> Made:
    """Rank 0 sets a key to "hello". Rank 1 looks in vain, and then ranks 1 and 2 get this value."""
    made = Made(3)
    fields = {"node": 0, "port": 29, "key": "k"}
    made[0].note("store", "set", how="set", value="hello", **fields)
    made[1].learned(made[1].note("store", "look", how="get", value=0, **fields), None)
    for rank in (1, 2):
        made[rank].learned(made[rank].note("store", "get", how="get", value=None, **fields), value)
    return made


@pytest.mark.parametrize(("value", "linked"), [("hello", True), ("other", False)])
def test_a_set_and_the_gets_of_its_value_have_one_key(value: str, linked: bool) -> None:
    """A get that found nothing has no key, and the twin got a value of another set."""
    ops = {(op.rank, op.site): op for op in of_hand(of_a_store(value)).ops if op.kind == "store"}
    keys = [ops[at].key for at in [(0, "set"), (1, "get"), (2, "get")]]
    assert keys == ([("key k of node 0", 0)] * 3 if linked else [None] * 3)
    assert ops[1, "look"].key is None
    assert ops[1, "get"].begin is not None
