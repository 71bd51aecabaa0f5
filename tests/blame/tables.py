"""Tables: counts the verdicts on worlds with one mistake each. It is the same for all campaigns.

    seen = list(rows)                          # of one family of worlds, or of one kind of protocols
    print(Table.of("ring", seen).line())
    run_command(sys.argv[1:], {"ring": rows_of_ring}, {"all": ["ring"]})

A table has a share for each verdict, and the number of healthy runs in which a rank was accused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from dpsim.checks.finding import Finding
from dpsim.contract.ops import KIND, SITE
from tests.blame.cases import UNSEEN, VERDICTS
from tests.blame.plants import Planted, step_of


class Row(NamedTuple):
    """The result of one world.

    `came`: one of `VERDICTS` or `UNSEEN`. `accused`: the first finding of the delayed run without a mistake,
    else None. `with_one_more`: for an undecided world, the verdict on the same world with one more rank, if known.
    `text`: the parameters of the world. `said`: the message of the finding as text, if the verdict is not right.
    """

    family: str
    seed: int
    planted: Planted[Any]
    came: str
    primary: Finding | None
    accused: Finding | None
    with_one_more: str = ""
    text: str = ""
    said: str = ""

    @property
    def cause(self) -> tuple[str, ...]:
        """The key by which the command groups worlds: verdict, mistake, its record, and class of the finding."""
        klass = self.primary.klass if self.primary else "-"
        return self.came, self.planted.kind, self.planted.raw[KIND], self.planted.raw[SITE], klass

    def json(self) -> str:
        """The row as a line of JSON."""
        fault = self.planted.fault
        found = {} if self.primary is None else {"class": self.primary.klass, "culprit": str(self.primary.culprit)}
        return json.dumps(
            {
                "family": self.family,
                "seed": self.seed,
                "world": self.text,
                "mistake": self.planted.kind,
                "change": dict(fault.change),
                "rank": fault.rank,
                "at": str(fault.at),
                "step": step_of(self.planted),
                "record": self.planted.raw[KIND],
                "came": self.came,
                "said": self.said,
                "accused": self.accused is not None,
                **found,
            }
        )


Rows: TypeAlias = Callable[[range], Iterable[Row]]
"""Returns the rows of some seeds."""


class Table(NamedTuple):
    """Counts the verdicts of a family."""

    family: str
    counts: Counter[str]
    with_one_more: Counter[str]
    accused: int

    @staticmethod
    def of(family: str, seen: list[Row]) -> Table:
        counts = Counter(row.came for row in seen)
        more = Counter(row.with_one_more for row in seen if row.came == "undecided" and row.with_one_more)
        return Table(family, counts, more, sum(row.accused is not None for row in seen))

    @property
    def applied(self) -> int:
        """The number of worlds in which the mistake had an effect."""
        return sum(self.counts[came] for came in VERDICTS)

    def share(self, came: str) -> float:
        """Returns the percentage of a verdict among the worlds in which the mistake had an effect."""
        return 100 * self.counts[came] / max(self.applied, 1)

    def line(self) -> str:
        told = [came for came in VERDICTS if came != "judge failed" or self.counts[came]]
        shares = "  ".join(f"{came} {self.share(came):5.1f} %" for came in told)
        unseen = [f"{self.counts[came]} {came}" for came in UNSEEN if came == "never applied" or self.counts[came]]
        applied = ", ".join([f"{self.applied} faults applied", *unseen])
        more = ", ".join(f"{number} {came}" for came, number in sorted(self.with_one_more.items()))
        also = f"; undecided ones with one more rank: {more}" * bool(more)
        return f"{self.family:16} {shares}  ({applied}; {self.accused} healthy runs accused{also})"


def run_command(words: list[str], families: Mapping[str, Rows], several: Mapping[str, list[str]]) -> None:
    """Runs a command that prints tables.

    Its words: a family or a name of `several`, the first seed, the seed after the last, and optionally `--shown N` and
    `--json FILE`.
    """
    shown = int(words[words.index("--shown") + 1]) if "--shown" in words else 0
    out = Path(words[words.index("--json") + 1]) if "--json" in words else None
    name, low, high = words[:3]
    every: list[Row] = []
    for family in several.get(name, [name]):
        seen = list(families[family](range(int(low), int(high))))
        print(Table.of(family, seen).line(), flush=True)
        every += seen
        if out is not None:
            out.write_text("".join(f"{row.json()}\n" for row in every))
    _mistakes(every)
    if name not in several:
        _causes(every, shown)


def _mistakes(seen: list[Row]) -> None:
    """Prints the verdicts on each kind of mistake."""
    by_kind: dict[str, Counter[str]] = {}
    for row in seen:
        by_kind.setdefault(f"{row.planted.kind} {row.planted.raw[KIND]}", Counter())[row.came] += 1
    for kind, counts in sorted(by_kind.items()):
        print(f"  {kind:24}", dict(counts))


def _causes(seen: list[Row], shown: int) -> None:
    """Prints the causes of what is not right, and `shown` such worlds."""
    wrong = [row for row in seen if row.came not in ("right", *UNSEEN) or row.accused]
    for cause, number in Counter(row.cause for row in wrong).most_common():
        print(f"  {number:4} {' | '.join(cause)}")
    for row in wrong[:shown]:
        print(_told(row))


def _told(row: Row) -> str:
    fault, raw = row.planted.fault, row.planted.raw
    parts: list[Any] = [f"seed {row.seed}: {row.planted.kind} at rank {fault.rank}, step {step_of(row.planted)}"]
    parts.append(f"{fault.at} ({raw[KIND]}): {row.came}")
    if row.text:
        parts.append(f"\n    {row.text}")
    for finding in (row.primary, row.accused):
        if finding is not None:
            parts.append(f"\n    {finding.klass}  {finding.culprit}\n    {row.said or finding.message}")
    return "  ".join(map(str, parts))
