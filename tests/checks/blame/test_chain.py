"""Tests the op in which each actor is blocked, and the actors for which it waits. Each handmade journal has a twin that
differs in one record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.checks.blame.chain import chain, waits_text, way
from dpsim.checks.run_index import RunIndex
from dpsim.contract.world import CommunicatorSpec
from dpsim.diagnose.words import text
from tests.checks.handmade import Made


def states(made: Made, *ends: Any) -> list[str]:
    return [one.state for one in chain(RunIndex.of(made.world, made.run(*ends))).values()]


def waits_for(made: Made, rank: int, *ends: Any) -> tuple[int, ...]:
    return chain(RunIndex.of(made.world, made.run(*ends)))[rank].waits_for


@pytest.mark.parametrize(
    ("how", "state"), [("get", "waits"), ("idle", "idle"), ("post", "stopped"), ("", "stopped"), ("learned", "stopped")]
)
def test_the_state_of_a_host_follows_from_its_last_op(how: str, state: str) -> None:
    made = Made(2)
    if how == "post":
        made[1].post(0, "one")
    elif how == "learned":
        made[1].learned(made[1].take(), "one")
    elif how:
        made[1].take(how)
    assert states(made, "finished", "blocked") == ["ended", state]


@pytest.mark.parametrize(("end", "state"), [("died", "died"), ("raised", "raised"), ("finished", "ended")])
def test_the_state_of_a_rank_that_ended_is_its_end(end: str, state: str) -> None:
    assert states(Made(1), end) == [state]


@pytest.mark.parametrize(("joined", "state"), [(1, "waits"), (2, "stopped")])
def test_a_device_with_work_may_hold_a_host_that_is_through(joined: int, state: str) -> None:
    made = Made(2)
    for rank in range(joined):
        made[rank].collective("dp", "main")
    made[0].post(1, "one")
    assert states(made, "blocked", "finished")[0] == state


@pytest.mark.parametrize(("other", "state"), [("went on", "stopped"), ("stands there", "waits"), ("differs", "waits")])
def test_a_host_whose_peer_continued_after_the_same_op_stopped_between_ops(other: str, state: str) -> None:
    """The devices of ranks 0 and 1 wait for rank 2, so a host may be blocked at the end of its program. If the other
    rank continued after the same op, rank 0 stopped between two ops.
    """
    made = Made(3)
    for rank in (0, 1):
        if rank and other == "differs":
            made[rank].launch("first", "main")
        made[rank].collective("dp", "main")
        made[rank].post(2, "one")
    if other != "stands there":
        made[1].launch("more", "main")
    assert states(made, "blocked", "blocked", "finished")[0] == state


def test_a_member_waits_for_those_that_did_not_join() -> None:
    made = Made(3)
    for rank in (0, 2):
        made[rank].collective("cpu", None)
    assert waits_for(made, 0, "blocked", "finished", "blocked") == (1,)
    made[1].collective("cpu", None)
    assert waits_for(made, 0, "blocked", "finished", "blocked") == ()


@pytest.mark.parametrize(
    ("posts", "expected"),
    [
        ([(0, 2, "box")], (0,)),  # it posted to this mailbox before
        ([(2, 1, "other")], (1,)),  # the rank that waits posted to it
        ([(0, 1, "box")], (0,)),  # it posts to an equal mailbox of another rank
        ([(0, 1, "other")], ()),
    ],
)
def test_posts_show_the_possible_senders(posts: list[tuple[int, int, str]], expected: tuple[int, ...]) -> None:
    made = Made(3)
    for sender, to, box in posts:
        made[sender].post(to, "one", box)
    made[2].take()
    assert waits_for(made, 2, "finished", "finished", "blocked") == expected


@pytest.mark.parametrize(("key", "expected"), [("up", (0,)), ("down", (1,))])
def test_a_key_is_set_by_its_setter_or_the_listener(key: str, expected: tuple[int, ...]) -> None:
    made = Made(3)
    store = {"node": 0, "port": 5, "value": None}
    made[1].learned(made[1].note("store", "open", how="open", key="", **store), 5)
    made[0].note("store", "set", how="set", key="up", **store)
    made[2].note("store", "get", how="get", key=key, **store)
    assert waits_for(made, 2, "finished", "finished", "blocked") == expected


@pytest.mark.parametrize(("joined", "key", "expected"), [(2, "up/1", (2,)), (2, "down/1", (0, 2)), (0, "up/1", ())])
def test_a_listener_waits_for_ranks_that_joined_and_set_no_key(
    joined: int, key: str, expected: tuple[int, ...]
) -> None:
    made = Made(3)
    store = {"node": 0, "port": 5, "value": None}
    made[1].learned(made[1].note("store", "open", how="open", key="", **store), 5)
    for rank in {0, joined}:
        made[rank].learned(made[rank].note("store", "join", how="join", key="", **store), 5)
    made[0].note("store", "set", how="set", key="up/0", **store)
    made[1].note("store", "get", how="get", key=key, **store)
    assert waits_for(made, 1, "finished", "blocked", "finished") == expected


def test_the_chain_prints_the_shortest_way_between_ranks() -> None:
    made = Made(3)
    made[0].collective("cpu", None)
    made[2].post(1, "go")
    made[1].learned(made[1].take("idle"), "go")
    made[1].take("idle")
    made.world = replace(made.world, communicators=(CommunicatorSpec("cpu", "cpu", "host", (0, 1)),))
    standings = chain(RunIndex.of(made.world, made.run("blocked", "finished", "blocked")))
    path = way(standings, 0, {2})
    assert tuple(map(text, waits_text(standings, path))) == (
        "rank 0 -> rank 1 (cpu #0)",
        "rank 1 -> rank 2 (box)",
        "rank 2 stopped between two ops",
    )
    assert way(standings, 2, {0}) == ()


def test_a_run_without_end_has_no_chain() -> None:
    made = Made(1)
    made[0].take("poll")
    run = made.run("blocked")
    run.endless = (0,)
    assert chain(RunIndex.of(made.world, run)) == {}
