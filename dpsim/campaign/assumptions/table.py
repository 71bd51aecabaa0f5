"""The table: all sections, the words that a verdict prints, and docs/assumptions.md."""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.campaign.assumptions.devices import DEVICES
from dpsim.campaign.assumptions.facts import Facts
from dpsim.campaign.assumptions.graphs import GRAPHS
from dpsim.campaign.assumptions.nodes import NODES
from dpsim.campaign.assumptions.ranks import RANKS
from dpsim.campaign.assumptions.row import HEADER, OTHERWISE, Assumption, Section
from dpsim.campaign.assumptions.transport import COLLECTIVES, TRANSFERS

SECTIONS: tuple[Section, ...] = (RANKS, COLLECTIVES, TRANSFERS, DEVICES, GRAPHS, NODES)

OPENING = """\
# What hardware may do, and what the simulation does

A verdict is about a world, and about what the runs of this world did. The line `assumes:` below a proof names what the
proof takes for granted, and this page says what each of its words means. The line has only what matters for the calls
that the ranks made. If no rank chooses or replays a graph, it says nothing of graphs.

*Always* means that the simulation does it wherever it may, and exploring tries each way. *Option* means that a world
has to ask for it. *No* means that a proof says nothing of it. The last column has the words that `assumes:` prints;
*nothing* means that a proof takes nothing for granted there. Many rows share the words "no other effect of hardware".
Options that are keys of a scenario exist on the simulation only. Gloo and NCCL refuse such a scenario (exit code 2).

`python -m dpsim.campaign.assumptions` writes this page from the table in `dpsim/campaign/assumptions`.
"""


def rows() -> Sequence[Assumption]:
    """Of all sections."""
    return [row for section in SECTIONS for row in section.rows]


def assumed(facts: Facts) -> tuple[str, ...]:
    """What a verdict takes for granted, in a few words each, in the order of the table. A proof says nothing of what
    hardware may do beyond the world that it is about, so the verdict names it.

    >>> from dpsim.contract.world import Kill, World
    >>> launched = {("launch", "main"), ("alloc",), ("collective", "main", "dp")}
    >>> "; ".join(assumed(Facts(World(2, (), residency=1, lazy=True), launched))[:3])
    'no rank dies; unlimited launch queue; no allocation waits'
    >>> for what in assumed(Facts(World(3, (), kills=(Kill(1), Kill(2, loses_mail=True))), {("post",)}))[:2]:
    ...     print(what)
    only ranks 1, 2 die
    what the dead posted arrives
    """
    said = [*(says.of(facts) for row in rows() for says in row.says), *facts.by_program]
    return tuple(sorted(dict.fromkeys(filter(None, said)), key=OTHERWISE.__eq__))


def unsaid(facts: Facts) -> tuple[str, ...]:
    """Effects of hardware that a verdict only sums up as "no other effect of hardware"."""
    return tuple(row.may for row in rows() if any(says.of(facts) == OTHERWISE for says in row.says))


def document() -> str:
    """docs/assumptions.md."""
    parts = [OPENING]
    for section in SECTIONS:
        header = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
        parts.append("\n".join([f"## {section.title}", "", *header, *(row.line() for row in section.rows), ""]))
    return "\n".join(parts)
