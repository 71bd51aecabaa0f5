"""The protocol `torch`: runs an unmodified program of torch.distributed, each rank in its own process.

    torch: {target: train.py, ranks: 4, args: [--steps, "3"], order: nccl}

The target is a script, or a function of a file (`train.py:main`), which receives the rank and the number of ranks. Each
call of torch.distributed comes through a pipe (`dpsim.torch.wire`), and this protocol makes it in the simulation. So
faults, delays, kills and every search strategy work as for any other protocol.

`order` selects how calls are issued: `gloo` makes them on the host, `nccl` puts them on the stream of their group.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field

from dpsim.contract.interface import Rank
from dpsim.contract.ops import Domain
from dpsim.contract.program import Arguments, Program, Unmodified
from dpsim.contract.registry import register_protocol
from dpsim.torch.conversation import ASYNCHRONOUS, FILE, POLL, Conversation, RankProcess
from dpsim.torch.found import ABORTS, ORDERED, THREADS, Found, found_by_running
from dpsim.torch.nursery import INVERTED, RanksJob
from dpsim.torch.ports import AGENT, serve_agent
from dpsim.torch.targets import TargetFile, job_of

SHOWN = 3
"""How many of the files that ranks wrote a proof names."""

NO_EARLY_READ = "no rank reads the result of a call before its wait"
"""What a proof assumes of a program with asynchronous calls."""

HASHES = "hash seed (hash() of text, the order of a set)"
"""What differs between the ranks of a further run."""

Order = Literal["gloo", "nccl"]


class TorchPrepared(NamedTuple):
    """The prepared parameters of a run. `groups`: communicators and their members, from a first run. `loops`: rounds of
    the user's loops are steps. `silence`: seconds without a call, after which a rank is a finding.
    """

    job: RanksJob
    order: Order
    silence: float
    groups: Found = ()
    loops: bool = True


class TorchParams(BaseModel):
    """The parameters of a program of torch.distributed."""

    target: TargetFile
    """A script, or a function of a file: train.py, train.py:main."""
    ranks: int = Field(2, ge=1, le=64)
    """The number of processes."""
    args: list[str] = Field(default_factory=list, max_length=1_000)
    """The arguments of the script on its command line."""
    order: Order = "gloo"
    """How ranks issue calls: on the host (gloo), or on streams (nccl)."""
    silence: float = Field(60.0, gt=0, le=3_600)
    """Seconds without a call, after which dpsim reports the rank as a finding."""


@register_protocol("torch")
class TorchProgram(Program[TorchPrepared]):
    """Runs an unmodified program of torch.distributed, each rank in its own process."""

    Params = TorchParams
    apart = True

    @staticmethod
    def ranks(params: TorchParams) -> int:
        return params.ranks

    @staticmethod
    def one_more(params: TorchParams) -> TorchParams:
        return params.model_copy(update={"ranks": params.ranks + 1})

    def assumes(self, did: Collection[tuple[Any, ...]], prepared: TorchPrepared) -> Sequence[str]:
        """Returns what a proof assumes: where the simulation is weaker than torch, and which files the ranks wrote."""
        files = {fact[1].removeprefix(FILE) for fact in did if fact[0] == "probe" and fact[1].startswith(FILE)}
        polls = any(fact[:2] == ("probe", POLL) for fact in did)
        asynchronous = any(fact[:2] == ("probe", ASYNCHRONOUS) for fact in did)
        host = any(fact[0] == "collective" and fact[1] is not None for fact in did)
        threads = any(fact[0] == "thread" for fact in did)
        return (
            "no default time-out of a collective passes",
            *["a loop that asks whether a call is over waits for it"] * polls,
            *[NO_EARLY_READ] * asynchronous,
            *["locks, queues, events or joins order what threads share in Python"] * threads,
            *["a wait for work on a stream holds the host"] * host,
            *[f"the order of accesses to files does not matter: {_named(files)}"] * bool(files),
        )

    def elsewhere(self, prepared: TorchPrepared) -> Sequence[tuple[TorchPrepared, str]]:
        job = prepared.job
        if job.size == 1:
            return ()
        return [(prepared._replace(job=job._replace(hashes=way)), HASHES) for way in (1, INVERTED)]

    def prepare(self, args: Arguments[TorchParams]) -> TorchPrepared:
        params = args.params
        prepared = TorchPrepared(job_of(params.target, params.ranks, params.args), params.order, params.silence)
        groups, loops = found_by_running(self, prepared)
        prepared = self.heeding(prepared, groups)
        return prepared._replace(loops=loops)

    def heeding(self, prepared: TorchPrepared, groups: Found) -> TorchPrepared:
        """Returns `prepared` with what a first run found: communicators, threads and their orders, and aborts."""
        self.threaded = self.ordered_by_objects = (THREADS, ()) in groups
        self.aborts = (ABORTS, ()) in groups
        job = prepared.job._replace(threads=self.threaded, ordered=(ORDERED, ()) in groups)
        return prepared._replace(groups=groups, job=job)

    def unmodified(self, prepared: TorchPrepared) -> Unmodified | None:
        job = prepared.job
        return Unmodified(job.file, job.function, job.args) if prepared.order == "gloo" else None

    def groups(self, prepared: TorchPrepared) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]:
        domain: Domain = "device" if prepared.order == "nccl" else "host"
        return [(kind, domain, [members]) for kind, members in prepared.groups if members]

    def services(self, prepared: TorchPrepared) -> tuple[str, ...]:
        return (AGENT,) if (AGENT, ()) in prepared.groups else ()

    async def serve(self, rank: Rank, prepared: TorchPrepared) -> None:
        await serve_agent(rank)

    async def run(self, rank: Rank, prepared: TorchPrepared) -> None:
        process = RankProcess(rank, prepared.job, prepared.order, prepared.silence, (ABORTS, ()) in prepared.groups)
        await Conversation(rank, process, prepared.loops).hold()


def _named(places: Collection[str]) -> str:
    more = len(places) - SHOWN
    return ", ".join(sorted(places)[:SHOWN]) + (f" and {more} more" if more > 0 else "")
