"""The input of a backend (a `World`), and its result (a `Run`).

A backend has no access to scenarios, checks or verdicts. It receives a `World` (ranks, communicators, faults, delays),
the name of a registered program, and plain data for the program. It returns a `Run`: for each rank, its journal and how
it ended. Checks compute everything else from the journals, in the same way for every backend. All classes are plain
data that pickle accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from dpsim.contract.chain import Chain
from dpsim.contract.gates import Address, AnyGate
from dpsim.contract.kinds import SILENT
from dpsim.contract.occupied import Occupied
from dpsim.contract.ops import KIND, MAIN, TAKE_HOW, Domain, RawRecord
from dpsim.contract.times import ActorTimes
from dpsim.contract.undefined import Undefined


class CommunicatorSpec(NamedTuple):
    """One communicator of a world. A rank finds its communicator by `kind`; `name` is unique in the world, and records
    contain it.
    """

    kind: str
    name: str
    domain: Domain
    ranks: tuple[int, ...]


class At(NamedTuple):
    """The address of an op on a given rank: (thread, site, ordinal) or, for a collective, (communicator, seq).

    `ordinal` None means every visit of the site, and only a delay may use it. Both None: the thread starts its program.
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
        if self.ordinal is None or self.ordinal < 0:  # a call that a fault inserted has a negative ordinal
            return f"{thread}{self.site}" if self.ordinal is None else f"{thread}the inserted {self.site}"
        return f"{thread}{self.site}[{self.ordinal}]"


class Fault(NamedTuple):
    """A fault breaks the protocol at one op of one rank. The rank leaves it out, repeats it, changes it, makes another
    call before it, dies there, raises, or hangs with all its threads. No peer gets a message about it.

    `change`: for `alter`, one of op, count, dtype, root, peer with its new value. For `insert`, the fields of the call
    as its record has them (`dpsim.contract.ops.Collective`, `Transfer`). The rank does not wait for an inserted call,
    and its contribution changes no sum, maximum or minimum. At the site "end", the call comes after the last op.
    """

    kind: Literal["skip", "repeat", "alter", "insert", "die", "raise", "hang"]
    rank: int
    at: At
    change: Mapping[str, Any] = {}

    def describe(self) -> str:
        return fault_text(self.kind, self.change)


def fault_text(kind: str, change: Mapping[str, Any]) -> str:
    """Returns a fault in words: "skip", "alter count to 9", "insert all_reduce on dp_cpu"."""
    inserted = f" {change['op']} on {change['communicator']}" if kind == "insert" else ""
    return kind + (inserted or "".join(f" {key} to {value}" for key, value in change.items()))


class Delay(NamedTuple):
    """A delay that a correct protocol has to tolerate: `rank` reaches an op `ns` nanoseconds late."""

    rank: int
    at: At
    ns: int


class Message(NamedTuple):
    """A message from a sender outside of the world. The machine sends it when rank `by` reaches `at`, before the op
    there; by default when the rank begins (`At()`). The machine delivers it like any other message. Messages with the
    same `by` arrive at one mailbox in their order. They are not ordered with the messages that the rank itself sends.
    """

    to: int
    mailbox: str
    content: Any
    by: int
    at: At = At()

    def describe(self) -> str:
        return f"message {self.content!r} to {self.mailbox}"


def outside(by: int) -> int:
    """Returns the number of the sender of messages from outside at a rank; applied to that number, it returns the rank.
    No rank has such a number.
    """
    return -1 - by


class Kill(NamedTuple):
    """A rank that dies between two ops. In a timed run it dies `ns` after the start of the run, or after the rank
    reached `at`. A search lets it die at any point from then on, or not at all.

    Collectives and transfers that the rank began on its host continue without it. On its device, a collective that
    waits for all members ends for all peers or for none. One that may end early may end for some of them: receivers of
    a broadcast, eager sends. Two options add effects that a death may have on hardware. `partial`: if a peer's part of
    a collective or transfer has not ended, it may be lost with the rank, on hosts and devices. `loses_mail`: messages
    of the rank that are not delivered yet may be lost; without it, they arrive.
    """

    rank: int
    ns: int = 0
    at: At | None = None
    partial: bool = False
    loses_mail: bool = False


class Stranger(NamedTuple):
    """Another program of a node that listens on a port from the beginning. If `late`, it begins at some later time,
    unless another process listens there then. A process that joins it gets a store without keys.
    """

    port: int
    node: int = 0
    late: bool = False


