"""The objects of a worker process for a rank of one job, and how it creates a rank with one host thread from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import NamedTuple

from dpsim.backend.journal.journal import RankJournal
from dpsim.contract.ops import RawRecord
from dpsim.contract.world import World
from real.communicators import Group
from real.mail import Mail
from real.pauses import pauses_of
from real.rank import RealDevice, RealRank
from real.waiting import Patience, cores


class Belongings(NamedTuple):
    """The objects of a process for a rank of one job. `polls`: whether its waits poll, so that they can be given up.
    `aborts`: whether the program declares that it aborts communicators.
    """

    device: RealDevice
    groups: list[Group]
    mail: Mail
    give_up: Event
    dismissed: Event
    polls: bool
    aborts: bool = False


def lone_rank(number: int, world: World, write: Callable[[RawRecord], None], of: Belongings) -> RealRank:
    """Creates a rank with one host thread."""
    patience = Patience(of.give_up, of.polls, of.dismissed, crowded=world.actors > cores())
    shared = RankJournal(number, world, write)
    shared.aborts = of.aborts
    journal, pauses = shared.thread(), pauses_of(world, number)
    if pauses is not None:
        journal.turn, journal.looks = partial(pauses.sleep, journal.thread), True
    return RealRank(journal, of.device, of.groups, patience, of.mail, world.actors)
