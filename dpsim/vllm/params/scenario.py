"""The model of a scenario of engines: how many ranks, in which configuration, with which requests.

    EngineScenario(name="two", topology=Topology(data_parallel_size=2), workload=Workload(requests=(...)))
    scenario_from({"name": "two", "topology": {"data_parallel_size": 2}, "workload": {"requests": [...]}})

The entry point `default` of the group `dpsim.parameters` names `EngineScenario`, so every scenario file has these
sections.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, cast

from pydantic import BeforeValidator, Field, ValidationError

from dpsim.contract import registry
from dpsim.contract.words import printable, ranks_text
from dpsim.contract.world import CommunicatorSpec
from dpsim.scenario import protocol as protocols
from dpsim.scenario.base import KeyPath, Problem, RankKey, Word
from dpsim.scenario.model import Scenario
from dpsim.scenario.parameters import MOST_RANKS, Parameters, Worlds, above
from dpsim.vllm.config import MAX_RANKS, Broken, EngineConfig, PartialConfig, Topology, broken_rules
from dpsim.vllm.params.arguments import EngineArguments, Request
from dpsim.vllm.params.communicators import communicators
from dpsim.vllm.params.workload.model import Workload
from dpsim.vllm.params.workload.requests import extent, requests_of


class ProtocolChoice(protocols.ProtocolChoice):
    """The protocol of a scenario, its form, and changes to it. A string is short for a mapping with only the name."""

    name: Word = "dp_batch"
    """The name of a registered protocol."""


class EngineParameters(Parameters):
    """The sections of a scenario of engines: topology, config, config_by_rank and workload."""

    sections: ClassVar[tuple[str, ...]] = ("topology", "config", "workload")
    of_ranks: ClassVar[str] = "topology"

    topology: Topology = Topology.model_construct()
    """The number of ranks on each parallel axis, with vLLM's names."""
    config: EngineConfig = EngineConfig.model_construct()
    """The engine's configuration, with vLLM's names."""
    config_by_rank: dict[RankKey, PartialConfig] = Field(default_factory=dict, max_length=MAX_RANKS)
    """Settings of single ranks, which replace those of `config`, for example on a node with another flag."""
    workload: Workload

    @property
    def size(self) -> int:
        """The number of ranks, over all parallel axes."""
        return self.topology.world_size

    @property
    def communicators(self) -> tuple[CommunicatorSpec, ...]:
        """The communicators of the topology."""
        return communicators(self.topology, self.has_eplb)

    @property
    def has_eplb(self) -> bool:
        """Whether at least one rank moves experts according to their load."""
        return self.config.enable_eplb or any(own.enable_eplb for own in self.config_by_rank.values())

    @property
    def small_sizes(self) -> str:
        """Two requests, with aborts if the program reads aborts."""
        heeds = registry.protocol(self.protocol.name).program.heeds
        return f"requests=2,steps=2,abort={int(heeds is None or 'abort_ns' in heeds)}"

    def config_of(self, rank: int) -> EngineConfig:
        """Returns the configuration of a rank. Raises ValidationError if its settings do not fit together."""
        own = self.config_by_rank.get(rank)
        return self.config if own is None else own.over(self.config)

    def requests(self, base: Path | str | None = None) -> list[Request]:
        """In the order of their source. `base`: the folder of the scenario; None: the working folder.

        Raises FileMissing without the trace, and ScenarioError if it cannot be read.
        """
        return requests_of(self.workload, base)

    def arguments(self, base: Path | str | None = None) -> EngineArguments:
        """Returns the arguments of the program. Raises FileMissing and ScenarioError as `requests` does."""
        return EngineArguments(
            topology=self.topology.model_dump(mode="json"),
            config=self.config.model_dump(mode="json"),
            requests=tuple(self.requests(base)),
            step_ns=self.workload.step_duration,
            config_by_rank={
                rank: self.config_of(rank).model_dump(mode="json", include=own.model_fields_set)
                for rank, own in self.config_by_rank.items()
            },
            **self.protocol.arguments,
        )

    @property
    def file(self) -> str | None:
        """The name of the trace from which dpsim reads the requests; None without a trace."""
        return None if self.workload.azure_csv is None else self.workload.azure_csv.file

    @property
    def captures_graphs(self) -> bool:
        """Whether ranks capture CUDA graphs in this configuration."""
        return self.config.capture_graphs

    def problems(self) -> Iterator[Problem]:
        """Requests that need an adapter while those are off; then broken rules, also for single ranks."""
        for i, request in enumerate(self.workload.requests or ()):
            if request.lora is not None and not self.config.enable_lora:
                message = f"the adapter {request.lora!r} needs config.enable_lora: true"
                yield Problem(("workload", "requests", i, "lora"), message)
        for found in broken_rules(self.config, self.topology):
            yield Problem((_section(found), *found.field.split(".")), found.message)
        for rank, own in self.config_by_rank.items():
            place = ("config_by_rank", str(rank))
            try:
                config = own.over(self.config)
            except ValidationError as error:
                yield from (Problem(place, detail["msg"].removeprefix("Value error, ")) for detail in error.errors())
                continue
            for found in broken_rules(config, self.topology):
                if _section(found) == "config":
                    yield Problem((*place, *found.field.split(".")), found.message)
                else:
                    yield Problem(place, str(found))

    def ranks_named(self) -> Iterator[tuple[KeyPath, int]]:
        """Yields the keys of `config_by_rank`, each with its place in the file."""
        yield from ((("config_by_rank", str(rank)), rank) for rank in self.config_by_rank)

    def differing(self) -> dict[str, tuple[int, ...]]:
        """Returns the settings in which single ranks differ from `config`, each as text with these ranks."""
        own: dict[str, tuple[int, ...]] = {}
        for rank, given in sorted(self.config_by_rank.items()):
            for name in sorted(given.model_fields_set):
                here, elsewhere = getattr(given, name), getattr(self.config, name)
                if here != elsewhere:
                    difference = f"{name} {_plain(here)} (config: {_plain(elsewhere)})"
                    own[difference] = (*own.get(difference, ()), rank)
        return own

    def own_settings(self) -> list[str]:
        """Returns the settings in which single ranks differ from `config`, as lines of a report."""
        lines = [f"  {ranks_text(ranks)}: {difference}" for difference, ranks in self.differing().items()]
        return ["", "settings of single ranks, by config_by_rank:", *lines, ""] if lines else []

    def all_up_to(self, sizes: str) -> Worlds:
        """Every small scenario (`dpsim.vllm.params.small`). Raises ScenarioError for wrong sizes."""
        from dpsim.vllm.params import small

        return small.Small(cast(Scenario, self), small.scope(sizes))

    def one_more(self) -> Self | None:
        """With one more data-parallel rank; None without a list of requests, or if the release refuses the size.

        vLLM deals requests in turn, by arrival: those of the last rank come twice, so the others keep theirs. The new
        rank has its settings, too. A front end that balances by load may deal in another way.

            requests of 2 ranks, in turn     a b | c d | e
            requests of 3 ranks, in turn     a b b | c d d | e
        """
        own, ranks, last = self.workload.requests, self.topology.data_parallel_size, self.topology.replica_size
        if own is None:
            return None
        dealt = enumerate(sorted(own, key=lambda one: one.arrival))
        requests = tuple(one for place, one in dealt for _ in range(2 if place % ranks == ranks - 1 else 1))
        settings = {rank + last: one for rank, one in self.config_by_rank.items() if rank >= ranks * last - last}
        changed = {
            "topology": self.topology.model_copy(update={"data_parallel_size": ranks + 1}),
            "config_by_rank": {**self.config_by_rank, **settings},
            "workload": self.workload.model_copy(update={"requests": requests}),
        }
        with suppress(ValueError):
            return self.model_validate({**dict(self), **changed})
        return None

    def beyond(self) -> str:
        """Why a stranger's token is too large, or "".

        It counts from the text before any request is made, and refuses a file, so that none is opened.
        """
        if self.file is not None:
            return "its workload is a file; expected requests that are written out or synthetic"
        return above({"ranks": (self.size, MOST_RANKS), **extent(self.workload)})


class EngineScenario(Scenario, EngineParameters):
    """A scenario: a protocol, its machine, its work, injected faults and delays, and the expected result."""

    protocol: Annotated[ProtocolChoice, BeforeValidator(protocols.name_alone)] = ProtocolChoice.model_construct()


def _section(found: Broken) -> str:
    return "topology" if found.field in Topology.model_fields else "config"


def _plain(value: Any) -> str:
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else printable(str(value))
