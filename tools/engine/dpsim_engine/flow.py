"""Compares the V1 runner's decisions on every rank of a group, from batch to agreed graph (specification 1.6)."""

from __future__ import annotations

from typing import cast

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch import BatchForm, StepPlan
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import Descriptor, Dispatcher
from dpsim.vllm.releases import V0_14, V0_17, V0_33, Absent, Release
from dpsim_engine.comparison import Comparison, Row, ours_of
from dpsim_engine.decide import agreed, expected, in_their_words

Flow = tuple[type[BatchForm], type[Dispatcher], type[BatchFlow]]


def answered(row: Row, ours: Flow) -> Row:
    """Returns the column of each rank, and its graph descriptor."""
    form, graphs, flow = ours
    decides = flow(engine_config(row["config"]), form(), graphs)
    batches = [batch_of(rank) for rank in row["ranks"]]
    firsts = [decides.first_dispatch(batch) for batch in batches]
    if len(batches) == 1:
        return in_their_words([None], [_in_their_words(*firsts[0], StepPlan(False, None, firsts[0][0]))])
    locals_ = [decides.local_batch(batch, *first) for batch, first in zip(batches, firsts, strict=True)]

    def second(index: int, plan: StepPlan) -> Row:
        assert plan.num_tokens is not None
        count = plan.num_tokens[index]
        mode, descriptor = decides.second_dispatch(batches[index], count, plan)
        assert descriptor.num_tokens == count  # as the step does
        return _in_their_words(mode, descriptor, plan)

    return in_their_words(*agreed(decides.form, decides.config, locals_, second))


def engine_config(config: Row) -> EngineConfig:
    return EngineConfig(
        cudagraph_mode=config["cudagraph_mode"],
        cudagraph_capture_sizes=config["capture_sizes"],
        num_speculative_tokens=config["query_len"] - 1,
        max_num_seqs=config["max_num_seqs"],
        enable_lora=config["lora"] != "off",
        cudagraph_specialize_lora=config["lora"] == "both",
        enable_dbo=config["enable_dbo"],
        dbo_decode_token_threshold=config["dbo_decode_token_threshold"],
        dbo_prefill_token_threshold=config["dbo_prefill_token_threshold"],
    )


def batch_of(rank: Row) -> Batch:
    """Returns the batch of a rank. Its requests are placeholders, because only their number has an effect."""
    return Batch(
        ((0, 0, 0),) * rank["num_reqs"],
        rank["num_tokens"],
        rank["max_num_scheduled_tokens"],
        num_loras=rank["num_active_loras"],
        force_eager=rank["force_eager"],
        encoder_reqs=rank["num_encoder_reqs"],
        cascade_attention=rank["use_cascade_attn"],
        allow_microbatching=rank["allow_microbatching"],
        forced_uniform=bool(rank["force_uniform_decode"]),
    )


def _in_their_words(mode: RuntimeMode, descriptor: Descriptor, plan: StepPlan) -> Row:
    tokens = None if plan.num_tokens is None else list(plan.num_tokens)
    return {"mode": mode.name, **descriptor._asdict(), "ubatch": plan.microbatched, "num_tokens_across_dp": tokens}


def flow_of(release: Release) -> Flow | Absent:
    pieces = release.agreement, release.dispatcher, release.flow
    missing = [piece for piece in pieces if isinstance(piece, Absent)]
    return missing[0] if missing else cast(Flow, pieces)


FLOW: Comparison[Flow] = Comparison(
    "flow",
    "flow",
    "vllm.v1.worker.gpu_model_runner.GPUModelRunner._determine_batch_execution_and_padding",
    ours_of(flow_of, V0_14, V0_17, V0_33),
    answered,
    expected,
    piece=flow_of,
)
