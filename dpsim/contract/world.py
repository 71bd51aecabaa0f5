"""The input of a backend, and its result.

A backend has no access to scenarios, checks or verdicts. It gets a `World` (ranks, communicators, injections), the name
of a registered program and plain data for it. It returns a `Run`: the journal of each rank and the end of the rank.
Everything else is a fold over the journals, the same for every backend. All classes are plain data; pickle takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from dpsim.contract.chain import Chain
from dpsim.contract.gates import Address, AnyGate
from dpsim.contract.occupied import Occupied
from dpsim.contract.ops import KIND, MAIN, TAKE_HOW, Domain, RawRecord
from dpsim.contract.times import ActorTimes
from dpsim.contract.undefined import Undefined


class CommunicatorSpec(NamedTuple):
    """One group of ranks. A rank finds its own group by `kind`; `name` is unique in the world, and records have it."""

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
        return f"{thread}{self.site}" if self.ordinal is None else f"{thread}{self.site}[{self.ordinal}]"


class Fault(NamedTuple):
    """A fault breaks the protocol at one op of one rank. The rank leaves the call out, repeats it or changes it. Or it
    dies there, raises in its program, or hangs there with all its threads. No peer gets a message about it.
    """

    kind: Literal["skip", "repeat", "alter", "die", "raise", "hang"]
    rank: int
    at: At
    change: Mapping[str, Any] = {}  # alter: one of op, count, dtype, root

    def describe(self) -> str:
        change = "".join(f" {key} to {value}" for key, value in self.change.items())
        return f"{self.kind}{change}"


class Delay(NamedTuple):
    """A correct protocol has to tolerate a delay: `rank` reaches an op late, by `ns` nanoseconds."""

    rank: int
    at: At
    ns: int


class Message(NamedTuple):
    """A message from outside of the world. The machine sends it when rank `by` reaches `at`, before the op there; by
    default when the rank begins (`At()`). The machine delivers it like any other message. Messages of one `by` to the
    same mailbox arrive in their order. They have no order with the messages that the rank sends itself.
    """

    to: int
    mailbox: str
    content: Any
    by: int
    at: At = At()

    def describe(self) -> str:
        return f"message {self.content!r} to {self.mailbox}"


def outside(by: int) -> int:
    """The number of the sender of messages from outside at a rank, and back. No rank has such a number."""
    return -1 - by


class Kill(NamedTuple):
    """A rank that dies between two ops, and not at one. In a run of the simulation it dies `ns` after the start of the
    run, or after the rank reached `at`. A search lets it die at any point from then on, or not at all.

    Work that the rank began on its host continues without it. On its device, a part that waits for all members ends for
    all peers or for none. Parts that end early may end for some: receivers of a broadcast, eager sends. Two options add
    effects that a death may have on hardware. `partial`: a peer whose part of a collective or transfer is not over may
    be lost with the rank, on hosts and devices. `loses_mail`: messages of the rank that are not delivered yet may be
    lost; without it, they arrive.
    """

    rank: int
    ns: int = 0
    at: At | None = None
    partial: bool = False
    loses_mail: bool = False


class Stranger(NamedTuple):
    """Another program of a node that listens on a port from the beginning. If `late`, it begins at some later time,
    unless another process listens there then. It answers processes that join, and has no keys.
    """

    port: int
    node: int = 0
    late: bool = False


@dataclass(frozen=True)
class World:
    """A machine to run a program on. `stall_ns`: a real backend reports a hang when no rank moves for this time.

    `services`: actors that are no ranks, by name. Their numbers follow those of the ranks, and they have journals and
    ends. `nodes`: the node of each rank and service; one node for all if it is empty. `strangers`: other programs that
    listen on ports there. `lazy`: members make a device communicator at its first use, and each pair makes one at its
    first transfer. The host waits in that call until all members have reached it. `messages`: messages from outside.
    `gates`: the order that another run had. `own_settings`: settings of single ranks, in words, for reports.
    `times`: a simulation with time keeps `Run.times`, too.

    Only the simulation has the following, and a real backend refuses them. `kills`. `residency`: the number of device
    collectives and transfers of a rank that can run at a time; None for no limit. Each occupies the GPU while it waits
    for its peers. `launch_queue`: the limit on unfinished ops of a stream. A call that puts work on the stream waits
    until there are fewer; None for no limit. `alloc_synchronises`: an allocation that needs new memory of the device
    waits until all device work of its rank has ended. `progress`: the number of ops that an actor may issue after the
    last fault, kill or delay, or the start. `early_timeouts`: how many time-outs of an untimed run may pass early.
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

    @property
    def actors(self) -> int:  # ranks and services
        return self.size + len(self.services)

    def actor(self, number: int) -> str:
        """A rank or service in words."""
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
                said = f"{message.describe()} of rank {message.to}, sent where rank {message.by} is"
                raise ValueError(f"World.messages: {said}; there are ranks 0 to {self.actors - 1}")
        if self.nodes and len(self.nodes) != self.actors:
            raise ValueError(f"World.nodes: {len(self.nodes)} nodes for {self.actors} ranks and services")
        for rank in (killed := [kill.rank for kill in self.kills]):
            if killed.count(rank) > 1:
                raise ValueError(f"World.kills: rank {rank} is killed twice; expected one kill a rank: leave one out")


