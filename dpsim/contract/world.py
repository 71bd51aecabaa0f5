"""What a backend is told, and what it gives back.

A backend knows nothing of scenarios, checks or verdicts. It is handed a `World` (ranks, communicators, what to
inject), the name of a registered program and plain data for it, and returns a `Run`: each rank's journal and how
the rank ended. Everything else is a fold over the journals, the same for every backend. All classes here are plain
data and can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from dpsim.contract.chain import Chain
from dpsim.contract.ops import KIND, MAIN, TAKE_HOW, Domain, RawRecord
from dpsim.contract.undefined import Undefined


class CommunicatorSpec(NamedTuple):
    """One group of ranks. A rank finds its own by `kind`; `name` is unique in the world and is what records carry."""

    kind: str
    name: str
    domain: Domain
    ranks: tuple[int, ...]


class At(NamedTuple):
    """The address of an op on a given rank: (thread, site, ordinal) or, for a collective, (communicator, seq).

    `ordinal` None means every visit of the site, which only a delay can be at; both None means the start of the
    thread's program.
    """

    site: str | None = None
    ordinal: int | None = None
    communicator: str | None = None
    seq: int | None = None
    thread: str = MAIN

    def __str__(self) -> str:
        if self.communicator is not None:
            return f"{self.communicator} #{self.seq}"
        thread = "" if self.thread == MAIN else f"{self.thread} "
        if self.site is None:
            return f"the start of {self.thread}" if thread else "the start"
        return f"{thread}{self.site}" if self.ordinal is None else f"{thread}{self.site}[{self.ordinal}]"


class Fault(NamedTuple):
    """Something that breaks the protocol, at one op of one rank: a call left out, made twice or made differently; or
    the rank dies there, raises in its program, or stands there for ever with all its threads, and nobody is told.
    """

    kind: Literal["skip", "repeat", "alter", "die", "raise", "hang"]
    rank: int
    at: At
    change: Mapping[str, Any] = {}  # alter: one of op, count, dtype, root

    def describe(self) -> str:
        change = "".join(f" {key} to {value}" for key, value in self.change.items())
        return f"{self.kind}{change}"


class Delay(NamedTuple):
    """Something that a correct protocol has to tolerate: `rank` comes late to an op, by `ns` nanoseconds."""

    rank: int
    at: At
    ns: int


Address: TypeAlias = tuple[int, str, str, int]
"""An op of a run: rank, host thread, site, ordinal. That of a message is the op that posted it; of one from outside its
sender (`outside`), no thread, the mailbox, and its number in the world.
"""


class Gate(NamedTuple):
    """What a look into a mailbox comes to, by its address: a message, or nothing. A look that has to come to nothing
    does not look (a get waits for its time-out all the same); one that has to come to a message waits for this one, a
    poll too, and takes it also if others came before. Of a call on a flag: the one before it (`dpsim.campaign.gates`).
    """

    at: Address
    message: Address | None


class Message(NamedTuple):
    """A message that nobody of the world sends: the machine does when rank `by` comes to `at`, before what it does
    there; at first when it begins (`At()`). It is delivered like any other. What is sent so by the same rank to the
    same mailbox arrives in that order, in no order with what the rank sends itself.
    """

    to: int
    mailbox: str
    content: Any
    by: int
    at: At = At()

    def describe(self) -> str:
        return f"message {self.content!r} to {self.mailbox}"


def outside(by: int) -> int:
    """The sender of messages from outside that are sent where a rank is; no rank has such a number, and back."""
    return -1 - by


class Kill(NamedTuple):
    """A rank that dies between two ops, and not at one: on the simulation `ns` after the run began, or after the rank
    came to `at`. Where schedules are explored it dies at any point at all from then on, or not at all.

    What the rank began on its host goes on without it. On its device, what ends with all (a part that waits for all
    members) ends for all peers or for none. What ends early may end for some: a broadcast's receivers, eager sends.
    Two things that a death may do on hardware have to be asked for. `partial`: any of its peers whose part of a
    collective or transfer is not over may be lost with it, on hosts and devices. `loses_mail`: of the messages that the
    rank posted, those that are not delivered yet may be lost; else they arrive.
    """

    rank: int
    ns: int = 0
    at: At | None = None
    partial: bool = False
    loses_mail: bool = False


class Stranger(NamedTuple):
    """Another program of a node that listens on a port: from the beginning on, or, if `late`, from some time on, if
    nobody else listens there then. It answers those who join, and knows no keys.
    """

    port: int
    node: int = 0
    late: bool = False


@dataclass(frozen=True)
class World:
    """A machine to run a program on. `stall_ns`: a real backend calls it a hang when no rank moved for so long.

    `services`: actors that are no ranks, by name; counted behind the ranks, with journals and ends like these. `nodes`:
    where each rank and service is, one node for all if it is empty. `strangers`: who else listens on ports there.
    `lazy`: a device communicator is made when its members first use it, and one for each pair that first transfers: the
    host stands in that call until all of them have come to it. `messages`: from outside. `gates`: of looks into
    mailboxes whose outcome is settled. `own_settings`: those of single ranks, in words, with these ranks, for reports.

    These exist on the simulation only, and a real backend refuses them. `kills`. `residency`: so many device
    collectives and transfers of a rank can run at a time, as each occupies the GPU while it waits for its peers; None
    for no limit. `launch_queue`: the host stands in a call that puts work on a stream until fewer than so many ops of
    that stream have not ended; None for no limit. `alloc_synchronises`: the host stands in an allocation that needs
    new memory of the device until all that its rank has put on the device has ended. `progress`: so many ops may an
    actor issue after the last fault, kill or delay, or the start. `early_timeouts`: of an untimed run may pass early.
    """

    size: int
    communicators: tuple[CommunicatorSpec, ...]
    faults: tuple[Fault, ...] = ()
    delays: tuple[Delay, ...] = ()
    kills: tuple[Kill, ...] = ()
    residency: int | None = None
    launch_queue: int | None = None
    alloc_synchronises: bool = False
    stall_ns: int = 5_000_000_000
    deadline_ns: int = 600_000_000_000
    services: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    strangers: tuple[Stranger, ...] = ()
    lazy: bool = False
    messages: tuple[Message, ...] = ()
    progress: int | None = None
    gates: tuple[Gate, ...] = ()
    early_timeouts: int = 0
    own_settings: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def actors(self) -> int:  # ranks and services
        return self.size + len(self.services)

    def actor(self, number: int) -> str:
        """A rank or service in words."""
        return f"rank {number}" if number < self.size else self.services[number - self.size]

    def __post_init__(self) -> None:
        """Raises ValueError for two kills of a rank: it dies once, and the earlier of two says all; for nodes that are
        not one an actor; for a service in a device communicator, members that do not exist, and messages of nobody.
        """
        for spec in self.communicators:
            most = self.size if spec.domain == "device" else self.actors
            if not all(0 <= member < most for member in spec.ranks):
                what = "ranks, as services have no device" if spec.domain == "device" else "ranks and services"
                raise ValueError(f"World.communicators: {spec.name} has members {spec.ranks}; there are {most} {what}")
        for message in self.messages:
            if not (0 <= message.to < self.actors and 0 <= message.by < self.actors):
                said = f"{message.describe()} of rank {message.to}, sent where rank {message.by} is"
                raise ValueError(f"World.messages: {said}; there are ranks 0 to {self.actors - 1}")
        if self.nodes and len(self.nodes) != self.actors:
            raise ValueError(f"World.nodes: {len(self.nodes)} nodes for {self.actors} ranks and services")
        for rank in (killed := [kill.rank for kill in self.kills]):
            if killed.count(rank) > 1:
                raise ValueError(f"World.kills: rank {rank} is killed twice; expected one kill a rank: leave one out")


End: TypeAlias = Literal["finished", "blocked", "raised", "died"]


class Occupied(NamedTuple):
    """A rank without a free slot (`World.residency`): which records of its journal hold the slots, and which wait."""

    rank: int
    held: tuple[int, ...]
    waiting: tuple[int, ...]


@dataclass
class Run:
    """What happened. Lists have one entry per rank, and after these one per service (`services`, by name).

    `ends`: how the rank's program ended. `waited_ns`: on the simulation, how long its part of collectives waited for
    the last member; elsewhere, how long its host was blocked in awaited calls. `elapsed_ns`: simulated or wall time.
    `observed`: how a hang was seen ("nothing could move any more"). `standing`: on the simulation, the ranks whose host
    stands in a plain call, which a limit of the world holds up; `occupied`: those without a free slot. `endless`: ranks
    that repeated themselves, and no other could move; if `overdue`, the one that passed the bound of `World.progress`.
    `taken`: on the simulation, which message each look into a mailbox took. `undefined`: who brought a NaN to a maximum
    or minimum. `lost`: what the machine took away (`dpsim.backend.journal.trouble`), so that there is no verdict.
    `steps_set`: the highest step tag that each program has set, where the backend knows it; perhaps no op has it.
    `chains`: by place, the calls that led there first.
    """

    backend: str
    journals: list[list[RawRecord]]
    ends: list[End]
    waited_ns: list[int]
    elapsed_ns: int
    observed: str = ""
    standing: tuple[int, ...] = ()
    occupied: tuple[Occupied, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    endless: tuple[int, ...] = ()
    overdue: bool = False
    lost: str = ""
    services: tuple[str, ...] = ()
    taken: Mapping[Address, Address] = field(default_factory=dict)
    undefined: tuple[Undefined, ...] = ()
    steps_set: tuple[int, ...] = ()
    chains: Mapping[str, Chain] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many ranks there are beside the services."""
        return len(self.journals) - len(self.services)

    @property
    def finished(self) -> bool:
        return all(end == "finished" for end in self.ends)

    @property
    def vacuous(self) -> bool:
        """Whether no rank issued anything, sleeps and idle gets apart: that all decided alike says nothing then."""
        raws = (raw for journal in self.journals for raw in journal if raw[KIND] not in SILENT)
        return all(raw[KIND] == "take" and raw[TAKE_HOW] == "idle" for raw in raws)


