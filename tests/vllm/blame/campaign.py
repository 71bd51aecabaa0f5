"""Plants one fault in each of many random worlds, and counts how often the checks name its rank and step.

    python -m tests.vllm.blame.campaign pp_tokens 1000 1450     # a table, and the causes of what is not right
    python -m tests.vllm.blame.campaign all 1000 1450           # a line for each family
    python -m tests.vllm.blame.campaign dbo 1000 1450 --shown 5 # and five worlds whose verdict is not right
    python -m tests.vllm.blame.campaign all 1000 1040 --repaired        # only with which repairs the runs hold

The planted fault is the truth that verdicts are compared with. The campaign removes `injected` records from the
journals before the checks run, so that no check can read the fault there. The campaign also judges each world without a
fault, with its normal timing and with random delays; then the checks must accuse no rank.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random

from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge
from dpsim.contract.world import Run, World
from dpsim.diagnose.injected import never_applied
from dpsim.scenario import Scenario, scenario_from
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend
from tests.blame.cases import came_of, stripped
from tests.blame.plants import slow
from tests.blame.tables import Row, run_command
from tests.vllm.blame import repaired
from tests.vllm.blame.families import FAMILIES
from tests.vllm.blame.plants import plant


def rows(family: str, seeds: range) -> Iterator[Row]:
    """Yields the row of each seed, except for worlds where the drawn record can have no fault of the drawn kind."""
    for seed in seeds:
        row = one(family, seed)
        if row is not None:
            yield row


def one(family: str, seed: int) -> Row | None:
    """Builds the world of a seed, judges it healthy and delayed, plants a fault, and judges it again."""
    random = Random(seed)
    scenario = scenario_from(FAMILIES[family](random))
    program, _, prepared = prepare(scenario)
    told = world(scenario, program, prepared)

    def judged(of: World) -> tuple[Run, list[Finding]]:
        run = SimBackend().run_program(of, program, prepared)
        return run, judge(of, stripped(run))

    healthy, nothing = judged(told)
    assert not nothing, f"{family} {seed}: a healthy world has findings: {nothing[0]}"
    _, accused = judged(replace(told, delays=slow(random, told, healthy)))
    planted = plant(random, told, healthy)
    if planted is None:
        return None
    broken = replace(told, faults=(planted.fault,))
    run, found = judged(broken)
    came = "never applied" if never_applied(broken, run) else came_of(planted, found)
    row = Row(family, seed, planted, came, found[0] if found else None, accused[0] if accused else None)
    return row._replace(with_one_more=_with_one_more(scenario, row)) if came == "undecided" else row


def _with_one_more(scenario: Scenario, row: Row) -> str:
    """Returns the verdict on the same fault in the world with one more data-parallel rank; "undecided" if there is no
    such world.
    """
    more = scenario.one_more()
    if more is None or row.primary is None:
        return "undecided"
    program, _, prepared = prepare(more)
    told, fault = world(more, program, prepared), row.planted.fault
    rank = fault.rank if fault.rank < scenario.size else fault.rank + more.size - scenario.size
    told = replace(told, faults=(fault._replace(rank=rank),))
    found = judge(told, stripped(SimBackend().run_program(told, program, prepared)))
    if not found or found[0].klass != row.primary.klass:
        return "undecided"
    planted = row.planted._replace(fault=fault._replace(rank=rank))
    return came_of(planted, found)


def main(words: list[str]) -> None:
    """Runs the command for the families; `run_command` describes its words. `--repaired` costs many runs a world."""
    if "--repaired" in words:
        for family in FAMILIES if words[0] == "all" else words[:1]:
            print("\n".join([family, *repaired.lines(family, rows(family, range(*map(int, words[1:3]))))]), flush=True)
        return
    run_command(words, {family: partial(rows, family) for family in FAMILIES}, {"all": [*FAMILIES]})


if __name__ == "__main__":
    main(sys.argv[1:])
