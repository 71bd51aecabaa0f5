"""Partial kills (`Kill(partial=True)`): a rank that dies in a collective may end the part of one peer and not of
another.
"""

from __future__ import annotations

from collections.abc import Collection

from dpsim.contract.events import IS_SERVED_BY, numbered_label
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


def served(host: Host, name: str, members: Collection[int], end: Op, on_device: bool) -> Op:
    """Returns the end of a rank's part, which needs each member with a partial kill to be alive."""
    machine, number = host.machine, host.part_number
    host.part_number += 1
    for victim in machine.partial:
        if victim == host.rank or victim not in members:
            continue
        label = numbered_label(f"{IS_SERVED_BY} {victim} in {name}", number, host.word) if machine.visible else ""
        lives = ((("life", victim), "r"),)
        part = Op(label, 0, None, lives, victim if on_device else ~victim)
        machine.mark(part)
        if host.chained:
            host.before(part)
        machine.edge(end, part)
        machine.submit(part)
        end = part
    return end
