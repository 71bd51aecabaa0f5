"""Selects the pieces of an engine step: from a named stack, swaps, and a configuration (specification 10.0).

The published source pages are of several versions and two model runners, so they do not determine one combination. A
*stack* is a named combination. The stack `source` combines the source pages on the V1 runner, and `current` is release
0.33. A swap replaces one piece by name:

    >>> pieces = resolve("source", {"graphs": "v1-0.33"}, Topology(data_parallel_size=2), EngineConfig())
    >>> pieces.names["agreement"], pieces.names["graphs"], pieces.lockstep.waves.sync_form.INTERVAL
    ('source-000', 'v1-0.33', 32)

In the stack `current`, steps with microbatches run on vLLM's V1 model runner, and all other steps on the V2 runner. A
swap to the V2 runner applies to both kinds of steps, as the engine's variable VLLM_USE_V2_MODEL_RUNNER does:

    >>> two = Topology(data_parallel_size=2)
    >>> [resolve("current", {}, two, EngineConfig(enable_dbo=dbo)).runner for dbo in (False, True)]
    ['v2', 'v1']

dpsim refuses a combination that the engine refuses, and names the rule, unless the scenario allows it:

    protocol: {name: whole_engine, form: current, pieces: {runner: v2}, allow_refused: true}

A scenario cannot allow pieces that do not fit together, such as the agreement of one runner and the graphs of the
other. Neither can it allow a configuration that breaks the rules of its release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from dpsim.contract.program import Unsuitable
from dpsim.vllm.config import EngineConfig, Topology, broken_rules
from dpsim.vllm.config.forms import rules_of
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.engine.request_counts import COUNTS
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.programs.pieces import FORMS, OF_ONE_RUNNER, Agreement, AgreementOfV2, AgreementV1
from dpsim.vllm.releases import (
    PAGE_000,
    PAGE_001,
    PAGE_002,
    PAGE_003,
    PLACES,
    V0_17,
    V0_33,
    Absent,
    Lockstep,
    Release,
    Runner,
    RunnerV2,
    name_of,
    named,
    there,
)
from dpsim.vllm.releases import names as names_of
from dpsim.vllm.whole.rules import Mix, Model, broken

Piece = TypeVar("Piece")

STACKS: Mapping[str, tuple[Release, ...]] = {
    "source": (PAGE_000, PAGE_001, PAGE_002, PAGE_003, V0_17),
    "current": (V0_33,),
}
"""The release records of each stack. Each piece is from the first record that has a form of this piece."""


class Pieces(NamedTuple):
    """`names`: the form of each piece. `config`: by the rules of `names["config"]`. `release`: that of the steps.

    `ignored`: the engine's rules that the scenario breaks with `allow_refused`.
    """

    names: Mapping[str, str]
    config: EngineConfig
    release: Release
    agreement: Agreement
    microbatches: type[OverlapForward]
    experts: type[ExpertBalance]
    tokens: type[SampledTokens]
    scheduler: type[PipelineScheduler]
    transfer: type[Transfer]
    lockstep: Lockstep
    ignored: tuple[str, ...] = ()

    @property
    def runner(self) -> str:
        return self.names["runner"]

    @property
    def v2(self) -> RunnerV2 | None:
        """The V2 runner; None on the V1 runner."""
        return there(self.release.v2, "protocol.pieces.runner: v2") if self.runner == "v2" else None

    @property
    def syncs_on_host(self) -> bool:
        """Over gloo: V2 always; V1 by a flag or asynchronous scheduling (specification 1.4)."""
        return self.runner == "v2" or self.config.syncs_on_host


def resolve(
    stack: str,
    swaps: Mapping[str, str],
    topology: Topology,
    config: EngineConfig,
    model: Model | None = None,
    allow_refused: bool = False,
) -> Pieces:
    """Returns the pieces of a stack, some of them replaced by `swaps`.

    Raises Unsuitable for an unknown stack, piece or form, for pieces of two runners, and for a configuration that its
    release refuses. Without `allow_refused` it also raises Unsuitable for a combination that the engine refuses.
    """
    names = chosen(stack, swaps, config)
    refuse_two_runners(names)
    config = config.model_copy(update={"parallel_rules": rules_of(of(names, "config", lambda release: release.config))})
    for found in broken_rules(config, topology):
        section = "topology" if found.field in Topology.model_fields else "config"
        raise Unsuitable(f"{section}.{found}, by the rules of {names['config']}")
    found_broken = broken(Mix(names, topology, config, model or Model()))
    if found_broken and not allow_refused:
        raise Unsuitable(
            "; ".join(f"{wrong} (rule {rule.__name__})" for rule, wrong in found_broken)
            + ". The engine refuses this; protocol.allow_refused: true runs it all the same"
        )
    return Pieces(
        names,
        config,
        named("agreement", names["agreement"])[0],
        agreement_of(names),
        microbatches_of(names),
        of(names, "experts", lambda release: release.balance),
        of(names, "tokens", lambda release: release.tokens),
        of(names, "tokens", lambda release: release.scheduler),
        of(names, "transfer", lambda release: release.transfer),
        of(names, "finish_sync", lambda release: release.lockstep),
        tuple(rule.__name__ for rule, _ in found_broken),
    )


def resolve_arguments(args: EngineArguments, absent: Mapping[str, str] = MappingProxyType({})) -> Pieces:
    """The pieces that a scenario selects, if its form names a stack and its pieces are those of `FORMS`.

    `absent`: never used, with the reason. Unsuitable for a swap without effect, and as `resolve` does.
    """
    topology, config = Topology.model_validate(args.topology), EngineConfig.model_validate(args.config)
    for piece, form in args.pieces.items():
        if (why := unused(config).get(piece) or absent.get(piece)) is not None:
            raise Unsuitable(f"protocol.pieces.{piece}: {form}; nothing in this scenario uses it, as {why}: remove it")
    model = Model(encoder_inputs=any(request.encoder_inputs for request in args.requests))
    return resolve(args.form, args.pieces, topology, config, model, args.allow_refused)


def forms_used(args: EngineArguments) -> Mapping[str, str]:
    """Returns the form of each piece that a run with these arguments uses."""
    config = EngineConfig.model_validate(args.config)
    left_out = unused(config)
    return {piece: form for piece, form in chosen(args.form, args.pieces, config).items() if piece not in left_out}


def unused(config: EngineConfig) -> Mapping[str, str]:
    """Returns the pieces that have no effect in a configuration, each with the reason."""
    found = {} if config.use_ubatching else {"microbatches": "config.enable_dbo is off, and no batch is split"}
    return found if config.enable_eplb else {**found, "experts": "config.enable_eplb is off, and no expert moves"}


def chosen(stack: str, swaps: Mapping[str, str], config: EngineConfig) -> dict[str, str]:
    """Returns the form of each piece: the swap, or the stack's form for the runner."""
    records = records_of(stack)
    for piece, form in swaps.items():
        if form not in FORMS.get(piece, ()):
            of, known = (f".{piece}: {form}", FORMS[piece]) if piece in FORMS else (f": {piece}", tuple(FORMS))
            raise Unsuitable(f"protocol.pieces{of}; expected one of {', '.join(known)}")
    runner: Runner = "v2" if swaps.get("runner", runner_of_stack(records, config)) == "v2" else "v1"
    own = {piece: swaps.get(piece) or first_name(piece, records, runner) for piece in FORMS if piece in PLACES}
    every = {"runner": runner, "counts": COUNTS[0], **swaps, **own}
    return {piece: every[piece] for piece in FORMS}


