"""Invariants of specification 8.6 and 9.3, read off the journals of starts; each is broken by a mutant, its twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from dpsim.contract.ops import (
    COMMUNICATOR,
    DECISION_COMMUNICATOR,
    DECISION_VALUE,
    KIND,
    LEARNED_OUTCOME,
    SITE,
    STEP,
    STORE_HOW,
    STORE_PORT,
    STREAM,
    Kept,
    RawRecord,
    as_record,
)
from dpsim.contract.world import CommunicatorSpec
from dpsim.vllm.releases import names
from tests.vllm.startup.worlds import Seen, run, start

FIELDS = {"compared": "fields"}
"""Stricter than releases."""

ELASTIC = {
    **{"parallel_rules": "0.33", "enable_elastic_ep": True, "enable_expert_parallel": True, "enable_eplb": True},
    "eplb_config": {"use_async": False, "communicator": "torch_gloo"},
}


def of(seen: Seen, number: int, kind: str, site: str = "") -> Iterator[RawRecord]:
    """Records of a participant, by kind and the end of their site."""
    return (raw for raw in seen.run.journals[number] if raw[KIND] == kind and raw[SITE].endswith(site))


def number(seen: Seen, name: str) -> int:
    return seen.world.size + seen.world.services.index(name)


def learned(seen: Seen, who: int, site: str) -> list[Any]:
    return [raw[LEARNED_OUTCOME] for raw in of(seen, who, "learned", site)]


def groups(seen: Seen, rank: int) -> list[Any]:
    return [raw[DECISION_VALUE] for raw in of(seen, rank, "decision", "group")]


def ranks(seen: Seen) -> range:
    return range(seen.world.size)


def engines(seen: Seen) -> list[int]:
    return [number(seen, name) for name in seen.world.services if name.startswith("engine.")]


def specs(seen: Seen, domain: str) -> list[CommunicatorSpec]:
    return [spec for spec in seen.world.communicators if spec.domain == domain and len(spec.ranks) > 1]


# ---- what holds


def st_1(seen: Seen) -> bool:
    """All world ranks create the same sequence of groups."""
    return all(groups(seen, rank) == groups(seen, 0) for rank in ranks(seen))


def st_2(seen: Seen) -> bool:
    """Member lists of one kind partition the world."""
    kinds: dict[str, list[int]] = {}
    for kind, members in groups(seen, 0):
        kinds.setdefault(kind, []).extend(members)
    return all(sorted(members) == list(ranks(seen)) for members in kinds.values())


def st_3(seen: Seen) -> bool:
    """The root of a device communicator is its first global rank, on all members."""
    names = {spec.name: spec.ranks[0] for spec in specs(seen, "host")}
    told = [[*of(seen, rank, "decision", "unique_id")] for rank in ranks(seen)]
    return all(told) and all(
        raw[DECISION_VALUE] == 1 + names[raw[DECISION_COMMUNICATOR]] for one in told for raw in one
    )


def st_5(seen: Seen) -> bool:
    """The engine DP group exists before any worker is spawned."""
    for engine in engines(seen):
        sites = [raw[SITE] for raw in seen.run.journals[engine]]
        first = next(site for site in sites if site.startswith(("engine_dp_group", "spawn.worker")))
        if not first.startswith("engine_dp_group"):
            return False
    return True


def st_6(seen: Seen) -> bool:
    """What is free was measured when the communicators were there: the cache leaves room for the first all-to-all."""
    return not any("NoMemory" in error for error in seen.errors.values())


def st_7(seen: Seen) -> bool:
    """The first use of each communicator is its warm-up, but for siblings, which no rank uses here."""
    for rank in ranks(seen):
        first: dict[str, str] = {}
        for raw in seen.run.journals[rank]:
            record = as_record(raw)
            if raw[KIND] == "collective" and raw[STREAM] is not None:
                first.setdefault(raw[COMMUNICATOR], raw[SITE])
            elif isinstance(record, Kept) and record.call == "collective":
                first.setdefault(record.fields[1], raw[SITE])
        if not all(site.endswith("warm_up") for site in first.values()):
            return False
    return True


def st_8(seen: Seen) -> bool:
    """Every replica makes the same forwards, with the same sizes."""
    made = [
        [(raw[SITE], raw[DECISION_VALUE]) for raw in of(seen, rank, "decision") if raw[STEP] >= 15]
        for rank in ranks(seen)
    ]
    return all(one == made[0] for one in made)


def st_9(seen: Seen) -> bool:
    """No engine is ready before the coordinator has said that all have subscribed."""
    for engine in engines(seen):
        sites = [raw[SITE] for raw in seen.run.journals[engine]]
        if "say.ready" in sites and "coordinator.ready" not in sites[: sites.index("say.ready")]:
            return False
    return True


def st_11(seen: Seen) -> bool:
    """After step 13 no group is created, and until then all are."""
    steps = {raw[STEP] for rank in ranks(seen) for raw in of(seen, rank, "decision", "group")}
    return max(steps) <= 13 and len({len(groups(seen, rank)) for rank in ranks(seen)}) == 1


def cf_3(seen: Seen) -> bool:
    """Every group has one port, known to all members, and no two groups have the same."""
    members = {"engine_dp_group": engines(seen), "world": list(ranks(seen))}
    ports = {
        group: {port for one in those for how in ("open", "join") for port in learned(seen, one, f"{group}.{how}")}
        for group, those in members.items()
    }
    known = [port for one in ports.values() for port in one if port is not None]
    return all(len(one) == 1 for one in ports.values()) and len(set(known)) == len(known)


def cf_5(seen: Seen) -> bool:
    """All replicas have the blocks of the smallest."""
    free = [value for engine in engines(seen) for value in learned(seen, engine, "hear.profiled")]
    agreed = {value for rank in ranks(seen) for value in learned(seen, rank, "obey.blocks")}
    return agreed == {min(told[1] for told in free)}


def seeds(seen: Seen) -> bool:
    """Replicas draw other random numbers."""
    return "SameSeeds" not in str(seen.errors)


class Rule(NamedTuple):
    holds: Callable[[Seen], bool]
    twin: str
    world: dict[str, Any]


FOUR = {"dp": 2, "tp": 2}
RULES = {
    "I-ST-1": Rule(st_1, "M-ST-2", {}),
    "I-ST-2": Rule(st_2, "M-ST-1", FOUR),
    "I-ST-3": Rule(st_3, "M-ST-4", FOUR),
    "I-ST-5": Rule(st_5, "M-ST-6", {"form": "0.14"}),
    "I-ST-6": Rule(st_6, "M-ST-10", {}),
    "I-ST-7": Rule(st_7, "M-ST-7", {"dp": 1, "tp": 2, "config": {}}),
    "I-ST-8": Rule(st_8, "M-ST-8", {"config": {"cudagraph_capture_sizes": [2, 1]}}),
    "I-ST-9": Rule(st_9, "M-ST-11", {}),
    "I-ST-11": Rule(st_11, "M-ST-3", {"dp": 1, "pp": 2}),
    "I-CF-3": Rule(cf_3, "M-CF-4", {"form": "0.14"}),
    "I-CF-5": Rule(cf_5, "M-CF-6", {"config": ELASTIC}),
    "seeds": Rule(seeds, "M-ST-13", {"config": {"is_moe_model": False}}),
}


@pytest.mark.parametrize("name", RULES)
def test_the_healthy_start_keeps_it(name: str) -> None:
    rule = RULES[name]
    for form in (
        ("0.33", "0.14") if "form" not in rule.world and name != "I-CF-5" else (rule.world.get("form", "0.33"),)
    ):
        seen = run(start(**{**rule.world, "form": form}))
        assert seen.up
        assert rule.holds(seen)


@pytest.mark.parametrize("name", RULES)
def test_a_mutant_breaks_it(name: str) -> None:
    rule = RULES[name]
    assert not rule.holds(run(start(**rule.world, variant=rule.twin)))


def test_the_engine_dp_group_goes_last() -> None:
    """I-ST-12, of a start that fails when all groups are there."""
    seen = run(start(variant="M-ST-10"))
    for engine in engines(seen):
        closes = [raw for raw in of(seen, engine, "store") if raw[STORE_HOW] == "close"]
        opened = [port for how in ("open", "join") for port in learned(seen, engine, f"engine_dp_group.{how}")]
        assert [closes[-1][STORE_PORT]] == opened


def test_all_engines_are_told_the_same_ports() -> None:
    """I-CF-9: what INIT says is written into the configuration, which is not completed again."""
    seen = run(start("0.14"))
    ports = [learned(seen, engine, "obey.init")[0] for engine in engines(seen)]
    assert ports[0] == ports[1], "all get the same list"


def test_a_mismatch_is_told_with_engine_and_fields_before_any_group_is_made() -> None:
    scenario = start(config_by_rank={1: {"enable_dbo": True, "max_num_seqs": 2}}, pieces=FIELDS)
    seen = run(scenario)
    assert not seen.serving
    [(who, error)] = seen.errors.items()
    assert who == "frontend"
    assert "engine.1: enable_dbo: true there, false here, max_num_seqs: 2 there, 1 here" in error
    assert not any(groups(seen, rank) for rank in ranks(seen))
    assert seen.run.elapsed_ns < 5_000_000_000


def test_releases_compare_the_hash_when_engines_are_ready() -> None:
    """An engine with another hash is refused behind all groups and captures, without a word of fields (8.4)."""
    for form in names("startup"):
        seen = run(start(form, config_by_rank={1: {"dbo_decode_token_threshold": 7}}))
        assert not seen.serving
        assert "engine.1: another hash" in seen.errors["frontend"]
        assert all(groups(seen, rank) for rank in ranks(seen))


def test_other_sizes_are_in_no_hash() -> None:
    """Releases accept them, and hang in captures of other sizes; a dense model's engines may differ in their hash."""
    sizes: dict[str, Any] = {"config": {"max_num_seqs": 2, "cudagraph_capture_sizes": [1, 2]}}
    found = run(start(**sizes, config_by_rank={1: {"cudagraph_capture_sizes": [1]}}))
    assert found.ended("blocked")
    assert "ConfigMismatch" not in found.errors.get("frontend", "")
    refused = run(start(**sizes, config_by_rank={1: {"cudagraph_capture_sizes": [1]}}, pieces=FIELDS))
    assert "engine.1: cudagraph_capture_sizes: [1] there, [1, 2] here" in refused.errors["frontend"]
    dense: dict[str, Any] = {"config": {"is_moe_model": False}}
    assert run(start(**dense, config_by_rank={1: {"dbo_decode_token_threshold": 7}})).up


def test_fields_that_may_differ_refuse_nothing() -> None:
    """I-CF-2."""
    assert run(start(config_by_rank={1: {"disable_custom_all_reduce": True, "worker_cls": "mine"}})).up


def test_engines_that_are_eager_capture_nothing_and_all_are_or_none() -> None:
    """`enforce_eager` decides how many forwards there are before an engine serves (I-ST-8), so it is compared, too."""

    def captures(seen: Seen) -> int:
        return sum(1 for rank in ranks(seen) for _ in of(seen, rank, "capture"))

    eager = run(start(config={"enforce_eager": True}))
    assert eager.up
    assert captures(eager) == 0 < captures(run(start()))
    one = run(start(config_by_rank={1: {"enforce_eager": True}}, pieces=FIELDS))
    assert one.wrong() == []
    assert "engine.1: enforce_eager: true there, false here" in one.errors["frontend"]
