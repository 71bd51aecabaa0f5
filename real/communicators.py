"""torch's process groups, one for each communicator of a world.

A worker constructs them directly, without `init_process_group`. So there is no global state and no default group, and a
rank of a small world works in a pool with more workers. Members meet on the parent's store under a key made of the
generation and the communicator's name. All ranks make their communicators in the order of the world, so that no two can
wait for one another.

Making one is dear (NCCL: 0.2 to 0.3 s), so a worker keeps them across jobs. After a job that had faults or did not
finish, their state is unknown. So the next job comes with a new *generation*, and the worker *abandons* the old ones:
it never uses and never destroys them. The destructor of a process group joins its threads, and for a stuck group that
join never ends. So abandoned groups stay referenced until the process leaves, by `os._exit`.

    groups = Communicators(worker=0, store=store, connect={"host": connect_gloo, "device": device.connect})
    for group in groups.of(generation=3, specs=world.communicators, size=world.size): ...

Prior art: PyTorch's own tests spawn new processes after a failure; vLLM's
`stateless_init_torch_distributed_process_group` shows that groups can be made without the global state.
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
"""For torch's own watchdogs. The parent keeps the deadlines, and those of torch must not come first. Nor may they pass
after a night in which all processes were stopped, which they would count.
"""

Connect: TypeAlias = Callable[[CommunicatorSpec, Any, int], Any]
"""(spec, store, index in the group) -> torch's process group. Blocks until every member has called it."""


class Group(NamedTuple):
    """One communicator of this process. What can be done with it is in `gloo_calls` and `nccl_calls`.

    `firsts`: the store on which its members meet at its first use in this job, where that is a rendezvous (`lazy`).
    """

    spec: CommunicatorSpec
    process_group: Any
    firsts: Any = None

    @property
    def position(self) -> int:
        return int(self.process_group.rank())

    def member(self, rank: int | None) -> int:
        """The position of a global rank in the group, which is what torch wants at this level for roots and peers."""
        if rank not in self.spec.ranks:
            raise ValueError(f"{self.spec.name}: {rank} is none of its ranks {self.spec.ranks}")
        return self.spec.ranks.index(rank)


def by_workers(spec: CommunicatorSpec, size: int) -> CommunicatorSpec:
    """The parts of a spec that make a communicator: its name, its domain, and the workers of its members. Two kinds may
    share a name in two worlds. The service that is actor 2 of one world is another process than rank 2 of the next.
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
        """Those of `specs` that have this worker as a member, made where they are missing, in a world of `size` ranks.
        `lazy`: what distinguishes the job, if to it device communicators are made at their first use.
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
        """Those that a rank makes during a job."""
        return JobGroups(self, job)

    def meeting(self, job: int) -> Any:
        """A store on which the members of groups meet that a job makes."""
        from torch.distributed import PrefixStore

        return PrefixStore(f"made/{job}", self._store)

    def in_use(self, domain: str) -> list[Any]:
        """The process groups of that domain that have not been abandoned."""
        return [made for spec, made in self._made.items() if spec.domain == domain]

    def abandon(self) -> None:
        """Use none of them again."""
        self._abandoned += self._made.values()
        self._made = {}


class JobGroups:
    """The groups that a rank makes in one job. A group is kept for later jobs, as others are; those meet anew."""

    def __init__(self, communicators: Communicators, job: Job) -> None:
        self._communicators = communicators
        self._job = job

    def meet(self, spec: CommunicatorSpec, times: int, patience: Patience) -> None:
        """Stand until all members are there for that time. Raises Unfinished once the run has been given up."""
        store = self._communicators.meeting(self._job.number)
        store.add(spec.name, 1)
        patience.attempt(lambda: store.add(spec.name, 0) >= times * len(spec.ranks) or None, None)

    def of(self, specs: GroupSpecs) -> list[Group]:
        """The groups, once all members have come."""
        job = self._job
        lazy = f"job {job.number}" if job.world.lazy else ""
        return self._communicators.of(job.generation, specs, job.world.size, lazy)
