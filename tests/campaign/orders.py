"""Worlds with a known number of classes of schedules. As a program, it explores such a world with a work folder, until
a test kills the process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dpsim.campaign import plans
from dpsim.campaign.explored import Explored
from dpsim.campaign.processes import Keeper, explore_all
from dpsim.campaign.subject import Subject
from dpsim.campaign.work import WorkFolder
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import World

HEAD = {"scenario": "orders"}


class Orders(Program[Any]):
    """`prepared`: how many ranks post to each of the first ranks. The mailboxes fill in any order, so the number of
    classes is the product of the factorials.
    """

    async def run(self, rank: Rank, prepared: Any) -> None:
        if rank.rank < len(prepared):
            for _ in range(prepared[rank.rank]):
                await rank.mailbox("box").get("take")
            return
        senders = [to for to, many in enumerate(prepared) for _ in range(many)]
        rank.send(senders[rank.rank - len(prepared)], "box", rank.rank, "post")


def orders(*senders: int) -> Subject:
    return Subject(World(len(senders) + sum(senders), ()), Orders(), senders, name="orders")


def stable_results(found: Explored) -> Any:
    """Returns the results that depend neither on interruptions nor on the number of processes."""
    one = found.exploration
    failures = {(each.fingerprint, each.seen) for each in one.failures.values()}
    return found.verdict, one.runs, one.redundant, one.steps, frozenset(one.classes), tuple(one.fresh), failures


def explored(subject: Subject, folder: Path, jobs: int = 1, begin: bool = False, **more: Any) -> Explored:
    """Explores with a work folder. Without `begin`, the folder already contains work."""
    with WorkFolder.begin(folder, HEAD) if begin else WorkFolder.resume(folder, HEAD) as work:
        store: Keeper = work.of(["orders"])
        return explore_all([subject], more.pop("strategy", "dpor"), jobs=jobs, schedules=10**6, store=store, **more)[0]


if __name__ == "__main__":  # FOLDER JOBS UNIT_STEPS SENDERS...
    plans.UNIT_STEPS = int(sys.argv[3])
    here = Path(sys.argv[1])
    world = orders(*map(int, sys.argv[4:]))
    print(explored(world, here, int(sys.argv[2]), begin=not (here / "work.json").exists()).summary())
