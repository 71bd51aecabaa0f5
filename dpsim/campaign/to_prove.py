"""To prove: how a proof would be possible, if an exploration held and proved nothing.

    to_prove(Exploration("sampled", runs=1000))     # "not proven after 1,000 schedules: raise `schedules`, ..."
    verdict = Known("sampled", to_prove(found))     # a word that carries this hint

A proof needs every schedule, and each of them whole. The verdicts sampled and bounded meet the expectation "held", so
each of them comes with this hint. `dpsim explore` prints it where no command goes on (`dpsim.cli.explore_again`): no
option undoes a cut or a bound.
"""

from __future__ import annotations

from dpsim.contract.words import counted
from dpsim.explore import Exploration


class Known(str):
    """A verdict as a word. `hint`: how a proof would be possible; the plugin of pytest prints it."""

    hint: str

    def __new__(cls, word: str, hint: str) -> Known:
        known = super().__new__(cls, word)
        known.hint = hint
        return known


def to_prove(found: Exploration) -> str:
    """Returns how a proof would be possible; empty if the verdict is neither sampled nor bounded.

    >>> to_prove(Exploration("bounded", runs=9, cut=2, bounds={"10,000 choices": None}))
    'not proven, because 2 of 9 schedules were cut off after 10,000 choices: end each loop after a number of rounds'
    >>> to_prove(Exploration("bounded", within="at most 1 death"))
    'tried only schedules with at most 1 death; a larger bound covers more'
    """
    polls = f"; {found.polls}" if found.polls else ""
    runs = f"not proven after {counted(found.runs, 'schedule')}"
    if found.verdict == "sampled":
        return f'{runs}: raise `schedules`, take strategy="dpor", or bound the parameters{polls}'
    if found.verdict != "bounded":
        return ""
    if found.unfinished:
        return f"{runs}: raise `schedules`"
    if not found.cut:
        return f"tried only schedules with {found.within}; a larger bound covers more"
    loops = "run fewer steps or requests" if found.outgrown else "end each loop after a number of rounds"
    some = f"{found.cut:,} of {counted(found.runs, 'schedule')} {'was' if found.cut == 1 else 'were'} cut off"
    return f"not proven, because {some} after {' or '.join(found.bounds)}: {loops}{polls}"
