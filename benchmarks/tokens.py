"""Measures schedules and small worlds per second of a whole protocol: sampled tokens and hidden states of a pipeline.

No rank of this protocol polls, so one schedule proves each world. There are two measurements, each for two stages and
for four:

* the scenario that dpsim ships, prepared once and proven repeatedly;
* a sample of the small worlds with one slot, each prepared and proven, as `dpsim explore --all-up-to` does.

No figure fails the benchmark. They show the cost of a real protocol beside the small example of `benchmarks.exploring`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from benchmarks.exploring import rate
from benchmarks.measure import Spread
from benchmarks.untimed import ops_made
from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.explore.strategies.walks import Fifo
from dpsim.scenario import Scenario, load_scenario, scenario_from
from dpsim.scenario.locate import scenario_path
from dpsim.vllm.params.small import scope, small_scenarios

STAGES = 2, 4
TIMES, EVERY = 10, 8
SMALL = scope("requests=2,steps=3,prompt=1,output=2,abort=1")


class Rate(NamedTuple):
    """Schedules per second, each the proof of a world. `worlds`: the number of different worlds. `ops`, `records`:
    means per run.
    """

    worlds: int
    ops: float
    records: float
    schedules: Spread


class Tokens(NamedTuple):
    """The rates for one number of stages: of the shipped scenario, and of small worlds."""

    stages: int
    scenario: Rate
    small: Rate


def small(stages: int) -> list[Scenario]:
    """Returns a sample of the worlds in which one slot serves several requests."""
    config = {"max_num_seqs": 1, "max_num_batched_tokens": 4, "cudagraph_mode": "NONE"}
    base = {"name": "one-slot", "protocol": {"name": "pp_tokens"}, "config": config}
    topology = {"pipeline_parallel_size": stages}
    request = {"prompt_tokens": 1, "output_tokens": 1}
    told = scenario_from({**base, "topology": topology, "workload": {"requests": [request]}})
    return list(islice(small_scenarios(told, SMALL), 0, None, EVERY))


def prove(subject: Subject) -> None:
    found = explore_subject(replace(subject, repeats=False), "dpor")  # a sample
    assert (found.verdict, found.exploration.runs) == ("proven", 1)


def measured(scenarios: list[Scenario], work: Callable[[], int], repetitions: int) -> Rate:
    """Returns the rate of `work`, which proves worlds and returns their number."""
    records = 0

    def once() -> None:
        nonlocal records
        for scenario in scenarios:
            fifo = Fifo()
            fifo.begin()
            run, found = Subject.of(scenario).run(fifo)
            assert not found
            records += sum(map(len, run.journals))

    ops = ops_made(once)
    return Rate(len(scenarios), ops / len(scenarios), records / len(scenarios), rate(work, repetitions))


def of(stages: int, repetitions: int) -> Tokens:
    scenario, worlds = load_scenario(scenario_path(f"pp{stages}_free_in_flight")), small(stages)
    prepared = Subject.of(scenario)

    def again() -> int:
        for _ in range(TIMES):
            prove(prepared)
        return TIMES

    def each() -> int:
        for world in worlds:
            prove(Subject.of(world))
        return len(worlds)

    return Tokens(stages, measured([scenario], again, repetitions), measured(worlds, each, repetitions))


def measure(repetitions: int) -> list[Tokens]:
    return [of(stages, repetitions) for stages in STAGES]
