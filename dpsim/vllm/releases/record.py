"""A release of vLLM as one record: it names the class of each piece of the model that differs between releases.

    V0_34 = V0_33._replace(name="0.34", flow=Flow034)

A record needs every piece, so mypy and Python refuse a record that lacks one. If a release does not have a piece, or if
dpsim does not model it, the piece is `Absent`. A program that needs it raises `Unsuitable` with the reason:

    >>> there(Absent("release 0.14 has no V2 runner"), "protocol.pieces.runner")
    Traceback (most recent call last):
    dpsim.contract.program.Unsuitable: protocol.pieces.runner: release 0.14 has no V2 runner

A source page (a published file of vLLM) is a record, too. It has only the pieces that the page describes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from dpsim.contract.program import Unsuitable
from dpsim.vllm.config import ParallelConfig
from dpsim.vllm.data_parallel.batch import BatchForm
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2
from dpsim.vllm.data_parallel.captured import CapturedForward
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.step_v2 import DataParallelStepV2
from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.engine.coordination import Coordination
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import RequestCounts
from dpsim.vllm.engine.waves import EngineWaves
from dpsim.vllm.graphs.candidates import CandidateTable
from dpsim.vllm.graphs.dispatcher import Dispatcher
from dpsim.vllm.overlap.forms import OverlapStep
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.pipeline.batches import Row
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.startup.groups import Kinds
from dpsim.vllm.startup.ports import GroupPorts

Piece = TypeVar("Piece")


class Absent(NamedTuple):
    """A piece that a release does not have. `why`: the reason, which a user reads in an error."""

    why: str


class Lockstep(NamedTuple):
    """How engines step together (chapter 2). `waves` also names the finish sync (`sync_form`)."""

    waves: type[EngineWaves]
    coordination: type[Coordination]
    client: type[ClientView]
    control: type[Control]
    counts: type[RequestCounts]


class Startup(NamedTuple):
    """The classes of the start-up: the ports of groups, and the list of groups (specification chapters 8.3 and 9.2)."""

    ports: type[GroupPorts]
    groups: type[Kinds]


SIZES = Absent("ranks of this V2 runner send graph sizes, and have neither the agreement nor the graphs of later ones")


class RunnerV2(NamedTuple):
    """The V2 runner of a release: its steps, with microbatches and without, and their agreement (specification 1.7)."""

    step: type[DataParallelStep]
    drafter: type[Drafter] | Absent
    captured: type[CapturedForward] | Absent
    microbatches: type[OverlapForward] | Absent
    overlap_step: type[OverlapStep] | Absent

    @property
    def agreement(self) -> type[AgreementV2] | Absent:
        """The agreement of its steps, with one dispatch. Absent for release 0.17, whose ranks send sizes of graphs."""
        return self.step.agreement if issubclass(self.step, DataParallelStepV2) else SIZES

    @property
    def graphs(self) -> type[CandidateTable] | Absent:
        """The graphs on which its ranks agree. Absent for release 0.17."""
        return self.step.graphs if issubclass(self.step, DataParallelStepV2) else SIZES


class Release(NamedTuple):
    """One release, or one source page.

    `name`: its only spelling; `places.py` maps other names to it. `agreement`, `flow`, `dispatcher` and `microbatches`
    are pieces of the V1 runner (specification chapters 1, 3 and 5); `v2` contains those of the V2 runner. `balance`
    moves experts between two steps, `async_balance` while steps run (10.1, row 17). `tokens`, `need_mask`, `transfer`
    and `scheduler` are pieces of a pipeline (chapters 6 and 7), and `lockstep` contains those of the engine loop
    (chapter 2). `config`: the rules about parallelism (chapter 8). `variables`: whether an environment variable may
    replace a command line flag.
    """

    name: str
    agreement: type[BatchForm] | Absent
    flow: type[BatchFlow] | Absent
    dispatcher: type[Dispatcher] | Absent
    microbatches: type[OverlapForward] | Absent
    balance: type[ExpertBalance] | Absent
    async_balance: type[ExpertBalance] | Absent
    tokens: type[SampledTokens] | Absent
    need_mask: Callable[[Row], bool] | Absent
    transfer: type[Transfer] | Absent
    scheduler: type[PipelineScheduler] | Absent
    lockstep: Lockstep | Absent
    startup: Startup | Absent
    config: type[ParallelConfig] | Absent
    v2: RunnerV2 | Absent
    variables: bool

    @property
    def version(self) -> str:
        """The engine's spelling of the release, such as 0.33.0."""
        return f"{self.name}.0"


def nothing(name: str, why: str) -> Release:
    """Returns a record without any piece, for a release or page with few: `nothing(...)._replace(transfer=...)`."""
    pieces = len(Release._fields) - 2
    return Release._make([name, *[Absent(why)] * pieces, True])


def misfits(record: NamedTuple) -> Iterator[str]:
    """Yields a sentence for each piece of a record whose class is wrong.

    >>> list(misfits(Lockstep(EngineWaves, Coordination, ClientView, Control, None)))
    ['counts: expected a class derived from RequestCounts, got None']
    """
    for name, hint in get_type_hints(type(record)).items():
        piece = getattr(record, name)
        kinds = [kind for kind in get_args(hint) or (hint,) if kind is not Absent]
        if isinstance(piece, Absent) and Absent in get_args(hint):
            continue
        base = get_args(hint)[0] if get_origin(hint) is type else next(iter(get_args(kinds[0])), None)
        if isinstance(base, type):
            if not (isinstance(piece, type) and issubclass(piece, base)):
                yield f"{name}: expected a class derived from {base.__name__}, got {piece!r}"
        elif isinstance(kinds[0], type) and not isinstance(piece, kinds[0]):
            yield f"{name}: expected {kinds[0].__name__}, got {piece!r}"
        elif isinstance(piece, Lockstep | Startup | RunnerV2):
            yield from (f"{name}.{wrong}" for wrong in misfits(piece))
        elif not isinstance(kinds[0], type) and not callable(piece):
            yield f"{name}: expected a function, got {piece!r}"


def there(piece: Piece | Absent, asked_by: str) -> Piece:
    """The piece. Raises Unsuitable with the reason if it is absent, beginning with the setting `asked_by`."""
    if isinstance(piece, Absent):
        raise Unsuitable(f"{asked_by}: {piece.why}")
    return piece
