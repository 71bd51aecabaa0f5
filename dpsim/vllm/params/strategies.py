"""Hypothesis strategies that draw scenarios: the user writes a property, and Hypothesis searches for a counterexample.

    @given(scenarios(max_faults=0))
    def test_a_healthy_protocol_never_hangs(scenario):
        holds(scenario)              # dpsim.testing: explores schedules, and raises if one fails

A strategy draws an abort in order to draw a free in an arbitrary step.

Every drawn scenario is valid by construction, and small: up to 4 ranks, 6 requests, about 30 steps. Hypothesis shrinks
it towards the simplest scenario: one rank, one request of one token, vLLM's defaults, no faults, no delays. For this,
the simplest value is first in every choice, and lists shrink to empty ones.

A strategy always draws all its values, even those that an earlier choice makes useless. Otherwise Hypothesis could not
revert that choice without a change of all later draws. Strategies draw neither schedules nor seeds, because the
property explores schedules. So it depends on the scenario only, and a failing example shrinks.

Only this file and `fault_strategies` import Hypothesis. Prior art: Hypothesis' own guide to strategies that shrink
well; Jepsen's nemesis.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from dpsim.contract import registry
from dpsim.scenario.duration import format_duration
from dpsim.scenario.edit import scenario_from
from dpsim.scenario.model import Scenario
from dpsim.vllm.config import CUDAGraphMode, EngineConfig, Topology
from dpsim.vllm.params.accepted import accepted, accepted_config, demanded, is_accepted, reads, validated
from dpsim.vllm.params.fault_strategies import SITES, delays, faults
from dpsim.vllm.params.workload.model import Workload

STEP_NS = 20_000_000

# Hypothesis validates a strategy at its first draw, so this module creates the shared strategies only once.
MODES = st.sampled_from(sorted(CUDAGraphMode, key=lambda mode: mode is not EngineConfig().cudagraph_mode))
SEATS = st.none() | st.integers(1, 8)
THRESHOLDS = st.none() | st.integers(0, 12)
PROMPTS = st.integers(1, 16) | st.sampled_from([33, 64])


def topologies(max_ranks: int = 4, min_data_parallel: int = 1, max_other: int = 2) -> st.SearchStrategy[Topology]:
    """Draws topologies of up to `max_ranks` ranks. Hypothesis shrinks to the fewest ranks.

    `min_data_parallel` is the smallest data-parallel size, and `max_other` the largest pipeline and tensor-parallel
    size.
    """
    return st.sampled_from(_all_topologies(max_ranks, min_data_parallel, max_other))


@functools.cache
def _all_topologies(max_ranks: int = 4, min_data_parallel: int = 1, max_other: int = 2) -> tuple[Topology, ...]:
    sizes = [
        (dp, pp, tp)
        for dp in range(min_data_parallel, max_ranks + 1)
        for pp in range(1, max_other + 1)
        for tp in range(1, max_other + 1)
        if dp * pp * tp <= max_ranks
    ]
    sizes.sort(key=lambda size: (size[1] * size[2] > 1, size[0] * size[1] * size[2], size))
    return tuple(
        Topology(data_parallel_size=dp, pipeline_parallel_size=pp, tensor_parallel_size=tp) for dp, pp, tp in sizes
    )


@st.composite
def configs(draw: st.DrawFn, max_ubatches: int = 4, max_query_len: int = 4, captures: bool = False) -> EngineConfig:
    """Draws valid configurations, with all graph modes, short lists of capture sizes, both sync groups, and adapters.

    A step has 1 to `max_ubatches` microbatches with thresholds that fill them, and a decode has 1 to `max_query_len`
    tokens. In mode FULL every graph size is a multiple of a decode. The reason is that releases 0.14 and 0.17 do not
    round sizes, and assert if they pad a decode to another size. With `captures`, about half of the configurations with
    graphs capture and replay them (`capture_graphs`). Those have no microbatches, and no graphs specialized for
    adapters. Hypothesis shrinks to `EngineConfig()`.
    """
    query_len = draw(st.integers(1, max_query_len))
    mode = draw(MODES)
    seats = draw(SEATS)
    tokens = draw(st.sampled_from([8192, 64, 32]))
    ladder = _ladder_or_none(query_len if mode.separate_routine else 1)
    if mode is CUDAGraphMode.FULL and query_len > 1:
        ladder = ladders(query_len)
    few: dict[str, Any] = {} if seats is None else {"max_num_seqs": seats, "max_num_batched_tokens": tokens}
    drawn = EngineConfig(
        num_speculative_tokens=query_len - 1,
        cudagraph_mode=mode,
        cudagraph_capture_sizes=draw(ladder),
        async_scheduling=draw(st.booleans()),
        disable_nccl_for_dp_synchronization=draw(st.sampled_from([None, True, False])),
        enable_lora=draw(st.booleans()),
        cudagraph_specialize_lora=draw(st.sampled_from([True, False])),
        **few,
        **draw(_microbatching(max_ubatches)),
    )
    return _captured(drawn) if captures and draw(st.booleans()) else drawn


@st.composite
def pipelines(draw: st.DrawFn, max_stages: int = 4, max_replicas: int = 1) -> Topology:
    """Draws topologies of 1 to `max_stages` pipeline stages, or of 2 or more stages with several replicas.

    Hypothesis shrinks to one replica of two stages.
    """
    stages = draw(st.sampled_from([2, 1, *range(3, max_stages + 1)]))
    replicas = draw(st.integers(1, max_replicas if stages > 1 else 1))
    return Topology(data_parallel_size=replicas, pipeline_parallel_size=stages)


@st.composite
def pipeline_configs(draw: st.DrawFn, max_slots: int = 4, max_drafts: int = 3, max_tokens: int = 96) -> EngineConfig:
    """Draws configurations that keep a pipeline busy. Hypothesis shrinks to one slot.

    With few slots, requests reuse slots. With a small token budget, the scheduler cuts prompts into chunks. Decodes
    have up to `max_drafts` draft tokens. The KV cache has room for one request of `max_tokens`, but rarely for two.
    """
    slots, drafts = draw(st.integers(1, max_slots)), draw(st.integers(0, max_drafts))
    block, scarce = draw(st.sampled_from([16, 1, 5])), draw(st.booleans())
    blocks = -(-(max_tokens + 2 * (1 + drafts)) // block) + draw(st.integers(0, 4))
    return EngineConfig(
        max_num_seqs=slots,
        num_speculative_tokens=drafts,
        max_num_batched_tokens=slots * (1 + drafts) + draw(st.sampled_from([64, 3, 1, 0])),
        async_scheduling=draw(st.booleans()),
        cudagraph_mode=CUDAGraphMode.NONE,
        block_size=block,
        num_gpu_blocks_override=blocks if scarce else None,
    )


def ladders(multiple: int = 1) -> st.SearchStrategy[tuple[int, ...]]:
    """Draws lists of capture sizes: one to four different token counts, all multiples of `multiple`."""
    counts = st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True)
    return counts.map(lambda sizes: tuple(sorted(multiple * size for size in sizes)))


@st.composite
def workloads(
    draw: st.DrawFn, max_requests: int = 6, adapters: Sequence[str] = (), aborts: bool = True, force_eager: bool = True
) -> Workload:
    """Draws one to `max_requests` requests, each with one of up to two `adapters` or none.

    Hypothesis shrinks to one request with one prompt token and one output token.
    """
    one = _requests(tuple(adapters), aborts, force_eager)
    requests = draw(st.lists(one, min_size=1, max_size=max_requests))
    return Workload.model_validate({"requests": requests})


def scenarios(
    *,
    topology: st.SearchStrategy[Any] | Topology | Mapping[str, Any] | None = None,
    config: st.SearchStrategy[Any] | EngineConfig | Mapping[str, Any] | None = None,
    workload: st.SearchStrategy[Any] | Workload | Mapping[str, Any] | None = None,
    **more: Any,
) -> st.SearchStrategy[Scenario]:
    """Draws whole scenarios without expectations.

    `topology`, `config`, `workload`: strategies for these parts, e.g. `topologies(max_ranks=2)`. A strategy draws
    objects or mappings of a scenario file. Each part may also be one such value: `config={"capture_graphs": True}`.
    Without these three, the strategy draws only what the program accepts. Without `config`, some scenarios of
    `dp_batch` capture graphs.

    `protocol` (default `dp_batch`), `form`, `variant`: the program. `max_faults` (1), `max_delays` (2): with
    `max_faults=0` all scenarios are healthy, if the form and variant are healthy. `sites`: the sites of faults and
    delays, for a protocol other than `dp_batch`.

        scenarios(protocol="pp_tokens", topology=pipelines(), config=pipeline_configs(), sites=["tokens.send"])

    Raises ScenarioError for a mapping that is invalid in a scenario file, and TypeError for a value of another type.
    """
    given = {"topology": topology, "config": config, "workload": workload}
    drawn: dict[str, Any] = {key: _as_strategy(key, value) for key, value in given.items() if value is not None}
    return _scenarios(**drawn, **more)


def _as_strategy(key: str, value: Any) -> st.SearchStrategy[Any]:
    """`key`: the section. Raises TypeError for another type, ScenarioError for a mapping that no file may have."""
    kind = {"topology": Topology, "config": EngineConfig, "workload": Workload}[key]
    if isinstance(value, st.SearchStrategy):
        return value.map(lambda drawn: validated(key, kind, drawn))
    return st.just(validated(key, kind, value))


@st.composite
def _scenarios(
    draw: st.DrawFn,
    *,
    protocol: str = "dp_batch",
    form: str | None = None,
    variant: str | None = None,
    topology: st.SearchStrategy[Topology] | None = None,
    config: st.SearchStrategy[EngineConfig] | None = None,
    workload: st.SearchStrategy[Workload] | None = None,
    max_faults: int = 1,
    max_delays: int = 2,
    sites: Sequence[str] = SITES,
) -> Scenario:
    given = any(part is not None for part in (topology, config, workload))
    if topology is None:
        topology = st.sampled_from(accepted(protocol, form, variant, _all_topologies()))
    ranks = draw(topology)
    engine = draw(configs(captures=_captures(protocol, form, variant)) if config is None else config)
    if config is None:
        demands = demanded(protocol, form, variant, _all_topologies())
        engine = engine.model_copy(update=demands) if demands else engine
        engine = accepted_config(protocol, form, variant, ranks, engine)
    if workload is None:
        adapters = ("first", "second") if engine.enable_lora and reads(protocol, "lora") else ()
        aborts, eager = reads(protocol, "abort_ns"), reads(protocol, "force_eager")
        workload = workloads(adapters=adapters, aborts=aborts, force_eager=eager)
    requests = draw(workload)
    drawn = scenario_from(
        {
            "name": "drawn",
            "protocol": {"name": protocol, "form": form, "variant": variant},
            "topology": ranks,
            "config": engine,
            "workload": requests,
            "faults": draw(faults(ranks, max_faults, sites)),
            "delays": draw(delays(ranks, max_delays, sites)),
        }
    )
    assume(given or is_accepted(drawn))  # the user has to see why the program refuses a part that the test gives
    return drawn


# ---- parts

SIZES = (1, 2, 4, 16)
"""The numbers of decodes that captured graphs hold, if the strategy drew no sizes.

