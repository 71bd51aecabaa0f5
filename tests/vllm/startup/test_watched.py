"""Injects a death or an exception at each op of each participant of `startup_watched`, a start that watches processes.

All others must end, and the front end must name the failed participant even while others are blocked (invariant
I-ST-10). Faulty twins leave out one watch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dpsim.vllm.startup.watched import DIED, Watching
from tests.vllm.startup.worlds import Seen, addresses, explored, run, start


def watched(**more: Any) -> Any:
    return start(program="startup_watched", **more)


def faults(kind: str, every: int = 1, **world: Any) -> Iterator[tuple[str | int, Seen]]:
    """Yields the participant that fails, and its run."""
    for who, site, ordinal in list(addresses(run(watched(**world))))[::every]:
        fault = {"kind": kind, "rank": who, "at": {"site": site, "ordinal": ordinal}}
        yield who, run(watched(faults=[fault], **world))


TOLD = {DIED, "InjectedError"}


def words_of_the_error(seen: Seen) -> set[str]:
    """Returns the words of the front end's error."""
    return set(seen.errors.get("frontend", "").replace(":", "").split())


def wrong(who: str | int, seen: Seen) -> list[str]:
    """Returns what is wrong with a run in which a participant fails. No participant reports only a
    time-out.

    A front end that already serves need not report it. Else it reports the exception, or that the process is gone if
    the process failed before it had a connection to its parent.
    """
    found = [f"{name} is blocked at the end" for name in seen.ended("blocked")]
    found += [f"{name} reports only a time-out" for name, said in seen.errors.items() if said.startswith("NobodyCame")]
    if who != "frontend" and "frontend" not in seen.serving and not TOLD & words_of_the_error(seen):
        found.append(f"the front end does not report it: {seen.errors.get('frontend')}")
    return found


@pytest.mark.parametrize("form", ["0.33", "0.14"])
@pytest.mark.parametrize("sizes", [{"dp": 1}, {"dp": 1, "tp": 2}, {"dp": 2}, {"config": {"nnodes": 2}}], ids=str)
def test_without_a_death_all_serve(form: str, sizes: dict[str, Any]) -> None:
    seen = run(watched(form=form, **sizes))
    assert seen.up
    assert seen.wrong() == []
    assert run(start(form=form, **sizes)).serving == seen.serving


@pytest.mark.parametrize("kind", ["die", "raise"])
@pytest.mark.parametrize(
    ("sizes", "every"),
    [
        ({"dp": 1, "tp": 2}, 5),
        pytest.param({"dp": 1, "tp": 2}, 1, marks=pytest.mark.slow),
        pytest.param({"dp": 2}, 1, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_death_or_exception_at_any_op_of_the_start_ends_all_participants(
    kind: str, sizes: dict[str, Any], every: int
) -> None:
    seen = list(faults(kind, every, **sizes))
    assert len(seen) > 150 // every
    assert [found for who, one in seen for found in wrong(who, one)] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["die", "raise"])
def test_a_death_on_two_nodes_ends_all_participants(kind: str) -> None:
    """A front end cannot see processes of another node, so it waits for them as long as the front end of `startup`."""
    seen = list(faults(kind, config={"nnodes": 2}))
    assert [one.ended("blocked") for _, one in seen if one.ended("blocked")] == []
    assert max(one.run.elapsed_ns for _, one in seen) <= 3_700_000_000_000


def test_after_a_death_a_worker_reports_no_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 dies before it meets rank 0 at a port, which waits there for 100 s. The twin looks for no notice then."""
    fault = {"kind": "die", "rank": 1, "at": {"site": "world.join", "ordinal": 0}}
    assert wrong(1, run(watched(dp=1, tp=2, faults=[fault]))) == []
    monkeypatch.delattr(Watching, "come_up")
    assert wrong(1, run(watched(dp=1, tp=2, faults=[fault]))) == ["rank 0 reports only a time-out"]


def test_a_death_of_a_worker_is_known_at_once() -> None:
    """A worker dies in a collective, on which its peer blocks. The peer's own engine ends the peer at once.

    The faulty twin is `startup`, in which no parent watches processes.
    """
    fault = {"kind": "die", "rank": 1, "at": {"site": "profile.experts", "ordinal": 0}}
    seen = run(watched(faults=[fault]))
    assert seen.errors["frontend"] == ("OneFailed: engine.1 failed: Died: worker 1 failed: Died: its process is gone")
    assert seen.ended("blocked") == []
    assert seen.run.elapsed_ns < 1_000_000_000
    assert run(start(faults=[fault])).ended("blocked") == ["rank 0"], "the twin: no parent process watches its children"


@pytest.mark.parametrize(("who", "site"), [(0, "world.open"), ("engine.0", "store_of_engine.open")])
def test_a_death_in_every_schedule(who: str | int, site: str) -> None:
    fault = {"kind": "die", "rank": who, "at": {"site": site, "ordinal": 0}}
    result, seen = explored(watched(dp=1, faults=[fault]))
    assert result.verdict == "proven"
    assert len(seen) > 20
    assert all(f": {DIED}: " in one.errors["frontend"] for one in seen)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["dpor", "random"])
@pytest.mark.parametrize(
    ("who", "site"),
    [(0, "profile.experts"), ("engine.1", "hear.warm"), ("coordinator", "ready"), ("frontend", "hear.ready")],
)
def test_a_death_in_many_schedules(who: str | int, site: str, by: str) -> None:
    """The schedules are sampled, because the watching thread of a worker may run between any two of its calls."""
    fault = {"kind": "die", "rank": who, "at": {"site": site, "ordinal": 0}}
    _, seen = explored(watched(faults=[fault]), 60, by)
    assert [one.ended("blocked") for one in seen if one.ended("blocked")] == []


# ---- twins


@pytest.mark.parametrize(
    ("variant", "sizes", "site", "stands"),
    [
        ("startup-no-sentinel", {"dp": 1}, "world.open", ["frontend", "engine.0"]),
        ("startup-no-death-pipe", {"dp": 1, "tp": 2}, "profile.rows_parallel", ["rank 1"]),
    ],
)
def test_a_watch_that_is_left_out(variant: str, sizes: dict[str, Any], site: str, stands: list[str]) -> None:
    world = {**sizes, "faults": [{"kind": "die", "rank": 0, "at": {"site": site, "ordinal": 0}}]}
    assert run(watched(**world)).ended("blocked") == []
    assert run(watched(**world, variant=variant)).ended("blocked") == stands
