"""Tests of the request counts that engines send to the coordinator, and by which front ends balance their requests.

The tests check when an engine sends counts. Every published count was true at some time, counts never go back, and the
last counts are published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.contract.ops import KIND, POST_CONTENT, POST_TO, SITE
from dpsim.scenario import ScenarioError
from dpsim.vllm.engine.client import ClientView, ClientView033
from dpsim.vllm.engine.coordination import Coordination, Coordination033, Counts, Load, Published, Sent
from dpsim.vllm.engine.request_counts import RequestCounts, RequestCounts028
from tests.properties import breaks, holds
from tests.vllm.engine.group_worlds import Seen, explored, group, run

PUBLISHED: dict[str, Any] = {"swaps": {"counts": "published"}}
ALONE: dict[str, Any] = PUBLISHED | {"requests": [3], "max_num_seqs": 1, "interval": 2}


def posted(seen: Seen, actor: int, site: str) -> list[Any]:
    return [raw[POST_CONTENT] for raw in seen.run.journals[actor] if (raw[KIND], raw[SITE]) == ("post", site)]


# ---- an engine


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("0.33", [(1, 0, 0.0), (0, 1, 0.0), (0, 0, 0.0)]),
        ("0.28", [(1, 0, 0.0), (0, 1, 0.0), (0, 0, 0.0)]),
        ("0.24", [(1, 0), (0, 1), (0, 0)]),
        ("0.14", [(0, 1), (0, 0)]),
    ],
)
def test_an_engine_sends_its_counts(form: str, told: list[tuple[object, ...]]) -> None:
    """An engine sends its counts when a request waits, runs and ends. Release 0.14 sends nothing while it waits.

    Engine 1 has no request and sends nothing.
    """
    seen = run(group(form, **ALONE))
    assert seen.classes == []
    assert [tuple(event[4:]) for event in posted(seen, 0, "engine.counts")] == told
    assert posted(seen, 1, "engine.counts") == []


def test_counts_have_the_step_and_wave_at_the_start_of_the_step() -> None:
    """Counts have the step and the wave at the start of the counted step: two steps, and then another wave."""
    seen = run(group(**ALONE | {"requests": [2, (1, 9)]}, control=[(1, ("WAIT",))]))
    stamps = {(event[2], event[3]) for event in posted(seen, 0, "engine.counts")}
    assert stamps <= {(step, wave) for step in (0, 1) for wave in (0, 1)}
    assert [event[1:6] for event in posted(seen, 0, "engine.counts")][:3] == [
        (0, 0, 0, 1, 0),
        (0, 0, 0, 0, 1),
        (0, 1, 0, 0, 0),
    ]


class SendsOnlyTheLastCounts(RequestCounts028):
    """The engine sends only its last counts, when all requests have ended."""

    def publish(self) -> None:
        if self.scheduler.counts == (0, 0):
            super().publish()


class Again(RequestCounts):
    """The engine sends its counts after each step, even if they have not changed."""

    def publish(self) -> None:
        self.last = (-1, -1)
        super().publish()


@pytest.mark.parametrize("twin", [SendsOnlyTheLastCounts, Again, RequestCounts])
def test_another_rule_gives_another_answer(twin: type[RequestCounts]) -> None:
    """Each faulty rule sends other counts."""
    seen = run(group(**ALONE, pieces={RequestCounts: twin}))
    assert [tuple(event[4:6]) for event in posted(seen, 0, "engine.counts")] != [(1, 0), (0, 1), (0, 0)]


# ---- the published counts


def untrue(told: Sequence[Sequence[object]], published: Sequence[Counts], idle: Load = (0, 0)) -> str:
    """Returns what is wrong with published counts, or "".

    `told` has the counts that each engine sent, in order, and `published` the publications. `idle` is the load of an
    engine without requests.
    """
    for engine, own in enumerate(told):
        history: Iterator[object] = iter([idle, *own])
        now = next(history)
        for number, counts in enumerate(published):
            while now != counts[engine]:
                now = next(history, None)
                if now is None:
                    return f"publication {number} says {counts[engine]} of engine {engine}, too late or never true"
    return ""


def counts_of(sent: Sequence[Sent]) -> list[Counts]:
    return [one.message.counts for one in sent if isinstance(one.message, Published) and one.message.counts is not None]


Stamp = tuple[int, int, bool]
STAMPS: st.SearchStrategy[list[Stamp]] = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), min_size=1, max_size=12
)
"""One message of counts: its engine, the steps since the engine's last message, and whether to publish now."""


