"""Plants one fault at a random call of a healthy run. The first finding has to name the rank and step of the fault.
`tests/vllm/data_parallel/test_blame.py` does the same with the steps of an engine.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from dpsim.checks.run_index import RunIndex
from dpsim.checks.usual_step import UsualStep
from dpsim.contract.interface import Rank
from dpsim.contract.ops import COUNT, KIND, ORDINAL, SITE, STEP, RawRecord
from dpsim.contract.words import ranks_text
from dpsim.contract.world import At, Delay, Fault, Run, World
from dpsim.diagnose.words.told import Told
from dpsim.sim.backend import SimBackend
from tests.checks.handmade import Made
from tests.judged import judge, said
from tests.programs import judged, world_of
from tests.properties import examples
from tests.protocols import agreed

CLASSES = {
    "skip": {"HANG:COLLECTIVE:MISSING_RANK", "MISMATCH:COLLECTIVE:STEP"},
    "repeat": {"HANG:COLLECTIVE:EXTRA_CALL", "MISMATCH:COLLECTIVE:STEP"},
    "count": {"MISMATCH:COLLECTIVE:COUNT"},
    "dtype": {"MISMATCH:COLLECTIVE:DTYPE"},
    "op": {"MISMATCH:COLLECTIVE:OP"},
}


def world(ranks: int, **more: Any) -> World:
    return world_of(ranks, ["dp_cpu"], ["dp", "ep"], **more)


def drawn(rng: random.Random, ranks: int) -> dict[str, Any]:
    """Draws parameters of the protocol `t_agree`."""
    return {
        "ranks": ranks,
        "steps": rng.randint(4, 12),
        "tokens": [rng.choice([0, 1, rng.randint(1, 700)]) for _ in range(rng.randint(1, 20))],
        "on_device": rng.random() < 0.5,
        "experts": rng.randint(1, 2),
    }


def plant(rng: random.Random, journal: list[RawRecord]) -> tuple[str, RawRecord, Fault]:
    """Draws a fault at a collective of a rank. Returns its kind, the record that it hits, and the fault."""
    record = rng.choice([record for record in journal if record[KIND] == "collective"])
    kind = rng.choice(sorted(CLASSES))
    changes: dict[str, dict[str, Any]] = {"count": {"count": record[COUNT] + 1}, "dtype": {"dtype": "int64"}}
    change = {**changes, "op": {"op": "broadcast"}}.get(kind, {})
    what: Any = "alter" if change else kind
    return kind, record, Fault(what, 0, At(record[SITE], record[ORDINAL]), change)


def run(told: World, params: dict[str, Any], variant: str | None = None) -> tuple[Run, list[Told]]:
    done = SimBackend().run(told, "t_agree", agreed(params, variant).arguments())
    return done, judge(told, done)


@examples(8, 75, 300)
@pytest.mark.parametrize("ranks", [3, 4, 5])
def test_a_fault_is_blamed_where_it_was_planted(ranks: int, examples: int) -> None:
    rng = random.Random(ranks)
    for _ in range(examples):
        params = drawn(rng, ranks)
        healthy, nothing = run(world(ranks), params)
        assert not nothing
        culprit = rng.randrange(ranks)
        kind, record, fault = plant(rng, healthy.journals[culprit])
        _, findings = run(world(ranks, faults=(fault._replace(rank=culprit),)), params)
        assert findings, f"{kind} at {record} was not found"
        found = findings[0]
        assert found.klass in CLASSES[kind]
        assert found.culprit is not None
        assert (found.culprit.rank, found.culprit.step, found.culprit.site) == (culprit, record[STEP], record[SITE])


@examples(20, 150, 600)
def test_with_two_ranks_history_decides_or_no_rank_is_blamed(examples: int) -> None:
    rng = random.Random(2)
    named = 0
    for _ in range(examples):
        params = drawn(rng, 2)
        healthy, _ = run(world(2), params)
        culprit = rng.randrange(2)
        kind, record, fault = plant(rng, healthy.journals[culprit])
        _, findings = run(world(2, faults=(fault._replace(rank=culprit),)), params)
        assert findings, f"{kind} at {record} was not found"
        if findings[0].culprit is not None:
            named += 1
            assert (findings[0].culprit.rank, findings[0].culprit.step) == (culprit, record[STEP])
    assert named > 0.7 * examples, "two ranks have no majority, but most faults break with what is usual"


def test_a_rank_that_dies_is_the_culprit_and_its_peers_wait() -> None:
    rng = random.Random(7)
    for _ in range(30):
        params = drawn(rng, 3)
        healthy, _ = run(world(3), params)
        record = rng.choice([record for record in healthy.journals[1] if record[KIND] == "collective"])
        done, findings = run(world(3, faults=(Fault("die", 1, At(record[SITE], record[ORDINAL])),)), params)
        assert done.ends[1] == "died"
        assert findings[0].klass == "HANG:COLLECTIVE:DEAD_RANK"
        assert findings[0].culprit is not None
        assert (findings[0].culprit.rank, findings[0].culprit.step) == (1, record[STEP])


def test_delays_change_time_and_nothing_else() -> None:
    rng = random.Random(11)
    for _ in range(20):
        params = drawn(rng, 3)
        healthy, _ = run(world(3), params)
        late = (
            Delay(0, At("experts.combine"), 300_000),
            Delay(1, At(), 2_000_000),
            Delay(2, At("dp.agree", 1), 5_000_000),
        )
        done, findings = run(world(3, delays=late), params)
        assert not findings
        assert done.elapsed_ns > healthy.elapsed_ns
        plain = [[record for record in journal if record[KIND] != "injected"] for journal in done.journals]
        assert plain == healthy.journals


def test_ranks_that_leave_out_a_whole_step_are_blamed_though_they_are_the_majority() -> None:
    """One of three ranks is busy; the two idle ranks skip whole steps. They are blamed, though they are the
    majority.
    """
    _, findings = run(world(3), {"ranks": 3, "steps": 4, "tokens": [8, 8, 8, 8, 0, 0]}, "T-SKIPS")
    assert findings[0].klass == "HANG:COLLECTIVE:MISSING_RANK"
    assert said(findings[0], "left_out")["ranks"] == (1, 2)
    assert findings[0].culprit is not None
    assert findings[0].culprit.rank == 1


def test_a_majority_that_leaves_out_what_every_step_has_is_blamed() -> None:
    faults = tuple(Fault("skip", rank, At("dp.agree", 5)) for rank in (1, 2, 3))
    _, findings = run(world(4, faults=faults), {"ranks": 4, "steps": 12})
    assert findings[0].klass == "HANG:COLLECTIVE:MISSING_RANK"
    assert said(findings[0], "left_out")["ranks"] == (1, 2, 3)


@pytest.mark.parametrize(
    ("calls", "ground"),
    [
        ((0, 0, 0, 1), "3 of 4 ranks left it out in step 0"),
        ((1, 1, 1, 0), "3 of 4 ranks made it in step 0"),
        ((1, 1, 1, 2), "3 of 4 ranks made 1 call there in step 0"),
    ],
)
def test_a_majority_that_decides_is_the_ground(calls: tuple[int, ...], ground: str) -> None:
    """Every rank takes part in the step, and rank 3 makes another number of calls than its peers."""

    async def script(rank: Rank) -> None:
        rank.step = 0
        await rank.host("all_cpu").barrier(site="begin")
        for _ in range(calls[rank.rank]):
            await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="agree")
        rank.step = 1
        await rank.host("all_cpu").barrier(site="end")

    first = judged(world_of(4, ["dp_cpu", "all_cpu"]), script)[0]
    assert first.culprit is not None
    assert (first.culprit.rank, first.grounds) == (3, (ground,))
    assert first.culprit.of_peer is (calls[3] == 0), "the line of a rank that made the call is its own"


def test_without_any_evidence_the_message_takes_no_side() -> None:
    faults = (Fault("repeat", 1, At("dp.agree", 0)),)
    _, findings = run(world(2, faults=faults), {"ranks": 2, "steps": 2})
    assert findings[0].culprit is None
    assert findings[0].message.startswith("ranks differ in step 0 from dp.agree on; it is unclear which are right")


@pytest.mark.parametrize(("before", "usual"), [(1, None), (2, 1)])
def test_a_call_of_each_step_before_is_usual_from_two_steps_on(before: int, usual: int | None) -> None:
    """Both ranks called in each earlier step, and then only rank 1 calls. For a doubt, one such step suffices."""
    made = Made(2)
    for hand in made.hands:
        for step in range(before + hand.rank):
            hand.step = step
            hand.collective("cpu", None)
        hand.step = before
        hand.launch("kernel", "main")
    steps = UsualStep(RunIndex.of(made.world, made.run()))
    assert steps.number_of_calls("cpu", before) == usual
    assert steps.number_of_calls("cpu", before, least=1) == 1


@pytest.mark.parametrize("skip", [(0, 1), (2,)])
def test_a_majority_against_each_step_before_decides_nothing(skip: tuple[int, ...]) -> None:
    """Ranks of `skip` leave out a barrier of step 1, which all made in step 0. The twin is a minority that does so."""

    async def script(rank: Rank) -> None:
        for rank.step in range(3):
            group = rank.host("dp_cpu")
            await group.all_reduce(np.ones(1, np.int32), site="agree")
            if rank.step != 1 or rank.rank not in skip:
                await group.barrier(site="sync")

    first = judged(world_of(3, ["dp_cpu"]), script)[0]
    if len(skip) == 1:
        assert first.culprit is not None
        assert first.culprit.rank == 2
    else:
        assert first.culprit is None
        assert first.why == "2 of 3 ranks made 1 call there in step 1, but 2 calls in each step before"


def test_a_rank_that_dies_with_work_outstanding_is_named() -> None:
    faults = (Fault("die", 1, At("experts.read", 4)),)
    done, findings = run(world(3, faults=faults), {"ranks": 3, "steps": 12})
    assert done.ends == ["blocked", "died", "blocked"]
    assert findings[0].klass == "HANG:COLLECTIVE:DEAD_RANK"
    assert findings[0].culprit is not None
    assert findings[0].culprit.rank == 1


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], "no rank"),
        ([3], "rank 3"),
        ([0, 1], "ranks 0, 1"),
        ([4, 0, 1, 2, 3, *range(6, 64)], "ranks 0 to 4, 6 to 63"),
    ],
)
def test_ranks_text_shortens_a_list_of_ranks(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text
