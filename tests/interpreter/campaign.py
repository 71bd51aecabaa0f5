"""Compares dpsim with the interpreter on many random scripts, and counts the features of the scripts.

tally = campaign(range(2_000))
tally.differences       # {}: dpsim missed and invented no outcome
print(tally)            # "2000 scripts: 612 with more than one outcome, ..."

python -m tests.interpreter.campaign 0 500      # also shrinks each script that shows a difference
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.interpreter.comparison import SCHEDULES, STATES, Compared, compare
from tests.interpreter.generator import random_script
from tests.interpreter.language import Script, unwrapped
from tests.interpreter.shrink import shrunk


@dataclass
class Tally:
    """The result of a campaign. `had`: the number of scripts with each feature. `differences`: by seed. `unknown`: the
    number of scripts that were too large to compare.
    """

    scripts: int = 0
    had: Counter[str] = field(default_factory=Counter)
    unknown: list[int] = field(default_factory=list)
    differences: dict[int, str] = field(default_factory=dict)

    def add(self, seed: int, script: Script, compared: Compared) -> None:
        self.scripts += 1
        if compared.difference:
            self.differences[seed] = compared.difference
        elif not compared.known:
            self.unknown.append(seed)
        self.had.update(_features(script, compared))

    def __str__(self) -> str:
        had = ", ".join(f"{number} {what}" for what, number in sorted(self.had.items()))
        left = f"{len(self.unknown)} too large to compare whole, {len(self.differences)} differences"
        return f"{self.scripts} scripts: {left}\n{had}"


def _features(script: Script, compared: Compared) -> set[str]:
    whats = {unwrapped(how)[0] for rank in script.ranks for how in rank}
    features = {f"with {what}" for what in whats}
    ends = {end for outcome in compared.least.outcomes for end, _ in outcome}
    for feature, holds in {
        "that may hang": "blocked" in ends,
        "that raise": "raised" in ends,
        "with a race": bool(compared.least.races),
        "that read unwritten memory": compared.least.unwritten,
        "with kills": bool(script.mortal),
        "with slots": script.residency is not None,
        "of more than one outcome": not compared.least.bad and len(compared.least.outcomes) > 1,
    }.items():
        if holds:
            features.add(feature)
    return features


def campaign(seeds: Iterable[int], states: int = STATES, schedules: int = SCHEDULES) -> Tally:
    tally = Tally()
    for seed in seeds:
        script = random_script(seed)
        tally.add(seed, script, compare(script, states, schedules))
    return tally


def smallest(script: Script) -> Script:
    """Shrinks a script to the smallest one with the same difference."""
    difference = compare(script).difference
    return shrunk(script, lambda small: compare(small).difference == difference)


def main(first: int, last: int) -> None:
    tally = campaign(range(first, last))
    print(tally)
    for seed, difference in tally.differences.items():
        print(f"\nseed {seed}: {difference}\n{smallest(random_script(seed)).words()}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
