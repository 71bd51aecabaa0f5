"""What hardware may do, what the simulation does, and what a proof therefore takes for granted: one table.

    facts.py        the facts of an exploration: its world, its program, and what its runs did
    row.py          a row of the table, and the words that a verdict prints for it
    ranks.py        rows: ranks that die, are late or do wrong
    transport.py    rows: collectives, transfers and messages
    devices.py      rows: host and device, host threads
    graphs.py       rows: captured graphs
    nodes.py        rows: nodes, ports and services, time-outs
    table.py        all sections; the words of a verdict; docs/assumptions.md

To add a row, write it in the file of its section and run `python -m dpsim.campaign.assumptions > docs/assumptions.md`.
If the row needs a fact that no run tells of yet, add it in `facts.py`. `tests/campaign/test_assumed.py` asks for a
world that prints the words of the row.
"""

from __future__ import annotations

from dpsim.campaign.assumptions.facts import Facts
from dpsim.campaign.assumptions.table import assumed, unsaid

__all__ = ["Facts", "assumed", "unsaid"]