def records_of(stack: str) -> tuple[Release, ...]:
    """Returns the records of a named stack, or of a single release. Raises Unsuitable for another name."""
    if stack in STACKS:
        return STACKS[stack]
    if stack not in names_of("stack"):
        known = dict.fromkeys((*STACKS, *names_of("stack")))
        raise Unsuitable(f"protocol.form: {stack}; expected one of the stacks {', '.join(known)}")
    return (named("stack", stack)[0],)


def runner_of_stack(records: Sequence[Release], config: EngineConfig) -> Runner:
    """Returns the V2 runner if the first record has one and the configuration splits no batch, else the V1 runner."""
    return "v1" if config.use_ubatching or name_of("agreement", records[0], "v2") is None else "v2"


def first_name(piece: str, records: Sequence[Release], runner: Runner) -> str:
    """Returns the form of a piece in a stack: that of the runner if it has one, else that of the V1 runner."""
    runners: tuple[Runner, ...] = (runner, "v1")
    found = (name_of(piece, record, one) for one in runners for record in records)
    return next(name for name in found if name is not None)


def refuse_two_runners(names: Mapping[str, str]) -> None:
    """Raises Unsuitable for a form that belongs to the other runner."""
    runner: Runner = "v2" if names["runner"] == "v2" else "v1"
    for piece in OF_ONE_RUNNER:
        known = names_of(piece, runner)
        if names[piece] not in known:
            raise Unsuitable(
                f"protocol.pieces.{piece}: {names[piece]} was not written for the {runner.upper()} runner; "
                f"expected one of {', '.join(known)}, or another protocol.pieces.runner"
            )


def of(names: Mapping[str, str], piece: str, get: Callable[[Release], Piece | Absent]) -> Piece:
    """Returns a piece of the named record. Raises Unsuitable if the record lacks it."""
    return there(get(named(piece, names[piece])[0]), f"protocol.pieces.{piece}: {names[piece]}")


def of_v2(names: Mapping[str, str], piece: str, get: Callable[[RunnerV2], Piece | Absent]) -> Piece:
    """Returns a piece of the named record's V2 runner. Raises Unsuitable if the record lacks it."""
    return there(get(of(names, piece, lambda release: release.v2)), f"protocol.pieces.{piece}: {names[piece]}")


def microbatches_of(names: Mapping[str, str]) -> type[OverlapForward]:
    if names["runner"] == "v2":
        return of_v2(names, "microbatches", lambda v2: v2.microbatches)
    return of(names, "microbatches", lambda release: release.microbatches)


def agreement_of(names: Mapping[str, str]) -> Agreement:
    """Returns the agreement of the ranks, with its graphs."""
    if names["runner"] == "v2":
        return AgreementOfV2(
            of_v2(names, "agreement", lambda v2: v2.agreement), of_v2(names, "graphs", lambda v2: v2.graphs)
        )
    return AgreementV1(
        of(names, "agreement", lambda release: release.agreement),
        of(names, "agreement", lambda release: release.flow),
        of(names, "graphs", lambda release: release.dispatcher),
    )
