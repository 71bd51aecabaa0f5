"""torch's process groups, one for each communicator of a world.

A worker constructs process groups directly, without `init_process_group`. So there is no global state and no default
group, and a rank of a small world works in a pool with more workers. Members meet on the parent's store under a key
made of the generation and the communicator's name. All ranks create their communicators in the order of the world, so
no two of them can wait for each other.

To create a process group is expensive (NCCL: 0.2 to 0.3 s), so a worker keeps its communicators across jobs. After a
job with faults, or one that did not finish, their state is unknown. So the parent starts the next job with a new
*generation* number, and the worker *abandons* the old communicators: it neither uses nor destroys them. The destructor
of a process group joins its threads, and for a stuck group that join never ends. So the worker keeps references to
abandoned groups until it leaves by `os._exit`.

    groups = Communicators(worker=0, store=store, connect={"host": connect_gloo, "device": device.connect})
    for group in groups.of(generation=3, specs=world.communicators, size=world.size): ...

Prior art: PyTorch's own tests spawn new processes after a failure. vLLM's
`stateless_init_torch_distributed_process_group` shows how to create groups without the global state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from dpsim.contract.rules.made_groups import GroupSpecs
from dpsim.contract.world import CommunicatorSpec
from real.messages import Job, worker_of
from real.waiting import Patience

TIMEOUT = timedelta(days=7)
"""The time-out for torch's own watchdogs. The parent enforces shorter deadlines. A week, since torch also counts a
night in which all processes were stopped.
"""

Connect: TypeAlias = Callable[[CommunicatorSpec, Any, int], Any]
"""(spec, store, index in the group) -> torch's process group. Blocks until every member has called it."""


class Group(NamedTuple):
    """One communicator of this process. `gloo_calls` and `nccl_calls` contain its collectives.

    `firsts`: the store on which its members meet at its first use in this job, if that is a rendezvous (`lazy`).
    """

    spec: CommunicatorSpec
    process_group: Any
    firsts: Any = None

    @property
    def position(self) -> int:
        return int(self.process_group.rank())

    def member(self, rank: int | None) -> int:
        """Returns the index of a global rank in the group, by which torch names roots and peers at this level."""
        if rank not in self.spec.ranks:
            raise ValueError(f"{self.spec.name}: {rank} is none of its ranks {self.spec.ranks}")
        return self.spec.ranks.index(rank)


def by_workers(spec: CommunicatorSpec, size: int) -> CommunicatorSpec:
    """Returns what identifies a communicator: its name, its domain, and the workers of its members. Two kinds may share
    a name in two worlds. Worker numbers distinguish a service with the number 2 in one world from rank 2 of the next.
    """
    return spec._replace(kind="", ranks=tuple(worker_of(actor, size) for actor in spec.ranks))


class Communicators:
    """The communicators of this process, by name, domain and members."""

    def __init__(self, worker: int, store: Any, connect: Mapping[str, Connect]) -> None:
        self.worker = worker
        self.generation = 0
        self._store = store
        self._connect = connect
        self._made: dict[CommunicatorSpec, Any] = {}
        self._abandoned: list[Any] = []

    def of(self, generation: int, specs: Iterable[CommunicatorSpec], size: int, lazy: str = "") -> list[Group]:
        """Returns the communicators of `specs` that have this worker as a member, in a world of `size` ranks. Creates
        missing ones. `lazy`: a key of the job, if its device communicators have a rendezvous at first use.
        """
        from torch.distributed import PrefixStore

        if generation != self.generation:
            self.abandon()
            self.generation = generation
        groups = []
        for spec in specs:
            key = by_workers(spec, size)
            if self.worker not in key.ranks:
                continue
            if key not in self._made:
                store = PrefixStore(f"{generation}/{spec.domain}/{spec.name}/{key.ranks}", self._store)
                self._made[key] = self._connect[spec.domain](spec, store, key.ranks.index(self.worker))
            is_lazy = bool(lazy) and spec.domain == "device"
            groups.append(Group(spec, self._made[key], PrefixStore(f"first/{lazy}", self._store) if is_lazy else None))
        return groups

    def of_job(self, job: Job) -> JobGroups:
        """Returns the communicators that a rank makes during a job."""
        return JobGroups(self, job)

    def meeting(self, job: int) -> Any:
        """Returns a store on which members meet for groups that they make during a job."""
        from torch.distributed import PrefixStore

        return PrefixStore(f"made/{job}", self._store)

    def in_use(self, domain: str) -> list[Any]:
        """Returns the process groups of that domain that are not abandoned."""
        return [made for spec, made in self._made.items() if spec.domain == domain]

    def abandon(self) -> None:
        """Abandons all communicators."""
        self._abandoned += self._made.values()
        self._made = {}


class JobGroups:
    """The groups that a rank makes in one job. The worker keeps them for later jobs, in which their members meet
    again.
    """

    def __init__(self, communicators: Communicators, job: Job) -> None:
        self._communicators = communicators
        self._job = job

    def meet(self, spec: CommunicatorSpec, times: int, patience: Patience) -> None:
        """Waits until all members have arrived. Raises Unfinished when the parent gives up the run."""
        store = self._communicators.meeting(self._job.number)
        store.add(spec.name, 1)
        patience.attempt(lambda: store.add(spec.name, 0) >= times * len(spec.ranks) or None, None)

    def of(self, specs: GroupSpecs) -> list[Group]:
        """Returns the groups, when all members have arrived."""
        job = self._job
        lazy = f"job {job.number}" if job.world.lazy else ""
        return self._communicators.of(job.generation, specs, job.world.size, lazy)
