"""Compares dpsim with the interpreter of hosts on many random scripts, and counts the features of the scripts.

tally = campaign(first=0, whole=100)    # seeds from 0 on, until 100 scripts were compared whole
tally.differences                       # {}: dpsim missed and invented no outcome

python -m tests.interpreter.hosts.campaign 0 100      # also shrinks each script that shows a difference
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

from tests.interpreter.hosts.comparison import SCHEDULES, STATES, Compared, compare
from tests.interpreter.hosts.generator import random_script
from tests.interpreter.hosts.language import said, timed_out
from tests.interpreter.language import Script
from tests.interpreter.shrink import shrunk

FEATURES = {
    "aborts": "abort",
    "threads": "spawn",
    "made groups": "make",
    "any source": "any",
    "stores": "open",
    "time-outs": "",
    "deaths": "",
}
"""The features of a script, with the instruction or op that shows each."""

RICH = 3
"""The number of features from which a script counts as rich."""


@dataclass
class Tally:
    """The result of a campaign. `had`: the number of scripts with each feature, among those compared whole. `seeds`:
    the number of drawn scripts.
    """

    whole: int = 0
    seeds: int = 0
    schedules: int = 0
    had: Counter[str] = field(default_factory=Counter)
    differences: dict[int, str] = field(default_factory=dict)

    def add(self, seed: int, script: Script, compared: Compared) -> None:
        self.seeds += 1
        if not compared.known:
            return
        self.whole += 1
        self.schedules += compared.schedules
        if compared.difference:
            self.differences[seed] = compared.difference
        had = features(script)
        self.had.update(had)
        self.had["rich"] += len(had) >= RICH
        self.had["more than one outcome"] += len(compared.allowed) > 1
        self.had["equal sets"] += compared.allowed == compared.seen

    def __str__(self) -> str:
        had = ", ".join(f"{number} {what}" for what, number in sorted(self.had.items()))
        size = f"{self.whole} of {self.seeds} scripts compared whole, {self.schedules} schedules"
        return f"{size}, {len(self.differences)} differences\n{had}"


def features(script: Script) -> set[str]:
    """Returns the features of a script that make it hard."""
    whats = {how[0] for how in said(script)} | {how[3] for how in said(script) if how[0] == "start"}
    had = {feature for feature, what in FEATURES.items() if what in whats}
    special = {"time-outs": timed_out(script), "deaths": bool(script.mortal)}
    return had | {feature for feature, has in special.items() if has}


def campaign(first: int, whole: int, states: int = STATES, schedules: int = SCHEDULES) -> Tally:
    """Compares scripts from seed `first` on, until `whole` scripts were small enough. At most three times as many are
    drawn.
    """
    tally = Tally()
    while tally.whole < whole and tally.seeds < 3 * whole:
        seed = first + tally.seeds
        script = random_script(seed)
        tally.add(seed, script, compare(script, states, schedules))
    return tally


def smallest(script: Script) -> Script:
    """Shrinks a script to the smallest one with the same difference, and the same mortal ranks."""
    difference = compare(script).difference
    return shrunk(script, lambda one: one.mortal == script.mortal and compare(one).difference == difference)


def main(first: int, whole: int) -> None:
    tally = campaign(first, whole)
    print(tally)
    for seed, difference in tally.differences.items():
        print(f"\nseed {seed}: {difference}\n{smallest(random_script(seed)).words()}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
