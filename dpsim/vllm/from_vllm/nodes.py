"""The commands of several nodes: each node starts a part of the replicas of one deployment.

    # node 0                                              # node 1
    vllm serve m -dp 4 -dpl 2 -dpa 10.0.0.1               vllm serve m --headless -dp 4 -dpl 2 -dpr 2 -dpa 10.0.0.1

vLLM compares a hash of some settings when engines start, and refuses to start if they differ. Other differences become
settings of ranks (specification 8.4; M-CF-14 in docs/keys.md). The commands have to start each replica exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpsim.contract.words import counted, ranks_text
from dpsim.scenario.errors import ScenarioError, shown
from dpsim.vllm.config import EngineConfig, ParallelConfig, Surroundings, Topology, differing
from dpsim.vllm.from_vllm.read import ASSIGNMENT, Settings, plain, read, served
from dpsim.vllm.from_vllm.shell import commands

OF_A_NODE = {
    *("data_parallel_size_local", "data_parallel_start_rank", "data_parallel_rank", "data_parallel_hybrid_lb"),
    *("data_parallel_external_lb", "headless", "node_rank", "api_server_count"),
}
"""Settings that may differ from node to node."""


def nodes(text: str, release: str | None = None) -> list[Settings]:
    """The settings of each command that serves. ScenarioError if none serves, or if two do not fit together."""
    found = [read(words, release) for words in _serving(text)]
    if not found:
        raise ScenarioError(_nothing_serves(text))
    for number, settings in enumerate(found[1:], 2):
        _same(found[0], settings, number)
    if len(found) > 1:
        _all_replicas(found)
    return found


def _serving(text: str) -> Iterator[list[str]]:
    exported: list[str] = []
    for words in commands(text):
        if words[0] == "export":
            exported += [word for word in words[1:] if ASSIGNMENT.match(word)]
        elif served(words) is not None:
            yield [*exported, *words]


def _nothing_serves(text: str) -> str:
    hint = "; of a container, give what stands behind its image, after `vllm serve`" if "docker" in text else ""
    got = f"; got {shown(text.strip())}" if text.strip() else "; got nothing"
    return f"no command that serves: expected `vllm serve MODEL ...`{got}{hint}"


def _same(first: Settings, other: Settings, number: int) -> None:
    for name in differing_settings(first, other):
        if name.partition(".")[0] in ParallelConfig.model_fields:
            raise ScenarioError(f"{difference(first, other, name, number)}; vLLM refuses to start")


def differing_settings(first: Settings, other: Settings) -> list[str]:
    """Returns the names of differing settings, except those that may differ from node to node."""
    names = sorted({*first.values, *other.values} - OF_A_NODE)
    return [name for name in names if first.values.get(name) != other.values.get(name)]


def difference(first: Settings, other: Settings, name: str, number: int) -> str:
    """Returns a sentence with the values of a setting in two commands. `number` is that of the other command."""
    typed = other.typed.get(name) or first.typed.get(name) or name
    values = [
        "nothing" if value is None else plain(value) for value in (first.values.get(name), other.values.get(name))
    ]
    return f"{typed}: command 1 says {values[0]}, command {number} says {values[1]}"


def _all_replicas(found: Sequence[Settings]) -> None:
    total = int(found[0].get("nnodes", 1))
    if total > 1:
        _once([{int(settings.get("node_rank", 0))} for settings in found], total, "node", "--node-rank")
        return
    replicas = int(found[0].get("data_parallel_size", 1))
    _once([replicas_of(settings, replicas) for settings in found], replicas, "replica", "--data-parallel-start-rank")


def replicas_of(settings: Settings, replicas: int) -> set[int]:
    """Returns the numbers of the replicas that a command starts, out of all `replicas`."""
    if "data_parallel_rank" in settings.values:
        return {int(settings.values["data_parallel_rank"])}
    start, local = settings.get("data_parallel_start_rank", 0), settings.get("data_parallel_size_local", replicas)
    return set(range(start, start + local))


def _once(parts: Sequence[set[int]], total: int, what: str, flag: str) -> None:
    seen: dict[int, int] = {}
    for number, part in enumerate(parts, 1):
        for one in sorted(part):
            if one in seen:
                raise ScenarioError(
                    f"{flag}: {what} {one} is in command {seen[one]} and in command {number}; expected once"
                )
            seen[one] = number
    if missing := sorted({*range(total)} - {*seen}):
        started = ranks_text(missing).removeprefix("ranks ").removeprefix("rank ")
        raise ScenarioError(
            f"{flag}: no command has {what} {started} of {total}; give the commands of all {counted(total, what)}"
        )


def by_rank(
    every: Sequence[Settings], configs: Sequence[Mapping[str, Any]], topology: Topology
) -> tuple[dict[int, dict[str, Any]], list[str]]:
    """Returns the section `config_by_rank`, and a remark for each setting in which a command differs from the first.

    Raises ScenarioError for a difference that vLLM notices, and if one replica runs on several nodes.
    """
    first = EngineConfig.model_validate(configs[0])
    found: dict[int, dict[str, Any]] = {}
    remarks: list[str] = []
    for number, (settings, config) in enumerate(zip(every, configs, strict=True), 1):
        other = EngineConfig.model_validate(config)
        own = {name: value for name, value in other if value != getattr(first, name)}
        if not own:
            continue
        differences = [difference(every[0], settings, name, number) for name in differing_settings(every[0], settings)]
        around = Surroundings.of_rank()
        noticed = differing(first.parallel_config(topology, around), other.parallel_config(topology, around))
        if noticed:
            raise ScenarioError(f"{differences[0]}; vLLM refuses to start, as {noticed[0]} is not the same")
        if settings.get("nnodes", 1) > 1 or topology.pipeline_parallel_size > 1:
            raise ScenarioError(
                f"{differences[0]}; dpsim models different settings only for whole replicas of dp_batch"
            )
        ranks = [
            replica * topology.replica_size + rank
            for replica in sorted(replicas_of(settings, topology.data_parallel_size))
            for rank in range(topology.replica_size)
        ]
        found |= dict.fromkeys(ranks, other.model_dump(mode="json", include=set(own)))
        remarks += [
            f"{line}: so {ranks_text(ranks)} have different settings; vLLM does not notice" for line in differences
        ]
    return found, remarks
