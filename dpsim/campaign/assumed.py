"""What a verdict on a world takes for granted: hardware may do it, and this world was not asked to.

    >>> "; ".join(assumed(World(2, (), residency=1)))
    'no rank dies; unlimited launch queue; no allocation waits'

A proof says nothing of what a world leaves out, so a verdict names it. All of these are options of `World`; a scenario
sets them by faults of the kind `kill` and under `limits`; but for what a program promises of its threads, and
for time-outs: without time one passes when nothing else can happen, and a world has no option for that. What else the
simulation never does is not named here; docs/assumptions.md lists all of it.
"""

from __future__ import annotations

from dpsim.contract.words import ranks_text
from dpsim.contract.world import World


def assumed(world: World, by_flags: bool = False, timeouts: bool = False) -> tuple[str, ...]:
    """Each in a few words; empty if the world has everything. `by_flags`: the program says so (`ordered_by_flags`).
    `timeouts`: somebody waited with one.

    >>> from dpsim.contract.world import Kill
    >>> for what in assumed(World(3, (), kills=(Kill(1), Kill(2, loses_mail=True))))[:2]:
    ...     print(what)
    only ranks 1, 2 die
    what the dead began goes on on hosts, and on devices what waits for all ends for all or none
    """
    mortal = sorted({kill.rank for kill in world.kills})
    only = f"only {ranks_text(mortal)} die{'s' * (len(mortal) == 1)}"
    words = {
        "no rank dies": not mortal,
        only: 0 < len(mortal) < world.size,
        "what the dead began goes on on hosts, and on devices what waits for all ends for all or none": not all(
            kill.partial for kill in world.kills
        ),
        "what the dead posted arrives": not all(kill.loses_mail for kill in world.kills),
        "unlimited residency": world.residency is None,
        "unlimited launch queue": world.launch_queue is None,
        "no allocation waits": not world.alloc_synchronises,
        "allocations wait where this layout takes new memory": world.alloc_synchronises,
        "flags order what host threads share": by_flags,
        "time-outs are longer than all that goes on": timeouts,
    }
    return tuple(what for what, so in words.items() if so)
