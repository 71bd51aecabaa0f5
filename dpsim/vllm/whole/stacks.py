"""The two named stacks, and the way from a name to the pieces of an engine step (specification 10.0).

The published pages come from several versions and two runners, so they have no composition of their own. `source` puts
them together on the V1 runner; `current` is release 0.33. Any piece may be swapped by name:

    >>> pieces = resolve("source", {"graphs": "v1-0.33"}, Topology(data_parallel_size=2), EngineConfig())
    >>> pieces.names["agreement"], pieces.names["graphs"], pieces.finish_sync.interval
    ('source-000', 'v1-0.33', 32)

In `current` microbatches run on the V1 runner, unless a swap asks for the V2 runner, as the engine's variable
VLLM_USE_V2_MODEL_RUNNER does; all else runs on the V2 runner:

    >>> two = Topology(data_parallel_size=2)
    >>> [resolve("current", {}, two, EngineConfig(enable_dbo=dbo)).runner for dbo in (False, True)]
    ['v2', 'v1']

A mix that the engine refuses is refused by the rule's name, unless a scenario says that it wants it all the same:

    protocol: {name: whole_engine, form: current, pieces: {runner: v2}, allow_refused: true}

What was never written for one another (an agreement of one runner, graphs of the other) is refused whatever it says,
and so is a configuration that breaks the rules of its release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dpsim.contract.program import Arguments, Unsuitable
from dpsim.vllm.config import EngineConfig, Topology, broken_rules
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.step_v2 import DataParallelStepV2
from dpsim.vllm.graphs.managed import V1_GRAPHS
from dpsim.vllm.overlap.forms import OverlapStep, OverlapStepV2
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.whole import pieces as forms
from dpsim.vllm.whole.pieces import FORMS, RUNNERS, Agreement, AgreementOfV2, AgreementV1, FinishSync
from dpsim.vllm.whole.rules import Mix, Model, broken

STACKS: Mapping[str, Mapping[str, str]] = {
    "source": {
        "runner": "v1",
        "agreement": "source-000",
        "graphs": "v1-0.17",
        "microbatches": "source-001",
        "experts": "source-000",
        "tokens": "source-002",
        "transfer": "source-002",
        "finish_sync": "source-003",
        "counts": "own",
        "config": "source-003",
    },
    "current": {
        "runner": "v2",
        "agreement": "v2-0.33",
        "graphs": "v2-0.33",
        "microbatches": "v2-0.33",
        "experts": "0.33",
        "tokens": "0.33",
        "transfer": "0.33",
        "finish_sync": "0.33",
        "counts": "own",
        "config": "0.33",
    },
}
"""Of each stack the form of each piece."""

CURRENT_V1: Mapping[str, str] = {
    "runner": "v1",
    "agreement": "v1-0.33",
    "graphs": "v1-0.33",
    "microbatches": "v1-0.33",
}
"""What `current` has in their place on the V1 runner."""


ENGINES: Mapping[str, str] = {"source-003": "0.14", "0.24": "0.24", "0.33": "0.33"}
"""Of each finish sync the form of `engine` that has it."""


class Pieces(NamedTuple):
    """What a step is put together of. `names`: the form of each piece; `config`: with the rules of `names["config"]`;
    `ignored`: rules of the engine that were broken, and wanted so.
    """

    names: Mapping[str, str]
    config: EngineConfig
    agreement: Agreement
    microbatches: type[OverlapForward]
    experts: type[ExpertBalance]
    tokens: type[SampledTokens]
    transfer: type[Transfer]
    finish_sync: FinishSync
    ignored: tuple[str, ...] = ()

    @property
    def runner(self) -> str:
        return self.names["runner"]

    @property
    def step(self) -> type[DataParallelStep]:
        """The step of the runner, with its agreement."""
        return DataParallelStepV2 if self.runner == "v2" else DataParallelStep

    @property
    def overlap_step(self) -> type[OverlapStep]:
        """The same where batches are split in threads."""
        return OverlapStepV2 if self.runner == "v2" else OverlapStep

    @property
    def syncs_on_host(self) -> bool:
        """Whether ranks agree over gloo: the V2 runner always, the V1 runner by a flag or by how it schedules (1.4)."""
        return self.runner == "v2" or self.config.syncs_on_host


def resolve(
    stack: str,
    swaps: Mapping[str, str],
    topology: Topology,
    config: EngineConfig,
    model: Model | None = None,
    allow_refused: bool = False,
) -> Pieces:
    """The pieces of a stack with some swapped.

    Raises Unsuitable for a stack, piece or form that there is none of, for pieces of two runners, for a configuration
    that its release refuses, and, unless `allow_refused`, for what the engine refuses to put together.
    """
    names = chosen(stack, swaps, config)
    refuse_two_runners(names)
    config = config.model_copy(update={"parallel_rules": names["config"]})
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
        agreement_of(names),
        {**forms.V1_MICROBATCHES, **forms.V2_MICROBATCHES}[names["microbatches"]],
        forms.EXPERTS[names["experts"]],
        forms.TOKENS[names["tokens"]],
        forms.TRANSFER[names["transfer"]],
        forms.finish_sync(names["finish_sync"], config),
        tuple(rule.__name__ for rule, _ in found_broken),
    )


def resolve_arguments(args: Arguments) -> Pieces:
    """The same for a program whose forms are the stacks and whose `pieces` are `FORMS`: what its scenario asks for."""
    topology, config = Topology.model_validate(args.topology), EngineConfig.model_validate(args.config)
    model = Model(encoder_inputs=any(request.encoder_inputs for request in args.requests))
    return resolve(args.form, args.pieces, topology, config, model, args.allow_refused)


def chosen(stack: str, swaps: Mapping[str, str], config: EngineConfig) -> dict[str, str]:
    """The form of each piece: the swap, or the stack's, which goes by the runner."""
    if stack not in STACKS:
        raise Unsuitable(f"protocol.form: {stack}; expected one of the stacks {', '.join(STACKS)}")
    for piece, form in swaps.items():
        if form not in FORMS.get(piece, ()):
            of, known = (f".{piece}: {form}", FORMS[piece]) if piece in FORMS else (f": {piece}", tuple(FORMS))
            raise Unsuitable(f"protocol.pieces{of}; expected one of {', '.join(known)}")
    runner = swaps.get("runner", "v1" if config.use_ubatching else STACKS[stack]["runner"])
    own = CURRENT_V1 if stack == "current" and runner == "v1" else {}
    return {**STACKS[stack], **own, **swaps}


def refuse_two_runners(names: Mapping[str, str]) -> None:
    """Raise Unsuitable for a form that was written for the other runner."""
    for piece, known in RUNNERS[names["runner"]].items():
        if names[piece] not in known:
            raise Unsuitable(
                f"protocol.pieces.{piece}: {names[piece]} was not written for the {names['runner'].upper()} runner; "
                f"expected one of {', '.join(known)}, or another protocol.pieces.runner"
            )


def agreement_of(names: Mapping[str, str]) -> Agreement:
    """What ranks agree with, and the graphs that they agree on."""
    name, graphs = names["agreement"], names["graphs"]
    if names["runner"] == "v2":
        return AgreementOfV2(forms.V2_AGREEMENTS[name], forms.V2_GRAPHS[graphs])
    return AgreementV1(*forms.V1_AGREEMENTS[name], V1_GRAPHS[graphs])
