"""Tests the invariants of spec chapters 8.6 and 9.3 on the journals of starts. A mutant breaks each invariant."""

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
"""Pieces with which a front end compares configuration fields of engines. Releases compare a hash instead."""

ELASTIC = {
    **{"parallel_rules": "0.33", "enable_elastic_ep": True, "enable_expert_parallel": True, "enable_eplb": True},
    "eplb_config": {"use_async": False, "communicator": "torch_gloo"},
}


def of(seen: Seen, number: int, kind: str, site: str = "") -> Iterator[RawRecord]:
    """Yields the records of a participant of this kind, whose site ends with `site`."""
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


# ---- the invariants


def st_1(seen: Seen) -> bool:
    """Returns whether all ranks create the same sequence of groups."""
    return all(groups(seen, rank) == groups(seen, 0) for rank in ranks(seen))


def st_2(seen: Seen) -> bool:
    """Returns whether the groups of one kind together contain each rank once."""
    kinds: dict[str, list[int]] = {}
    for kind, members in groups(seen, 0):
        kinds.setdefault(kind, []).extend(members)
    return all(sorted(members) == list(ranks(seen)) for members in kinds.values())


def st_3(seen: Seen) -> bool:
    """Returns whether each member uses the group's first global rank as root of the device communicator."""
    names = {spec.name: spec.ranks[0] for spec in specs(seen, "host")}
    told = [[*of(seen, rank, "decision", "unique_id")] for rank in ranks(seen)]
    return all(told) and all(
        raw[DECISION_VALUE] == 1 + names[raw[DECISION_COMMUNICATOR]] for one in told for raw in one
    )


def st_5(seen: Seen) -> bool:
    """Returns whether each engine creates the engine DP group before it spawns a worker."""
    for engine in engines(seen):
        sites = [raw[SITE] for raw in seen.run.journals[engine]]
        first = next(site for site in sites if site.startswith(("engine_dp_group", "spawn.worker")))
        if not first.startswith("engine_dp_group"):
            return False
    return True


def st_6(seen: Seen) -> bool:
    """Returns whether memory suffices: workers measure free memory after they create communicators, so the KV cache
    fits.
    """
    return not any("NoMemory" in error for error in seen.errors.values())


def st_7(seen: Seen) -> bool:
    """Returns whether the first use of each communicator is its warm-up. No rank uses sibling communicators here."""
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
    """Returns whether each replica runs the same forwards with the same sizes."""
    made = [
        [(raw[SITE], raw[DECISION_VALUE]) for raw in of(seen, rank, "decision") if raw[STEP] >= 15]
        for rank in ranks(seen)
    ]
    return all(one == made[0] for one in made)


def st_9(seen: Seen) -> bool:
    """Returns whether no engine is ready before the coordinator reports that all engines have subscribed."""
    for engine in engines(seen):
        sites = [raw[SITE] for raw in seen.run.journals[engine]]
        if "say.ready" in sites and "coordinator.ready" not in sites[: sites.index("say.ready")]:
            return False
    return True


def st_11(seen: Seen) -> bool:
    """Returns whether ranks create all groups up to step 13 of the start, and none later."""
    steps = {raw[STEP] for rank in ranks(seen) for raw in of(seen, rank, "decision", "group")}
    return max(steps) <= 13 and len({len(groups(seen, rank)) for rank in ranks(seen)}) == 1


def cf_3(seen: Seen) -> bool:
    """Returns whether each group has one port, which all members know, and no two groups share one."""
    members = {"engine_dp_group": engines(seen), "world": list(ranks(seen))}
    ports = {
        group: {port for one in those for how in ("open", "join") for port in learned(seen, one, f"{group}.{how}")}
        for group, those in members.items()
    }
    known = [port for one in ports.values() for port in one if port is not None]
    return all(len(one) == 1 for one in ports.values()) and len(set(known)) == len(known)


def cf_5(seen: Seen) -> bool:
    """Returns whether all replicas have as many KV blocks as the smallest one."""
    free = [value for engine in engines(seen) for value in learned(seen, engine, "hear.profiled")]
    agreed = {value for rank in ranks(seen) for value in learned(seen, rank, "obey.blocks")}
    return agreed == {min(told[1] for told in free)}


