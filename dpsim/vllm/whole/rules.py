"""The combinations that the engine itself refuses. Each rule is a function, and its name is the name of the rule.

A rule reads a `Mix`: the chosen pieces by form, the sizes, the configuration and the model. It returns the wrong
setting with the expected one, or None (specification 10.0):

    >>> split = EngineConfig(enable_dbo=True, cudagraph_mode="NONE", enable_lora=True)
    >>> mix = Mix({"runner": "v2"}, Topology(data_parallel_size=2), split)
    >>> [rule.__name__ for rule, _ in broken(mix)]
    ['v2_splits_no_adapters']
    >>> broken(mix._replace(names={"runner": "v1"}))
    []

A scenario can ask dpsim to ignore the rules, to explore what breaks without them (`dpsim.vllm.programs.stacks`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from dpsim.vllm.config import EngineConfig, RuntimeMode, Topology


class Model(NamedTuple):
    """The properties of a model that the rules read. Simplified: a model is hybrid only if the caller sets this."""

    encoder_inputs: bool = False
    """Whether the model is multimodal, or an encoder-decoder model."""
    hybrid: bool = False
    """Whether some layers have a state instead of a KV cache."""


class Mix(NamedTuple):
    """The input of a rule. `names`: the form of each piece."""

    names: Mapping[str, str]
    topology: Topology
    config: EngineConfig
    model: Model = Model()

    @property
    def v2_splits(self) -> bool:
        """Whether the V2 runner has to split batches into microbatches."""
        return self.names["runner"] == "v2" and self.config.use_ubatching


Rule: TypeAlias = Callable[[Mix], str | None]

V2_SPLITS = "as the V2 runner is to run microbatches"


def v2_splits_no_adapters(mix: Mix) -> str | None:
    if not (mix.v2_splits and mix.config.enable_lora):
        return None
    return f"config.enable_lora: True; expected False, {V2_SPLITS}"


def v2_splits_no_drafts(mix: Mix) -> str | None:
    drafts = mix.config.num_speculative_tokens
    if not (mix.v2_splits and drafts):
        return None
    return f"config.num_speculative_tokens: {drafts}; expected 0, {V2_SPLITS}"


def v2_splits_no_pipelines(mix: Mix) -> str | None:
    stages = mix.topology.pipeline_parallel_size
    if not (mix.v2_splits and stages > 1):
        return None
    return f"topology.pipeline_parallel_size: {stages}; expected 1, {V2_SPLITS}"


def v2_splits_no_contexts(mix: Mix) -> str | None:
    """Refuse context parallelism, of prefills or of decodes."""
    for name in ("prefill_context_parallel_size", "decode_context_parallel_size"):
        size = getattr(mix.topology, name)
        if mix.v2_splits and size > 1:
            return f"topology.{name}: {size}; expected 1, {V2_SPLITS}"
    return None


def v2_splits_no_encoder_inputs(mix: Mix) -> str | None:
    if not (mix.v2_splits and mix.model.encoder_inputs):
        return None
    return f"workload: requests with encoder_inputs; expected none, {V2_SPLITS}"


def v2_splits_no_hybrids(mix: Mix) -> str | None:
    if not (mix.v2_splits and mix.model.hybrid):
        return None
    return f"the model: a hybrid one; expected none, {V2_SPLITS}"


def v2_splits_no_piecewise_graphs(mix: Mix) -> str | None:
    mode = mix.config.cudagraph_mode
    if not (mix.v2_splits and mode.has_mode(RuntimeMode.PIECEWISE) and not mix.config.enforce_eager):
        return None
    return f"config.cudagraph_mode: {mode.value}; expected FULL, FULL_DECODE_ONLY or NONE, {V2_SPLITS}"


def v1_schedules_no_pipelines_ahead(mix: Mix) -> str | None:
    stages = mix.topology.pipeline_parallel_size
    if mix.names["runner"] != "v1" or stages == 1 or not mix.config.async_scheduling:
        return None
    return f"config.async_scheduling: True; expected False, as the V1 runner is to run {stages} stages"


RULES: tuple[Rule, ...] = (
    v2_splits_no_adapters,
    v2_splits_no_drafts,
    v2_splits_no_pipelines,
    v2_splits_no_contexts,
    v2_splits_no_encoder_inputs,
    v2_splits_no_hybrids,
    v2_splits_no_piecewise_graphs,
    v1_schedules_no_pipelines_ahead,
)


def broken(mix: Mix) -> list[tuple[Rule, str]]:
    """The rules that a mix violates, each with its message."""
    return [(rule, wrong) for rule in RULES if (wrong := rule(mix)) is not None]
