"""Names what a set of small worlds lacks of the scenario that it is derived from.

    outside(scenario, scope("ranks=2,requests=1")._asdict())     # "the scenario's own workload (ranks=4, prompt=400)"

A proof of the set does not cover the scenario itself, if the scenario has more ranks or requests, or longer ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsim.scenario.model import Scenario
from dpsim.vllm.params.workload.model import RequestSpec, Workload


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
