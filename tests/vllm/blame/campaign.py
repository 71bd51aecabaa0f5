"""One fault in each of many random worlds: is the culprit the rank and the step at which it was planted?

    python -m tests.vllm.blame.campaign pp_tokens 1000 1450     # a table, and the causes of what is not right
    python -m tests.vllm.blame.campaign all 1000 1450           # a line for each family
    python -m tests.vllm.blame.campaign dbo 1000 1450 --shown 5 # and five of those that are not right

The truth is where the fault was planted. `injected` records are taken out of the journals before a run is judged, so
that nothing can read it there. Each world is first run without a fault, slow and skewed: no rank may be accused.
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
from tests.vllm.blame.families import FAMILIES
from tests.vllm.blame.plants import Planted, plant, slow, step_of

VERDICTS = ("right", "other step", "undecided", "wrong", "not found")
"""What can come of a world whose fault was applied. "other step": the right rank, in another step. "undecided"
is also a culprit of several ranks, the right one among them.
"""


class Row(NamedTuple):
    """What came of one world. `came`: one of VERDICTS, or "never applied". `accused`: what a slow run without a fault
    was found guilty of. `with_one_more`: of an undecided one, what came of it with a data-parallel rank more.
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
        """What worlds have in common that went alike: the fault, and what was found."""
        klass = self.primary.klass if self.primary else "-"
        return self.came, self.planted.kind, self.planted.raw[KIND], self.planted.raw[SITE], klass


def rows(family: str, seeds: range) -> Iterator[Row]:
    """A row for each seed; no row for a world that can have no fault where one was drawn."""
    for seed in seeds:
        row = one(family, seed)
        if row is not None:
            yield row


def one(family: str, seed: int) -> Row | None:
    """Build a world, judge it slow, plant a fault and judge it again."""
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
    """What came of the same fault where the world has a data-parallel rank more; "undecided" without such a world."""
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
    """Counts of a family's rows."""

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
        """Worlds in which the fault changed anything."""
        return sum(self.counts[came] for came in VERDICTS)

    def share(self, came: str) -> float:
        """Percent of the worlds in which the fault changed anything."""
        return 100 * self.counts[came] / max(self.applied, 1)

    def line(self) -> str:
        shares = "  ".join(f"{came} {self.share(came):5.1f} %" for came in VERDICTS)
        applied = f"{self.applied} faults applied, {self.counts['never applied']} never applied"
        more = ", ".join(f"{number} {came}" for came, number in sorted(self.with_one_more.items()))
        told = f"; undecided ones with one more rank: {more}" * bool(more)
        return f"{self.family:16} {shares}  ({applied}; {self.accused} healthy runs accused{told})"


def main(words: list[str]) -> None:
    """The command: a family or `all`, the first seed and the one behind the last, `--shown N`."""
    shown = int(words[words.index("--shown") + 1]) if "--shown" in words else 0
    name, low, high = words[:3]
    for family in FAMILIES if name == "all" else [name]:
        seen = list(rows(family, range(int(low), int(high))))
        print(Table.of(family, seen).line(), flush=True)
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
