"""Small worlds of the program dbo, vLLM's dual batch overlap: two ranks of two microbatches, eager or captured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.scenario import Scenario, scenario_from
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.programs.dbo import OverlapSetup

GRAPHS: dict[str, Any] = {"cudagraph_mode": "FULL_DECODE_ONLY", "capture_graphs": True}


def scenario(
    requests: list[tuple[int, int]],
    form: str = "0.33",
    variant: str | None = None,
    ranks: int = 2,
    num_ubatches: int = 2,
    **config: Any,
) -> Scenario:
    """Returns a scenario. `requests`: prompt and output tokens of each request, assigned to the ranks in turn."""
    thresholds = {"dbo_decode_token_threshold": num_ubatches, "dbo_prefill_token_threshold": num_ubatches}
    return scenario_from(
        {
            "name": "dbo",
            "protocol": {"name": "dbo", "form": form} if variant is None else {"name": "dbo", "variant": variant},
            "topology": {"data_parallel_size": ranks},
            "config": {
                "ubatch_size": num_ubatches,
                "max_num_seqs": 4,
                **thresholds,
                **(config or {"enforce_eager": True}),
            },
            "workload": {
                "requests": [{"prompt_tokens": prompt, "output_tokens": output} for prompt, output in requests]
            },
        }
    )


def explored(one: Scenario, schedules: int = 1000) -> Explored:
    return explore_subject(Subject.of(one), "dpor", schedules=schedules)


def planted(one: Scenario, forward: type[OverlapForward], schedules: int = 100) -> Explored:
    """Explores the scenario with another forward, which need not be registered as a variant."""
    program, _, prepared = prepare(one, Path())
    assert isinstance(prepared, OverlapSetup)
    subject = Subject(world(one), program, prepared._replace(forward=forward), repeats=False)
    return explore_subject(subject, "dpor", schedules=schedules)


def found_class(found: Explored) -> str | None:
    return None if found.failure is None else found.failure.problem.klass


def forwards(one: Scenario) -> dict[str, int]:
    """Returns how often the forwards of rank 0 ran in each way, such as eagerly or as a replay, without the ways that
    never ran.
    """
    program, args, prepared = prepare(one, Path())
    run = SimBackend().run(world(one), one.protocol.name, args)
    assert run.finished, [journal[-1] for journal in run.journals]
    ways: dict[str, int] = program.figures(prepared, run.journals)["forwards"]
    return {way: count for way, count in ways.items() if count}


__all__ = ["GRAPHS", "explored", "forwards", "found_class", "planted", "scenario"]