@dataclass(frozen=True)
class World:
    """The machine on which a program runs: ranks, communicators, faults, delays and limits. `stall_ns`: a real backend
    reports a hang when no rank makes progress for this time.

    `services`: actors that are no ranks, by name. Their numbers follow those of the ranks, and they have journals and
    ends. `nodes`: the node of each rank and service; one node for all if it is empty. `strangers`: other programs that
    listen on ports there. `lazy`: members make a device communicator at its first use, and each pair makes one at its
    first transfer. The host waits in that call until all members have reached it. `messages`: messages from outside.
    `gates`: the order of another run, which this run repeats. `own_settings`: settings of single ranks, in words, for
    reports. `times`: a timed simulation also records `Run.times`. `pauses`: the seed of the sleeps that a real backend
    draws before each call, of 0 to 4 ms; None for no sleeps. A simulation has none, since a search tries every order.

    A real backend refuses the following fields. `kills`: ranks that may die. `residency`: the number of device
    collectives and transfers of a rank that can run at a time; None for no limit. Each occupies the GPU while it waits
    for its peers. `launch_queue`: the limit on unfinished ops of a stream. A call that puts work on the stream waits
    until there are fewer; None for no limit. `alloc_synchronises`: an allocation that needs new device memory waits
    until all device work of its rank has ended. `progress`: the number of ops that an actor may issue after the last
    fault, kill or delay, or the start. `early_timeouts`: how many time-outs of an untimed run may pass early.
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
    gates: tuple[AnyGate, ...] = ()
    early_timeouts: int = 0
    own_settings: tuple[tuple[str, tuple[int, ...]], ...] = ()
    times: bool = False
    pauses: int | None = None

    @property
    def actors(self) -> int:  # ranks and services
        return self.size + len(self.services)

    def actor(self, number: int) -> str:
        """Returns a rank or service as text."""
        return f"rank {number}" if number < self.size else self.services[number - self.size]

    def __post_init__(self) -> None:
        """Raises ValueError for two kills of a rank, because it dies once, at the earlier one. Also raises it unless
        each actor has one node, and for a service in a device communicator. Members and ranks of a message exist.
        """
        for spec in self.communicators:
            most = self.size if spec.domain == "device" else self.actors
            if not all(0 <= member < most for member in spec.ranks):
                what = "ranks, as services have no device" if spec.domain == "device" else "ranks and services"
                raise ValueError(f"World.communicators: {spec.name} has members {spec.ranks}; there are {most} {what}")
        for message in self.messages:
            if not (0 <= message.to < self.actors and 0 <= message.by < self.actors):
                described = f"{message.describe()} of rank {message.to}, sent where rank {message.by} is"
                raise ValueError(f"World.messages: {described}; there are ranks 0 to {self.actors - 1}")
        if self.nodes and len(self.nodes) != self.actors:
            raise ValueError(f"World.nodes: {len(self.nodes)} nodes for {self.actors} ranks and services")
        for rank in (killed := [kill.rank for kill in self.kills]):
            if killed.count(rank) > 1:
                raise ValueError(f"World.kills: rank {rank} is killed twice; expected one kill a rank: leave one out")


End: TypeAlias = Literal["finished", "blocked", "raised", "died"]


@dataclass
class Run:
    """The result of a run. Lists have one entry per rank, and after these one per service (`services`, by name).

    `ends`: how each rank's program ended. `waited_ns`: in the simulation, the time that its parts of collectives waited
    for the last member. Elsewhere it is the time that its host was blocked in awaited calls. `elapsed_ns`: simulated or
    wall time. `observed`: how the backend detected a hang ("nothing could move any more"). `standing`: in the
    simulation, the ranks whose host waits in a plain call because of a limit of the world. `occupied`: the ranks
    without a free slot. `endless`: ranks that only repeated themselves while no other could make progress; if
    `overdue`, the one that passed the bound of `World.progress`. `taken`: in the simulation, the message that each poll
    or get took. `undefined`: members that contributed a NaN to a maximum or minimum. `lost`: the resource that the
    machine took away (`dpsim.backend.journal.trouble`); then there is no verdict. `steps_set`: the highest step tag
    that each program set, if the backend knows it, even if no op has it. `chains`: by file:line, the calls that first
    led there. `times`: when each rank and service wrote its records; empty in untimed mode.
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
    times: Sequence[ActorTimes] = ()

    @property
    def size(self) -> int:
        """The number of ranks, without the services."""
        return len(self.journals) - len(self.services)

    @property
    def finished(self) -> bool:
        return all(end == "finished" for end in self.ends)

    @property
    def vacuous(self) -> bool:
        """Whether the ranks issued nothing but sleeps and idle gets. If so, a passed check proves nothing."""
        raws = (raw for journal in self.journals for raw in journal if raw[KIND] not in SILENT)
        return all(raw[KIND] == "take" and raw[TAKE_HOW] == "idle" for raw in raws)


Progress: TypeAlias = Callable[[int], None]
"""The backend calls it from time to time with the step that rank 0 has reached."""


class Unended(RuntimeError):
    """A backend stopped a run, and there is no verdict. The message has the reason and the positions of the ranks."""


class Lost(Unended):
    """The machine took a resource away (a process, memory, space on a disk) before there was a run to judge."""


class BackendUnavailable(RuntimeError):
    """This machine cannot run the world on that backend. The message names what the backend requires."""


class Backend(Protocol):
    """A backend runs a program on a world. dpsim finds its class by the entry point in `dpsim.backends`, and calls it
    without arguments.
    """

    name: str

    def unavailable(self, size: int) -> str | None:
        """Returns why a world of `size` ranks cannot run here, or None if it can. It starts no process."""

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        """Runs the registered `program` on every rank, and returns the `Run`. A hang or a crash is a `Run`, not an
        error. Raises BackendUnavailable, Unended for a run without an end, and Lost if a resource failed before the
        run. An interrupt ends the run at once, and a note of the KeyboardInterrupt has the position of every rank.
        `args`: plain data for `prepare`.
        """

    def close(self) -> None:
        """Releases processes and memory. The caller may use the backend again afterwards."""