SILENT = frozenset({"decision", "ended", "finished", "injected", "learned", "probe", "sleep"})
"""Kinds of record that tell of nothing that a rank issued, to its device or to others."""


Progress: TypeAlias = Callable[[int], None]
"""Called now and then with the step that rank 0 has reached."""


class Unended(RuntimeError):
    """A run that a backend stopped, and of which nothing can be said. The message says why, and where ranks stood."""


class Lost(Unended):
    """The machine took away what a run needs (a process, memory, room on a disk) before there was a run to judge."""


class BackendUnavailable(RuntimeError):
    """This machine cannot run the world on that backend. The message says what was looked for."""


class Backend(Protocol):
    """A way to run a program on a world, found by its entry point in `dpsim.backends`; made without arguments."""

    name: str

    def unavailable(self, size: int) -> str | None:
        """Why a world of `size` ranks cannot run here, or None if it can. Cheap: starts nothing."""

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        """Run the registered `program` on every rank. Raises BackendUnavailable, and Unended for a run that has no end
        or was lost before it began; a hang or a crash is a `Run`, not an error. An interrupt ends it at once; the
        KeyboardInterrupt has a note that says where every rank stood. `args`: plain data, which its `prepare` knows.
        """

    def close(self) -> None:
        """Give back processes and memory. The backend may be used again afterwards."""