End: TypeAlias = Literal["finished", "blocked", "raised", "died"]


@dataclass
class Run:
    """The result of a run. Lists have one entry per rank, and after these one per service (`services`, by name).

    `ends`: how the rank's program ended. `waited_ns`: in the simulation, the time that its parts of collectives waited
    for the last member. Elsewhere it is the time that its host was blocked in awaited calls. `elapsed_ns`: simulated or
    wall time. `observed`: how the backend saw a hang ("nothing could move any more"). `standing`: in the simulation,
    the ranks whose host waits in a plain call because of a limit of the world. `occupied`: the ranks without a free
    slot. `endless`: ranks that repeated themselves while no other could move; if `overdue`, the one that passed the
    bound of `World.progress`. `taken`: in the simulation, the message that each look into a mailbox took. `undefined`:
    members that brought a NaN to a maximum or minimum. `lost`: the resource that the machine took away
    (`dpsim.backend.journal.trouble`); then there is no verdict. `steps_set`: the highest step tag that each program
    set, if the backend knows it; perhaps no op has it. `chains`: by place, the calls that led there first. `times`:
    when each rank and service wrote its records; empty where there is no time.
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
        """Whether the ranks issued nothing but sleeps and idle gets. Then equal decisions prove nothing."""
        raws = (raw for journal in self.journals for raw in journal if raw[KIND] not in SILENT)
        return all(raw[KIND] == "take" and raw[TAKE_HOW] == "idle" for raw in raws)


SILENT = frozenset({"decision", "ended", "finished", "injected", "learned", "probe", "sleep"})
"""Kinds of record that show no work which a rank issued, to its device or to others."""


Progress: TypeAlias = Callable[[int], None]
"""The backend calls it from time to time with the step that rank 0 has reached."""


class Unended(RuntimeError):
    """A backend stopped a run, and there is no verdict. The message has the reason and the positions of the ranks."""


class Lost(Unended):
    """The machine took a resource away (a process, memory, room on a disk) before there was a run to judge."""


class BackendUnavailable(RuntimeError):
    """This machine cannot run the world on that backend. The message says what the backend looked for."""


class Backend(Protocol):
    """A backend runs a program on a world. dpsim finds it by its entry point in `dpsim.backends`, and calls it bare."""

    name: str

    def unavailable(self, size: int) -> str | None:
        """Why a world of `size` ranks cannot run here, or None if it can. Cheap: starts nothing."""

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        """Run the registered `program` on every rank. Raises BackendUnavailable, and Unended for a run without an end
        or one that was lost before it began. A hang or a crash is a `Run`, not an error. An interrupt ends the run at
        once, and a note of the KeyboardInterrupt has the position of every rank. `args`: plain data for `prepare`.
        """

    def close(self) -> None:
        """Release processes and memory. The caller may use the backend again afterwards."""