def seeds(seen: Seen) -> bool:
    """Returns whether replicas draw different random numbers."""
    return "SameSeeds" not in str(seen.errors)


class Rule(NamedTuple):
    """`holds`: tests the invariant on a run. `twin`: the mutant that breaks it. `world`: arguments of the start."""

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


def test_engines_close_the_engine_dp_group_last() -> None:
    """Invariant I-ST-12: in a start that fails after it created all groups, engines close the engine DP group last."""
    seen = run(start(variant="M-ST-10"))
    assert len(engines(seen)) == 2
    for engine in engines(seen):
        closes = [raw for raw in of(seen, engine, "store") if raw[STORE_HOW] == "close"]
        opened = [port for how in ("open", "join") for port in learned(seen, engine, f"engine_dp_group.{how}")]
        assert [closes[-1][STORE_PORT]] == opened


def test_all_engines_receive_the_same_ports() -> None:
    """Invariant I-CF-9: engines use the port list of the INIT message, and do not run post-init on it again."""
    seen = run(start("0.14"))
    ports = [learned(seen, engine, "obey.init")[0] for engine in engines(seen)]
    assert ports[0] == ports[1], "all engines receive the same list of ports"


def test_a_mismatch_names_engine_and_fields_before_any_group() -> None:
    scenario = start(config_by_rank={1: {"enable_dbo": True, "max_num_seqs": 2}}, pieces=FIELDS)
    seen = run(scenario)
    assert not seen.serving
    [(who, error)] = seen.errors.items()
    assert who == "frontend"
    assert "engine.1: enable_dbo: true there, false here, max_num_seqs: 2 there, 1 here" in error
    assert not any(groups(seen, rank) for rank in ranks(seen))
    assert seen.run.elapsed_ns < 5_000_000_000


def test_releases_compare_the_hash_when_engines_are_ready() -> None:
    """Releases compare hashes only after all groups and captures exist, and the error names no fields (spec chapter
    8.4).
    """
    for form in names("startup"):
        seen = run(start(form, config_by_rank={1: {"dbo_decode_token_threshold": 7}}))
        assert not seen.serving
        assert "engine.1: another hash" in seen.errors["frontend"]
        assert all(groups(seen, rank) for rank in ranks(seen))


def test_capture_sizes_are_in_no_hash_and_hang_the_captures() -> None:
    """The hash does not cover capture sizes: a start with different sizes hangs in the captures.

    `FIELDS` refuses it by name.

    The engines of a dense model are independent, so they may differ in their hash.
    """
    sizes: dict[str, Any] = {"config": {"max_num_seqs": 2, "cudagraph_capture_sizes": [1, 2]}}
    found = run(start(**sizes, config_by_rank={1: {"cudagraph_capture_sizes": [1]}}))
    assert found.ended("blocked")
    assert "ConfigMismatch" not in found.errors.get("frontend", "")
    refused = run(start(**sizes, config_by_rank={1: {"cudagraph_capture_sizes": [1]}}, pieces=FIELDS))
    assert "engine.1: cudagraph_capture_sizes: [1] there, [1, 2] here" in refused.errors["frontend"]
    dense: dict[str, Any] = {"config": {"is_moe_model": False}}
    assert run(start(**dense, config_by_rank={1: {"dbo_decode_token_threshold": 7}})).up


def test_fields_that_may_differ_refuse_nothing() -> None:
    """Invariant I-CF-2: fields that ranks may set differently do not fail a start."""
    assert run(start(config_by_rank={1: {"disable_custom_all_reduce": True, "worker_cls": "mine"}})).up


def test_engines_that_are_eager_capture_nothing_and_all_are_or_none() -> None:
    """`enforce_eager` changes the number of forwards before an engine serves (I-ST-8), so `FIELDS` compares it too."""

    def captures(seen: Seen) -> int:
        return sum(1 for rank in ranks(seen) for _ in of(seen, rank, "capture"))

    eager = run(start(config={"enforce_eager": True}))
    assert eager.up
    assert captures(eager) == 0 < captures(run(start()))
    one = run(start(config_by_rank={1: {"enforce_eager": True}}, pieces=FIELDS))
    assert one.wrong() == []
    assert "engine.1: enforce_eager: true there, false here" in one.errors["frontend"]
