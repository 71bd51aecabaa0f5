"""Table: combines all sections of the table of assumptions, and writes the words of a verdict and
docs/assumptions.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.campaign.assumptions.devices import DEVICES
from dpsim.campaign.assumptions.facts import Facts
from dpsim.campaign.assumptions.graphs import GRAPHS
from dpsim.campaign.assumptions.nodes import NODES
from dpsim.campaign.assumptions.outside import OUTSIDE
from dpsim.campaign.assumptions.ranks import RANKS
from dpsim.campaign.assumptions.row import HEADER, OTHERWISE, Assumption, Section
from dpsim.campaign.assumptions.transport import COLLECTIVES, TRANSFERS

SECTIONS: tuple[Section, ...] = (RANKS, COLLECTIVES, TRANSFERS, DEVICES, GRAPHS, NODES, OUTSIDE)

OPENING = """\
# What hardware may do, and what the simulation does

A proof by `dpsim explore` covers what the simulation does. Hardware may do more. The line `assumes:` below a proof
lists the effects of hardware that the proof does not cover, and this page explains its words. The line contains only
effects that concern calls which the ranks made. For example, it mentions graphs only if a rank chooses or replays one.

The second column begins with one of three words:

* *always*: the simulation does this, and exploring tries each possible outcome;
* *option*: the simulation does it only if the scenario asks for it, as the third column shows;
* *no*: the simulation never does it.

The last column has the words that `assumes:` prints. *nothing* means that a proof assumes nothing there, for the given
reason. Many rows share the words "no other effect of hardware".

A *timed* run has a clock, and its calls, messages and kernels take time: `dpsim run` makes one. The runs of
`dpsim explore` are *untimed*: a schedule decides the order of steps, and no step takes time. Gloo and NCCL refuse a
scenario with options that only the simulation has (exit code 2).

`python -m dpsim.campaign.assumptions` writes this page from the table in `dpsim/campaign/assumptions`.
"""


def rows() -> Sequence[Assumption]:
    """Returns the rows of all sections."""
    return [row for section in SECTIONS for row in section.rows]


def assumed(facts: Facts) -> tuple[str, ...]:
    """Returns what a verdict assumes, in a few words each, in the order of the table.
    >>> from dpsim.contract.world import Kill, World
    >>> launched = {("launch", "main"), ("alloc",), ("collective", "main", "dp")}
    >>> "; ".join(assumed(Facts(World(2, (), residency=1, lazy=True), launched))[:3])
    'no rank dies; unlimited launch queue; no allocation waits'
    >>> for what in assumed(Facts(World(3, (), kills=(Kill(1), Kill(2, loses_mail=True))), {("post",)}))[:2]:
    ...     print(what)
    only ranks 1, 2 die
    messages that a dead rank posted arrive
    """
    sentences = [*(statement.of(facts) for row in rows() for statement in row.says), *facts.by_program]
    return tuple(sorted(dict.fromkeys(filter(None, sentences)), key=OTHERWISE.__eq__))


def unsaid(facts: Facts) -> tuple[str, ...]:
    """Returns the effects of hardware that a verdict only sums up as "no other effect of hardware"."""
    return tuple(row.may for row in rows() if any(statement.of(facts) == OTHERWISE for statement in row.says))


def document() -> str:
    """Returns the text of docs/assumptions.md."""
    parts = [OPENING]
    for section in SECTIONS:
        header = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
        parts.append("\n".join([f"## {section.title}", "", *header, *(row.line() for row in section.rows), ""]))
    return "\n".join(parts)
