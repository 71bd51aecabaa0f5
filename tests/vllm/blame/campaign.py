"""Plants one fault in each of many random worlds, and counts how often the checks name its rank and step.

    python -m tests.vllm.blame.campaign pp_tokens 1000 1450     # a table, and the causes of what is not right
    python -m tests.vllm.blame.campaign all 1000 1450           # a line for each family
    python -m tests.vllm.blame.campaign dbo 1000 1450 --shown 5 # and five worlds whose verdict is not right
    python -m tests.vllm.blame.campaign all 1000 1040 --repaired        # and which repairs confirm a culprit

The planted fault is the truth that verdicts are compared with. The campaign removes `injected` records from the
journals before the checks run, so that no check can read the fault there. The campaign also judges each world without a
fault, with its normal timing and with random delays; then the checks must accuse no rank.

`tests.vllm.blame.confirmed` counts the repairs, which cost up to 20 runs of a world.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge
from dpsim.contract.ops import KIND, SITE
from dpsim.contract.world import Run, World
from dpsim.diagnose.injected import never_applied
from dpsim.scenario import Scenario, scenario_from
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend
from tests.vllm.blame import confirmed
from tests.vllm.blame.families import FAMILIES
from tests.vllm.blame.plants import Planted, plant, slow, step_of

VERDICTS = ("right", "other step", "undecided", "wrong", "not found")
"""The verdicts on a world whose fault changed the run.

"other step": the checks name the right rank in another step. "undecided": they name no culprit, or several ranks that
include the right one.
"""


class Row(NamedTuple):
    """The result of one world.

    `came`: one of `VERDICTS`, or "never applied". `accused`: the first finding of the delayed run without a fault, else
    None. `with_one_more`: for an undecided world, the verdict on the same world with one more data-parallel rank.
    """

    family: str
    seed: int
    planted: Planted
    came: str
    primary: Finding | None
    accused: Finding | None
    with_one_more: str = ""

    @property
    def cause(self) -> tuple[str, ...]:
        """The key by which the command groups worlds: verdict, fault, its record, and class of the finding."""
        klass = self.primary.klass if self.primary else "-"
        return self.came, self.planted.kind, self.planted.raw[KIND], self.planted.raw[SITE], klass


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
        return run, judge(of, _stripped(run))

    healthy, nothing = judged(told)
    assert not nothing, f"{family} {seed}: a healthy world has findings: {nothing[0]}"
    _, accused = judged(replace(told, delays=slow(random, told, healthy)))
    planted = plant(random, told, healthy)
    if planted is None:
        return None
    broken = replace(told, faults=(planted.fault,))
    run, found = judged(broken)
    came = "never applied" if never_applied(broken, run) else _came(planted, found)
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
    found = judge(told, _stripped(SimBackend().run_program(told, program, prepared)))
    if not found or found[0].klass != row.primary.klass:
        return "undecided"
    planted = row.planted._replace(fault=fault._replace(rank=rank))
    return _came(planted, found)


def _stripped(run: Run) -> Run:
    return replace(run, journals=[[raw for raw in own if raw[KIND] != "injected"] for own in run.journals])


def _came(planted: Planted, found: list[Finding]) -> str:
    if not found:
        return "not found"
    culprit = found[0].culprit
    if culprit is None:
        return "undecided"
    if planted.fault.rank not in (culprit.ranks or (culprit.rank,)):
        return "wrong"
    if len(culprit.ranks) > 1:
        return "undecided"
    return "right" if culprit.step == step_of(planted) else "other step"


class Table(NamedTuple):
    """Counts the verdicts of a family."""

    family: str
    counts: Counter[str]
    with_one_more: Counter[str]
    accused: int

    @staticmethod
    def of(family: str, seen: list[Row]) -> Table:
        counts = Counter(row.came for row in seen)
        more = Counter(row.with_one_more for row in seen if row.came == "undecided")
        return Table(family, counts, more, sum(row.accused is not None for row in seen))

    @property
    def applied(self) -> int:
        """The number of worlds in which the fault changed the run."""
        return sum(self.counts[came] for came in VERDICTS)

    def share(self, came: str) -> float:
        """Returns the percentage of a verdict among the worlds in which the fault changed the run."""
        return 100 * self.counts[came] / max(self.applied, 1)

    def line(self) -> str:
        shares = "  ".join(f"{came} {self.share(came):5.1f} %" for came in VERDICTS)
        applied = f"{self.applied} faults applied, {self.counts['never applied']} never applied"
        more = ", ".join(f"{number} {came}" for came, number in sorted(self.with_one_more.items()))
        told = f"; undecided ones with one more rank: {more}" * bool(more)
        return f"{self.family:16} {shares}  ({applied}; {self.accused} healthy runs accused{told})"


def main(words: list[str]) -> None:
    """Runs the command.

    Its words: a family or `all`, the first seed, the seed after the last, and optionally `--shown N`, `--repaired`.
    """
    shown = int(words[words.index("--shown") + 1]) if "--shown" in words else 0
    name, low, high = words[:3]
    for family in FAMILIES if name == "all" else [name]:
        seen = list(rows(family, range(int(low), int(high))))
        print(Table.of(family, seen).line(), flush=True)
        if "--repaired" in words:
            print("\n".join(confirmed.lines(family, seen)), flush=True)
        if name == "all":
            continue
        by_kind: dict[str, Counter[str]] = {}
        for row in seen:
            by_kind.setdefault(f"{row.planted.kind} {row.planted.raw[KIND]}", Counter())[row.came] += 1
        for kind, counts in sorted(by_kind.items()):
            print(f"  {kind:24}", dict(counts))
        wrong = [row for row in seen if row.came not in ("right", "never applied") or row.accused]
        for cause, number in Counter(row.cause for row in wrong).most_common():
            print(f"  {number:4} {' | '.join(cause)}")
        for row in wrong[:shown]:
            print(_told(row))


def _told(row: Row) -> str:
    fault, raw = row.planted.fault, row.planted.raw
    parts: list[Any] = [f"seed {row.seed}: {row.planted.kind} at rank {fault.rank}, step {step_of(row.planted)}"]
    parts.append(f"{fault.at} ({raw[KIND]}): {row.came}")
    for finding in (row.primary, row.accused):
        if finding is not None:
            parts.append(f"\n    {finding.klass}  {finding.culprit}\n    {finding.message}")
    return "  ".join(map(str, parts))


if __name__ == "__main__":
    main(sys.argv[1:])
