"""Assumptions: a table of what hardware may do, what the simulation does, and what a proof therefore assumes.

If hardware may do something that the simulation never does, a proof by the simulation does not cover it. The verdict of
an exploration prints these assumptions, but only those that concern ops of its runs.

    facts.py        the facts of an exploration: its scenario, its program, and which ops its runs had
    row.py          a row of the table, and the words that a verdict prints for it
    ranks.py        rows: ranks that die, are late or do wrong
    transport.py    rows: collectives, transfers and messages
    devices.py      rows: host and device, host threads
    graphs.py       rows: captured graphs
    nodes.py        rows: nodes, ports and services, time-outs
    outside.py      rows: clocks, files and the like, which are outside of the contract
    table.py        all sections; the words of a verdict; docs/assumptions.md

To add a row, write it in the file of its section and run `python -m dpsim.campaign.assumptions > docs/assumptions.md`.
If the row needs a fact about runs that does not exist yet, add the fact in `facts.py`. `tests/campaign/test_assumed.py`
needs, for each row, a world whose verdict prints its words.
"""

from __future__ import annotations

from dpsim.campaign.assumptions.facts import Facts
from dpsim.campaign.assumptions.table import assumed, unsaid

__all__ = ["Facts", "assumed", "unsaid"]
