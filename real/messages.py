"""The messages between the parent and its workers: pickled tuples over a socket pair.

    parent                        worker
                 <- Ready                    once, when torch is imported, and the store and the device are reachable
    Job          ->                          each worker of the world gets the same job, with its own journal
                 <- Prepared                 the program is found and prepared, and all communicators exist
    Go           ->                          when every rank is prepared, so no program waits for a set-up
                 <- Alone                    main has ended and waits for other host threads
                 <- JobEnded                 how the program of this rank ended; a stuck or dead rank sends none
                 <- Troubled                 in place of JobEnded: the machine took a resource away
    Dismiss      ->                          all ranks that have not ended wait in an idle get: the program is over
    AskThreadStates    ->                          a rank of several host threads makes no progress: where is each?
                 <- Stands                   the reply, from the control thread; before any AbortJob
    AbortJob     ->                          the parent has read the journals: end waits, abort the communicators
    Leave        ->                          all ranks have ended: close your stores; the reply is as for AbortJob
                 <- Recovered                `clean`: whether this process and its device can be used again

A number identifies a worker. A rank's number is the rank; services, which have no device, have the numbers -1, -2 and
so on. So a rank has the same device in worlds with any number of services, and later jobs reuse the processes of
services.

Instead of Ready and Prepared a worker may send Refused, with a reason. Each message has the number of its job, and the
parent drops messages about a job that it has closed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.contract.undefined import Undefined
from dpsim.contract.world import End, World


def worker_of(actor: int, size: int) -> int:
    """Returns the number of the worker for a rank or service of a world of `size` ranks. Applied to that number, it
    returns the rank or service.
    """
    return actor if 0 <= actor < size else size - 1 - actor


class Ready(NamedTuple):
    number: int
    versions: dict[str, str]


class Job(NamedTuple):
    """A program to run. The worker abandons communicators of an older `generation`. `path`: the parent's `sys.path`.
    `secret`: 32 random hexadecimal digits from the parent, by which its workers authenticate to each other's stores.
    """

    number: int
    generation: int
    world: World
    program: str
    args: Any
    modules: list[str]
    path: list[str]
    secret: str
    journal: str


class Prepared(NamedTuple):
    number: int


class Refused(NamedTuple):
    """`stage`: "program" if the worker did not find it or its `prepare` failed, "lost" if the machine took away a
    resource, "machine" for all else.
    """

    number: int
    stage: str
    why: str


class Go(NamedTuple):
    number: int


class Alone(NamedTuple):
    number: int


class JobEnded(NamedTuple):
    """The end of a program. Times are in ns of the monotonic clock, which all processes of a machine share."""

    number: int
    end: End
    waited_ns: int
    started_ns: int
    ended_ns: int
    changed: str = ""
    spoiled: bool = False
    listens: bool = False
    aborted: bool = False
    undefined: tuple[Undefined, ...] = ()


class Troubled(NamedTuple):
    """What the machine took away from this rank: memory, or room for its journal. It implies nothing about the
    program.
    """

    number: int
    end: End
    what: str


class Dismiss(NamedTuple):
    number: int


class AskThreadStates(NamedTuple):
    number: int


class ThreadStates(NamedTuple):
    """The place of each host thread: its name and the program's line, "u1 at engine/batch.py:88"."""

    number: int
    threads: tuple[str, ...]


class Leave(NamedTuple):
    number: int


class AbortJob(NamedTuple):
    number: int


class Recovered(NamedTuple):
    number: int
    clean: bool
