"""Reached: counts the runs that reached each probe, and in which ranks decided each mode or table row of the program.

reached = Reached()
reached.note(program, run.journals)         # after each run
reached.probes["dp.late"]                   # in how many runs
reached.decided["FULL"]                     # a name of `Program.modes` or `Program.rows`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, RawRecord
from dpsim.contract.program import Program


class Reached:
    """The number of runs for each name."""

    def __init__(self) -> None:
        self.probes: Counter[str] = Counter()
        self.decided: Counter[str] = Counter()

    def note(self, program: Program[Any], journals: Iterable[Sequence[RawRecord]]) -> None:
        """Adds a run. Reads its records only if the program declares something."""
        named = {(label, value): name for name, (label, value) in {**program.modes, **program.rows}.items()}
        if not (program.probes or named):
            return
        labels = {label for label, _ in named}
        probes, decided = set(), set()
        for journal in journals:
            for raw in journal:
                kind = raw[KIND]
                if kind == "probe":
                    probes.add(raw[SITE])
                elif kind == "decision" and raw[SITE] in labels:
                    decided.add(named.get((raw[SITE], raw[DECISION_VALUE])))
        self.probes.update(probes)
        self.decided.update(filter(None, decided))
