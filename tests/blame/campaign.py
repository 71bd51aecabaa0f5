"""Plants one mistake in each of many drawn programs, and counts how often the checks name its rank and step.

    python -m tests.blame.campaign ring 0 200             # a table, and the causes of what is not right
    python -m tests.blame.campaign all 0 200              # a line for each kind of tests/blame/kinds
    python -m tests.blame.campaign held 0 200             # the same for tests/blame/kinds_held
    python -m tests.blame.campaign ring 0 200 --shown 5   # and five programs whose verdict is not right
    python -m tests.blame.campaign all 0 200 --json FILE  # and a line of JSON for each program

The checks also judge each program without a mistake, with its normal timing and with ops that are late. Then they must
accuse no rank. `tests.blame.cases` yields the runs themselves, for other judges.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from dpsim.diagnose.words.told import told
from tests.blame import kinds, kinds_held
from tests.blame.cases import cases
from tests.blame.drawn import kinds_in
from tests.blame.tables import Row, run_command

KINDS, HELD = kinds_in(kinds), kinds_in(kinds_held)


def rows(name: str, seeds: range) -> Iterator[Row]:
    """Yields the row of each seed of a kind of `KINDS` or `HELD`."""
    for case in cases(name, (KINDS | HELD)[name], seeds):
        first = case.findings[0] if case.findings else None
        row = Row(name, case.seed, case.planted, case.came, first, case.accused, text=case.drawn.text)
        said = first and case.came != "right" and told(case.run, first).message
        yield row._replace(said=said or "")


def main(words: list[str]) -> None:
    """Runs the command for the kinds; `run_command` describes its words."""
    families = {name: partial(rows, name) for name in KINDS | HELD}
    run_command(words, families, {"all": [*KINDS], "held": [*HELD]})


if __name__ == "__main__":
    main(sys.argv[1:])
