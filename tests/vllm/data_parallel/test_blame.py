"""Plants one fault in a healthy run of data-parallel ranks: the first finding names the rank and step of the fault.

`CLASSES` has the classes of findings that each kind of fault may cause.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from dpsim.contract.ops import COUNT, KIND, ORDINAL, SITE, STEP, RawRecord
from dpsim.contract.world import At, Delay, Fault, Run, World
from dpsim.diagnose.words.told import Told
from dpsim.scenario import scenario_from
from dpsim.sim.backend import SimBackend
from tests.judged import judge, said
from tests.programs import world_of
from tests.properties import examples

CLASSES = {
    "skip": {"HANG:COLLECTIVE:MISSING_RANK", "MISMATCH:COLLECTIVE:STEP"},
    "repeat": {"HANG:COLLECTIVE:EXTRA_CALL", "MISMATCH:COLLECTIVE:STEP"},
    "count": {"MISMATCH:COLLECTIVE:COUNT"},
    "dtype": {"MISMATCH:COLLECTIVE:DTYPE"},
    "op": {"MISMATCH:COLLECTIVE:OP"},
}


def world(ranks: int, **more: Any) -> World:
    return world_of(ranks, ["dp_cpu"], ["dp", "ep"], **more)


def arguments(rng: random.Random, ranks: int) -> dict[str, Any]:
    """Returns random arguments of a scenario: requests, configuration and topology."""
    requests = [
        (rng.choice([0, 0, 20, 40, 100]) * 10**6, rng.randint(1, 700), rng.randint(1, 12))
        for _ in range(rng.randint(1, 6))
    ]
    config = {
        "async_scheduling": rng.random() < 0.5,
        "disable_nccl_for_dp_synchronization": rng.random() < 0.5,
        "enable_dbo": rng.random() < 0.5,
        "dbo_prefill_token_threshold": 64,
        "dbo_decode_token_threshold": 2,
    }
    topology = {"data_parallel_size": ranks}
    return {"config": config, "topology": topology, "requests": requests, "step_ns": 20_000_000, "form": "source-000"}


def plant(rng: random.Random, journal: list[RawRecord]) -> tuple[str, RawRecord, Fault]:
    """Returns a fault at a random collective of a rank: its kind, the record that it changes, and the fault."""
    record = rng.choice([record for record in journal if record[KIND] == "collective"])
    kind = rng.choice(sorted(CLASSES))
    change = {"count": {"count": record[COUNT] + 1}, "dtype": {"dtype": "int64"}, "op": {"op": "broadcast"}}.get(
        kind, {}
    )
    what: Any = "alter" if change else kind
    return kind, record, Fault(what, 0, At(record[SITE], record[ORDINAL]), change)


def run(told: World, args: dict[str, Any]) -> tuple[Run, list[Told]]:
    """Runs the arguments in a world, and returns the run with its findings."""
    load = [{"arrival": f"{at}ns", "prompt_tokens": p, "output_tokens": o} for at, p, o in args["requests"]]
    made = scenario_from(
        {
            "name": "blamed",
            "protocol": {"form": args["form"], "variant": args.get("variant")},
            "topology": args["topology"],
            "config": args["config"],
            "workload": {"step_duration": f"{args['step_ns']}ns", "requests": load},
        }
    )
    done = SimBackend().run(told, "dp_batch", made.arguments())
    return done, judge(told, done)


@examples(8, 75, 300)
@pytest.mark.parametrize("ranks", [3, 4, 5])
def test_a_fault_is_blamed_where_it_was_planted(ranks: int, examples: int) -> None:
    """With three or more ranks, the first finding has an expected class, and names the rank, step and call of the
    fault.
    """
    rng = random.Random(ranks)
    for _ in range(examples):
        args = arguments(rng, ranks)
        healthy, nothing = run(world(ranks), args)
        assert not nothing
        culprit = rng.randrange(ranks)
        kind, record, fault = plant(rng, healthy.journals[culprit])
        _, findings = run(world(ranks, faults=(fault._replace(rank=culprit),)), args)
        assert findings, f"{kind} at {record} was not found"
        found = findings[0]
        assert found.klass in CLASSES[kind]
        assert found.culprit is not None
        assert (found.culprit.rank, found.culprit.step, found.culprit.site) == (culprit, record[STEP], record[SITE])


@examples(20, 150, 600)
def test_the_history_of_two_ranks_decides_the_blame(examples: int) -> None:
    """With two ranks, a finding names the rank of the fault, or none.

    Two ranks have no majority, but earlier steps show which rank differs, in more than 70 % of the faults.
    """
    rng = random.Random(2)
    named = 0
    for _ in range(examples):
        args = arguments(rng, 2)
        healthy, _ = run(world(2), args)
        culprit = rng.randrange(2)
        kind, record, fault = plant(rng, healthy.journals[culprit])
        _, findings = run(world(2, faults=(fault._replace(rank=culprit),)), args)
        assert findings, f"{kind} at {record} was not found"
        if findings[0].culprit is not None:
            named += 1
            assert (findings[0].culprit.rank, findings[0].culprit.step) == (culprit, record[STEP])
    assert named > 0.7 * examples, "two ranks have no majority, but most faults break with what is usual"


def test_a_rank_that_dies_is_the_culprit_and_its_peers_wait() -> None:
    """If a rank dies at a collective, the finding names it and its step, and its peers hang."""
    rng = random.Random(7)
    for _ in range(30):
        args = arguments(rng, 3)
        healthy, _ = run(world(3), args)
        record = rng.choice([record for record in healthy.journals[1] if record[KIND] == "collective"])
        done, findings = run(world(3, faults=(Fault("die", 1, At(record[SITE], record[ORDINAL])),)), args)
        assert done.ends[1] == "died"
        assert findings[0].klass == "HANG:COLLECTIVE:DEAD_RANK"
        assert findings[0].culprit is not None
        assert (findings[0].culprit.rank, findings[0].culprit.step) == (1, record[STEP])


def test_delays_change_time_and_nothing_else() -> None:
    """Delays make a run longer, but change no record of the journals except the injected delays."""
    rng = random.Random(11)
    for _ in range(20):
        args = arguments(rng, 3)
        healthy, _ = run(world(3), args)
        late = (
            Delay(0, At("experts.combine"), 300_000),
            Delay(1, At(), 2_000_000),
            Delay(2, At("dp.agree", 1), 5_000_000),
        )
        done, findings = run(world(3, delays=late), args)
        assert not findings
        assert done.elapsed_ns > healthy.elapsed_ns
        plain = [[record for record in journal if record[KIND] != "injected"] for journal in done.journals]
        assert plain == healthy.journals


def test_ranks_that_leave_out_a_whole_step_are_blamed_though_they_are_the_majority() -> None:
    """Mutant M-DP-1 with one busy rank of three: the two idle ranks skip the step, and the checks blame them."""
    args = {
        "config": {},
        "topology": {"data_parallel_size": 3},
        "requests": [(0, 8, 4), (0, 8, 2), (0, 8, 2)],
        "step_ns": 20_000_000,
        "form": "source-000",
        "variant": "M-DP-1",
    }
    _, findings = run(world(3), args)
    assert findings[0].klass == "HANG:COLLECTIVE:MISSING_RANK"
    assert said(findings[0], "left_out")["ranks"] == (1, 2)
    assert findings[0].culprit is not None
    assert findings[0].culprit.rank == 1


def test_a_majority_that_leaves_out_what_every_step_has_is_blamed() -> None:
    """Three of four ranks that skip an agreement are blamed, because every earlier step has it."""
    args = {
        "config": {"async_scheduling": True},
        "topology": {"data_parallel_size": 4},
        "requests": [(0, 8, 12)] * 4,
        "step_ns": 20_000_000,
        "form": "source-000",
    }
    faults = tuple(Fault("skip", rank, At("dp.agree", 5)) for rank in (1, 2, 3))
    _, findings = run(world(4, faults=faults), args)
    assert findings[0].klass == "HANG:COLLECTIVE:MISSING_RANK"
    assert said(findings[0], "left_out")["ranks"] == (1, 2, 3)


def test_a_call_that_usual_places_lack_is_the_evidence_of_two_ranks() -> None:
    """A rank that repeats an agreement is blamed, because earlier steps do not have the second call."""
    args = {
        "config": {"async_scheduling": True},
        "topology": {"data_parallel_size": 2},
        "requests": [(0, 8, 2)] * 2,
        "step_ns": 20_000_000,
        "form": "source-000",
    }
    _, findings = run(world(2, faults=(Fault("repeat", 1, At("dp.agree", 0)),)), args)
    assert findings[0].culprit is not None
    assert findings[0].culprit.rank == 1
    assert findings[0].message.startswith("rank 1 made dp.agree (all_reduce on dp_cpu) once")


def test_a_rank_that_dies_with_work_outstanding_is_named() -> None:
    """If a rank dies while its device still has work, the finding names this rank."""
    args = {
        "config": {},
        "topology": {"data_parallel_size": 3},
        "requests": [(0, 8, 12)] * 3,
        "step_ns": 20_000_000,
        "form": "source-000",
    }
    done, findings = run(world(3, faults=(Fault("die", 1, At("experts.read", 4)),)), args)
    assert done.ends == ["blocked", "died", "blocked"]
    assert findings[0].klass == "HANG:COLLECTIVE:DEAD_RANK"
    assert findings[0].culprit is not None
    assert findings[0].culprit.rank == 1