def coordinated(kind: type[Coordination], drawn: Sequence[Stamp]) -> str:
    """Sends drawn counts, all different, to a coordinator, which publishes all. Returns what is wrong, or ""."""
    coordinator, told, steps = kind(3), [list[object]() for _ in range(3)], [0, 0, 0]
    published: list[Counts] = []
    for number, (engine, further, alone) in enumerate(drawn):
        steps[engine] += further
        told[engine].append((number + 1, number, *kind.idle[2:]))
        coordinator.counts(engine, steps[engine], 0, number + 1, number)
        if alone and coordinator.unpublished:
            published += counts_of(coordinator.published())
    while coordinator.unpublished:
        published += counts_of(coordinator.published())
    last = tuple(own[-1] if own else kind.idle for own in told)
    return untrue(told, published, kind.idle) or (
        "" if published[-1] == last else f"{published[-1]} stays, and {last} is true"
    )


def true(kind: type[Coordination], drawn: Sequence[Stamp]) -> None:
    found = coordinated(kind, drawn)
    assert not found, found


@pytest.mark.parametrize("kind", [Coordination, Coordination033])
def test_every_published_count_was_true(kind: type[Coordination]) -> None:
    """Everything that the coordinator publishes was true at some time, for random counts."""
    holds(lambda drawn: true(kind, drawn), STAMPS)


class Forgets(Coordination033):
    """When the coordinator publishes the counts of the step before, it also forgets those of this step."""

    def published(self) -> list[Sent]:
        kept = self._counts_of_step_before is not None
        sent = super().published()
        self._counts_changed = self._counts_changed and not kept
        return sent


class NewestFirst(Coordination033):
    """The coordinator publishes the kept counts of the step before after the newer ones."""

    def published(self) -> list[Sent]:
        kept, self._counts_of_step_before = self._counts_of_step_before, None
        if not self._counts_changed:
            return [self._state(kept)]
        sent = super().published()
        self._counts_of_step_before = kept
        return sent


class OfTheNext(Coordination033):
    """The coordinator stores the counts of an engine for the next engine."""

    def counts(self, engine: int, step: int, wave: int, waiting: int, running: int, usage: float = 0.0) -> list[Sent]:
        return super().counts((engine + 1) % 3, step, wave, waiting, running, usage)


@pytest.mark.parametrize(
    ("twin", "said"), [(Forgets, "stays"), (NewestFirst, "too late|stays"), (OfTheNext, "never true")]
)
def test_a_publication_that_was_not_true_is_found(twin: type[Coordination], said: str) -> None:
    breaks(lambda drawn: true(twin, drawn), STAMPS, said)


@pytest.mark.parametrize("form", ["0.33", "0.14"])
def test_both_front_ends_of_a_group_receive_every_publication(form: str) -> None:
    """In a group of three engines and two front ends, every publication was true, and both front ends receive it.

    The check fails if the first message of each engine is left out.
    """
    seen = run(group(form, dp=3, requests=[3, 1, 4, 1, 2], frontends=2, interval=2, max_num_seqs=1, **PUBLISHED))
    assert seen.classes == []
    told = [[tuple(event[4:]) for event in posted(seen, rank, "engine.counts")] for rank in range(3)]
    stats = [one[0] for one in posted(seen, 3, "coordinator.state") if one[0] is not None]
    assert len(stats) >= 2 * 2
    assert stats[::2] == stats[1::2]
    idle = (0, 0, 0.0)[: len(stats[0][0])]
    assert untrue(told, stats[::2], idle) == ""
    assert untrue([own[1:] for own in told], stats[::2], idle)