The default sizes of a release are too many for a property.
"""


def _captured(config: EngineConfig) -> EngineConfig:
    if config.cudagraph_mode is CUDAGraphMode.NONE:
        return config
    sizes = config.cudagraph_capture_sizes or tuple([config.uniform_decode_query_len * size for size in SIZES])
    one = {"enable_dbo": False, "ubatch_size": 0, "cudagraph_specialize_lora": False}
    return config.model_copy(update={**one, "cudagraph_capture_sizes": sizes, "capture_graphs": True})


def _captures(protocol: str, form: str | None, variant: str | None) -> bool:
    """The V1 runner of `dp_batch` lets ranks capture."""
    form = registry.variant(variant).form if form is None and variant is not None else form
    return protocol == "dp_batch" and not (form or "").startswith("v2-")


@functools.cache
def _ladder_or_none(multiple: int) -> st.SearchStrategy[tuple[int, ...] | None]:
    return st.none() | ladders(multiple)


@functools.cache
@st.composite
def _microbatching(draw: st.DrawFn, max_ubatches: int) -> dict[str, Any]:
    ubatches, dbo = draw(st.integers(1, max_ubatches)), draw(st.booleans())
    chosen: dict[str, Any] = {"enable_dbo": True} if ubatches == 2 and dbo else {"ubatch_size": ubatches}
    for kind in ("decode", "prefill"):
        threshold = draw(THRESHOLDS)
        if threshold is not None:
            chosen[f"dbo_{kind}_token_threshold"] = ubatches + threshold
    return {} if ubatches == 1 else chosen


@functools.cache
@st.composite
def _requests(draw: st.DrawFn, adapters: tuple[str, ...], aborts: bool, force_eager: bool) -> dict[str, Any]:
    arrival = draw(st.integers(0, 6)) * STEP_NS
    request: dict[str, Any] = {
        "arrival": format_duration(arrival),
        "prompt_tokens": draw(PROMPTS),
        "output_tokens": draw(st.integers(1, 6)),
    }
    after, adapter, eager = draw(st.integers(0, 4)), draw(st.integers(0, 2)), draw(st.booleans())
    if aborts and after:
        request["abort"] = format_duration(arrival + after * STEP_NS)
    if adapter and adapter <= len(adapters):
        request["lora"] = adapters[adapter - 1]
    if force_eager:
        request["force_eager"] = eager
    return request
