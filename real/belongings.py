"""What a process has for a rank of one job, and a rank of one host thread that is made of it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import NamedTuple

from dpsim.backend.journal.journal import RankJournal
from dpsim.contract.ops import RawRecord
from dpsim.contract.world import World
from real.communicators import Group
from real.mail import Mail
from real.rank import RealDevice, RealRank
from real.waiting import Patience, cores


class Belongings(NamedTuple):
    """What a process has for a rank of one job. `polls`: waits can be called off. `aborts`: the program says that it
    aborts communicators.
    """

    device: RealDevice
    groups: list[Group]
    mail: Mail
    give_up: Event
    dismissed: Event
    polls: bool
    aborts: bool = False


def lone_rank(number: int, world: World, write: Callable[[RawRecord], None], of: Belongings) -> RealRank:
    """A rank of one host thread."""
    patience = Patience(of.give_up, of.polls, of.dismissed, crowded=world.actors > cores())
    shared = RankJournal(number, world, write)
    shared.aborts = of.aborts
    return RealRank(shared.thread(), of.device, of.groups, patience, of.mail, world.actors)