# ---- front ends

LATE: dict[str, Any] = {"requests": [(20, 0), (1, 0), (1, 9)], "interval": 2}
ECHOES = [(time, ("ECHO",)) for time in range(1, 9)]
"""Calls that let time pass: the front end sends them to the engines and waits for their answers."""


def engines_of_requests(seen: Seen) -> list[int]:
    """Returns the engine of each request."""
    posts = [raw for raw in seen.run.journals[3] if (raw[KIND], raw[SITE]) == ("post", "frontend.add")]
    return [raw[POST_TO] for raw in posts]


def test_front_ends_balance_by_them() -> None:
    """With published counts, a front end sends the third request to engine 1, whose short request has ended.

    A front end that counts only its own requests assumes equal loads.
    """
    assert engines_of_requests(run(group(**LATE, control=ECHOES))) == [0, 1, 0]
    assert engines_of_requests(run(group(**LATE, control=ECHOES, **PUBLISHED))) == [0, 1, 1]


class OfOthers(ClientView033):
    """The front end takes the counts of one engine for those of another."""

    def update_counts(self, counts: Counts | None, wave: int, running: bool) -> None:
        super().update_counts(counts and (*counts[1:], counts[0]), wave, running)


def test_a_wrong_load_is_found() -> None:
    """A front end raises on a load that cannot be true.

    It is the only one that sends to these engines, and the wrong counts give a request to an engine without one.
    """
    world: dict[str, Any] = {"requests": [(9, 0), (1, 5)], "control": ECHOES, "interval": 2}
    assert run(group(**world, **PUBLISHED)).classes == []
    assert run(group(**world, **PUBLISHED, pieces={ClientView: OfOthers})).classes == ["CRASH:WRONGLOAD"]


class Swapped(ClientView033):
    """The front end exchanges the numbers of waiting and running requests."""

    def update_counts(self, counts: Counts | None, wave: int, running: bool) -> None:
        super().update_counts(counts and tuple((run, wait, usage) for wait, run, usage in counts), wave, running)


def test_swapped_counts_are_found() -> None:
    """With exchanged counts, more requests would run than an engine has slots for, so the front end raises."""
    world: dict[str, Any] = {"requests": [9, 9, 9, 9, 9, 9, (1, 5)], "control": ECHOES, "interval": 2, "frontends": 2}
    assert run(group(**world, max_num_seqs=1, **PUBLISHED)).classes == []
    seen = run(group(**world, max_num_seqs=1, **PUBLISHED, pieces={ClientView: Swapped}))
    assert seen.classes == ["CRASH:WRONGLOAD"]
    assert "expected at most 1" in seen.findings[0].message


# ---- schedules


@pytest.mark.parametrize(("form", "schedules"), [("0.33", 26), ("0.14", 6)])
def test_one_request_with_published_counts_is_proven(form: str, schedules: int) -> None:
    found = explored(group(form, requests=[1], interval=1, **PUBLISHED), 3_000)
    assert (found.verdict, found.failures, found.runs) == ("proven", {}, schedules)


# ---- what is refused


@pytest.mark.parametrize(
    "config",
    [
        {"dp": 1},
        {"data_parallel_external_lb": True, "frontends": 2},
        {"distributed_executor_backend": "external_launcher"},
    ],
)
def test_published_counts_need_balancing_front_ends(config: dict[str, Any]) -> None:
    """A group whose front ends do not balance refuses published counts."""
    with pytest.raises(ScenarioError, match=r"protocol\.pieces\.counts: published; expected own"):
        group(**config, **PUBLISHED)
