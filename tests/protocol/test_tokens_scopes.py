"""Every small pipeline up to a size, whole: two stages, one slot, so that each request gets the slot of the one before.

What a missing generation check does needs the right world: a request is aborted while its token is on its way, the next
one gets its slot in that step, and runs on. A few of a hundred small worlds are so, and it is known of each of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dpsim.exploration import Subject, explore_subject
from dpsim.museum.tokens import NoGeneration
from dpsim.protocol.sampled_tokens import SampledTokens
from dpsim.scenario import scenario_from
from dpsim.scenario.small import scope, small_scenarios

BASE = scenario_from(
    {
        "name": "one-slot",
        "protocol": {"name": "pp_tokens"},
        "topology": {"pipeline_parallel_size": 2},
        "config": {"max_num_seqs": 1, "max_num_batched_tokens": 4, "cudagraph_mode": "NONE"},
        "workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]},
    }
)


def verdicts(sizes: str, tokens: type[SampledTokens] = SampledTokens) -> Counter[str]:
    """Of all worlds of a scope, each explored to its end."""
    seen: Counter[str] = Counter()
    for scenario in small_scenarios(BASE, scope(sizes)):
        subject = Subject.of(scenario)
        explored = explore_subject(replace(subject, prepared=subject.prepared._replace(tokens=tokens)), "dpor")
        failure = explored.failure
        seen[explored.verdict if failure is None else failure.problem.klass] += 1
        seen["schedules"] += explored.exploration.runs
    return seen


TWO = "requests=2,steps=3,prompt=1,output=2,abort=1"
THREE = "requests=3,steps=3,prompt=1,output=2,abort=1"


def test_all_of_two_requests() -> None:
    """One schedule each, for nobody polls."""
    assert verdicts(TWO) == {"proven": 238, "schedules": 238}


def test_the_missing_check_shows_in_few_of_two_requests() -> None:
    """In 8 of 238, 3.4 %."""
    seen = verdicts(TWO, NoGeneration)
    assert seen == {"proven": 230, "CRASH:WRONGLENGTH": 8, "schedules": 238}


@pytest.mark.slow
def test_all_of_three_requests() -> None:
    """2,518 worlds, each proven, in some 10 s on a core; the missing check shows in 166 of them, 6.6 %: the more
    requests, the more often a slot is given on in time.
    """
    assert verdicts(THREE) == {"proven": 2518, "schedules": 2518}
    seen = verdicts(THREE, NoGeneration)
    assert (seen["proven"], seen["schedules"]) == (2352, 2518)


@pytest.mark.slow
def test_all_of_one_to_four_stages() -> None:
    """One stage has no queue of tokens, three and four have longer ones."""
    sizes = "stages=4,requests=2,steps=3,prompt=2,output=2,abort=1"
    assert verdicts(sizes) == {"proven": 3664, "schedules": 3664}
