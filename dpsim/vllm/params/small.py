"""Enumerates every small scenario up to given sizes, because a random search may miss a bug.

    for scenario in small_scenarios(base, scope("ranks=2,requests=2,steps=2")): ...

Two ranks and a few steps suffice to show nearly every coordination bug. Protocol, configuration and faults are those of
the scenario `base`. The requests vary, and the numbers of ranks and stages vary if the user names them. Each size is a
maximum:

    ranks     data-parallel ranks, from 1                    requests  requests, from 1
    steps     steps in which a request may arrive            prompt    tokens of a prompt, from 1
    output    tokens of output, from 1                       abort     0: never; 1: or in any step after its arrival
    stages    pipeline stages, from 1

A small scenario omits faults, delays, messages and settings of ranks that it does not have, and an expected culprit.

Prior art: Jackson's small scope hypothesis (Alloy); TLC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from typing import Any, NamedTuple

from dpsim.contract import registry
from dpsim.contract.words import did_you_mean
from dpsim.scenario.duration import format_duration
from dpsim.scenario.edit import scenario_from
from dpsim.scenario.errors import ScenarioError
from dpsim.scenario.model import Scenario
from dpsim.scenario.small.within import injected_within
from dpsim.vllm.config import Topology
from dpsim.vllm.params.workload.model import RequestSpec, Workload

LARGEST = 1_000_000

VARIED = ("arrival", "prompt_tokens", "output_tokens")
"""The fields that every small request sets."""


class Scope(NamedTuple):
    """The maximum of each size. If `ranks` or `stages` is None, the scenarios have exactly those of `base`."""

    ranks: int | None = None
    requests: int = 1
    steps: int = 2
    prompt: int = 2
    output: int = 2
    abort: int = 0
    stages: int | None = None

    def summary(self) -> str:
        """Returns the sizes in words, without those that do not vary."""
        return ", ".join(f"{size} {most}" for size, most in self._asdict().items() if most is not None)


def scope(text: str) -> Scope:
    """Parses sizes such as "ranks=2,steps=4"; other sizes are the defaults of `Scope`. Raises ScenarioError.

    >>> scope("ranks=3,requests=2")
    Scope(ranks=3, requests=2, steps=2, prompt=2, output=2, abort=0, stages=None)
    """
    sizes: dict[str, int] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if name not in Scope._fields:
            hint = did_you_mean(name, Scope._fields)
            raise ScenarioError(f"--all-up-to: {name!r} is no size{hint} (there are {', '.join(Scope._fields)})")
        if name in sizes:
            raise ScenarioError(f"--all-up-to: {name} is given twice")
        least = 0 if name == "abort" else 1
        if not equals or not value.isdecimal() or not least <= int(value) <= (1 if name == "abort" else 1000):
            most = "0 or 1" if name == "abort" else "a number from 1 to 1000"
            raise ScenarioError(f"--all-up-to: {name}: expected {most}, as in {name}=1, got {value!r}")
        sizes[name] = int(value)
    return Scope(**sizes)


def count(sizes: Scope) -> int:
    """Returns the number of scenarios up to these sizes."""
    total = 0
    for number in range(1, sizes.requests + 1):
        each = [_fates(sizes, step) * sizes.prompt * sizes.output for step in range(sizes.steps)]
        ways = [1 if step == 0 else 0 for step in range(sizes.steps)]
        for _ in range(number):  # ways[k]: the number of lists so far whose last request arrives in step k
            ways = [sum(ways[: step + 1]) * each[step] for step in range(sizes.steps)]
        total += sum(ways)
    return total * (sizes.ranks or 1) * (sizes.stages or 1)


def small_scenarios(base: Scenario, sizes: Scope) -> Iterator[Scenario]:
    """The smallest first. ScenarioError: more than a million, or `base` is not valid with a number of ranks."""
    if count(sizes) > LARGEST:
        raise ScenarioError(
            f"--all-up-to: these are {count(sizes):,} scenarios; expected at most {LARGEST:,}: take smaller sizes"
        )
    step_ns = base.workload.step_duration
    rest = base.model_dump(
        mode="json", by_alias=True, exclude={"workload", "topology", "expect"}, exclude_defaults=True
    )
    expect = base.expect.of_small_worlds()
    for number in range(1, sizes.requests + 1):
        for topology in _topologies(base.topology, sizes):
            own = {rank: one for rank, one in rest.get("config_by_rank", {}).items() if int(rank) < topology.world_size}
            for requests in _requests(sizes, number, step_ns):
                yield scenario_from(
                    {
                        **rest,
                        **injected_within(base, topology.world_size),
                        "config_by_rank": {int(rank): one for rank, one in own.items()},
                        "name": f"{base.name[:94]}-small",
                        "topology": topology.model_dump(mode="json", exclude_defaults=True),
                        "workload": {"step_duration": format_duration(step_ns), "requests": requests},
                        "expect": expect,
                    }
                )


class Small(NamedTuple):
    """All small scenarios that are similar to `base`, in the form that `dpsim explore` needs."""

    base: Scenario
    sizes: Scope

    @property
    def total(self) -> int:
        """The number of scenarios."""
        return count(self.sizes)

    @property
    def not_varied(self) -> tuple[str, ...]:
        """The fields of requests that the program reads and no small request sets, then the sections that are fixed."""
        heeds = registry.protocol(self.base.protocol.name).program.heeds
        varied = {*VARIED, *["abort"] * bool(self.sizes.abort)}
        known = {field.removesuffix("_ns") for field in heeds or ()}
        fields = [name for name in RequestSpec.model_fields if name not in varied and (heeds is None or name in known)]
        sizes = {"data_parallel_size": self.sizes.ranks, "pipeline_parallel_size": self.sizes.stages}
        topology = [name for name in Topology.model_fields if not sizes.get(name)]
        return (*fields, "config", "config_by_rank", *(f"topology.{name}" for name in topology))

    @property
    def outside(self) -> str:
        """The workload of `base` with the sizes that would contain it, or "" if these do."""
        return outside(self.base, self.sizes._asdict())

    def worlds(self) -> Iterator[Scenario]:
        """Yields all scenarios, the smallest first."""
        return small_scenarios(self.base, self.sizes)


def _topologies(base: Topology, sizes: Scope) -> list[Topology]:
    dp, pp = base.data_parallel_size, base.pipeline_parallel_size
    return [
        base.model_copy(update={"data_parallel_size": ranks, "pipeline_parallel_size": stages})
        for ranks in (range(1, sizes.ranks + 1) if sizes.ranks else [dp])
        for stages in (range(1, sizes.stages + 1) if sizes.stages else [pp])
    ]


def _requests(sizes: Scope, number: int, step_ns: int) -> Iterator[list[Mapping[str, Any]]]:
    one = [
        (step, prompt, output, abort)
        for step in range(sizes.steps)
        for prompt in range(1, sizes.prompt + 1)
        for output in range(1, sizes.output + 1)
        for abort in range(_fates(sizes, step))
    ]
    for chosen in product(one, repeat=number):
        if any(before[0] > after[0] for before, after in pairwise(chosen)):
            continue
        yield [
            {
                "arrival": format_duration(step * step_ns),
                "prompt_tokens": prompt,
                "output_tokens": output,
                **({"abort": format_duration((step + abort) * step_ns)} if abort else {}),
            }
            for step, prompt, output, abort in chosen
        ]


def _fates(sizes: Scope, step: int) -> int:
    return 1 + (sizes.steps - step) * sizes.abort


def outside(base: Scenario, sizes: Mapping[str, int | None]) -> str:
    """Returns each size for which the set is too small, with the value that contains `base`; "" if none is.

    `sizes`: the fields of `Scope`; None for one that does not vary. Random requests have their upper bounds. Requests
    from a file, other fields, and arrivals between two steps are in no set.
    """
    needed = {"ranks": base.topology.data_parallel_size, "stages": base.topology.pipeline_parallel_size}
    needed = {name: least for name, least in needed.items() if sizes[name] is not None}
    workload, others = base.workload, []
    if workload.requests is not None:
        listed = workload.requests[: workload.limit]
        needed |= _of_requests(listed, workload)
        others = _in_no_set(listed, workload)
    elif workload.synthetic is not None:
        drawn = workload.synthetic
        needed["requests"] = min(drawn.requests, workload.limit or drawn.requests)
        needed |= {"prompt": drawn.prompt_tokens.max, "output": drawn.output_tokens.max}
    else:
        others = ["requests from a file"]
    lacks = [*(f"{name}={least}" for name, least in needed.items() if least > (sizes[name] or 0)), *others]
    return f"the scenario's own workload ({', '.join(lacks)})" if lacks else ""


def _of_requests(listed: tuple[RequestSpec, ...], workload: Workload) -> dict[str, int]:
    return {
        "requests": len(listed),
        "steps": max(
            max(one.arrival + workload.step_duration, one.abort or 0) // workload.step_duration for one in listed
        ),
        "prompt": max(one.prompt_tokens for one in listed),
        "output": max(one.output_tokens for one in listed),
        "abort": int(any(one.abort is not None for one in listed)),
    }


def _in_no_set(listed: tuple[RequestSpec, ...], workload: Workload) -> list[str]:
    sized = {"arrival", "prompt_tokens", "output_tokens", "abort"}
    fields = [name for name in RequestSpec.model_fields if name not in sized]
    default = RequestSpec(prompt_tokens=1, output_tokens=1)
    own = [name for name in fields if any(getattr(one, name) != getattr(default, name) for one in listed)]
    times = [time for one in listed for time in (one.arrival, one.abort) if time is not None]
    between = any(time % workload.step_duration for time in times)
    return [*own, *["times between two steps"] * between]
