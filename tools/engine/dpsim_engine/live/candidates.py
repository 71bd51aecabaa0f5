"""Calls the V2 runner's graph manager, and its agreement.

The stand-in manager treats all graphs as captured, although none is.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dpsim_engine.comparison import Row
from dpsim_engine.live.graphs import mode_of
from dpsim_engine.live.groups import answers_of
from dpsim_engine.live.installed import module
from dpsim_engine.live.stand_ins import Reduction, parallel_config, plain, replaced

MANAGER, AGREEMENT = "vllm.v1.worker.gpu.cudagraph_utils", "vllm.v1.worker.gpu.dp_utils"


def _parallel(question: Row, ranks: int, rank: int) -> SimpleNamespace:
    names = ("enable_dbo", "dbo_decode_token_threshold", "dbo_prefill_token_threshold")
    return parallel_config({name: question[name] for name in names} | {"ubatch_size": 0}, ranks, rank)


def manager(question: Row) -> Any:
    place, mode = module(MANAGER), mode_of(question["cudagraph_mode"])
    sizes = question["cudagraph_capture_sizes"]
    compilation = SimpleNamespace(
        cudagraph_mode=mode, cudagraph_capture_sizes=sizes, max_cudagraph_capture_size=max(sizes, default=0)
    )
    vllm_config = SimpleNamespace(
        scheduler_config=SimpleNamespace(max_num_seqs=question["max_num_seqs"]),
        compilation_config=compilation,
        parallel_config=_parallel(question, 1, 0),
        cache_config=SimpleNamespace(use_kda_recoverssm=False),
        speculative_config=None,
        num_speculative_tokens=question["decode_query_len"] - 1,
    )
    stage = SimpleNamespace(is_first_rank=True, is_last_rank=True)
    platform = SimpleNamespace(get_global_graph_pool=lambda: None)
    runner = SimpleNamespace() if question["enable_dbo"] else None
    with replaced(
        place,
        get_pp_group=lambda: stage,
        current_platform=platform,
        is_breakable_cudagraph_enabled=lambda: False,
    ):
        made = place.CudaGraphManager(vllm_config, "cpu", mode, question["decode_query_len"], ubatch_runner=runner)
    made._graphs_captured = True
    return made


def described(chosen: Any) -> Row:
    fields = ("num_tokens", "num_reqs", "uniform_token_count", "num_ubatches", "num_active_loras")
    return {"cg_mode": chosen.cg_mode.name, **{name: getattr(chosen, name) for name in fields}}


def v2_dispatch(row: Row) -> Row:
    """Puts the question to vLLM 0.33. A rank that has to run eagerly selects no graph."""
    graphs = manager(row["config"])

    def wished(rank: Row) -> Row | None:
        if rank["need_eager"]:
            return None
        return described(graphs.dispatch(rank["num_reqs"], rank["num_tokens"], rank["uniform_token_count"], 0))

    return {"first_dispatch": [wished(rank) for rank in row["ranks"]]}


def v2_sync(row: Row) -> Row:
    """Puts the question to vLLM 0.33."""
    place, ranks, graphs = module(AGREEMENT), row["ranks"], manager(row["config"])
    reduction = Reduction()
    group = SimpleNamespace(cpu_all_reduce_=reduction.all_reduce)

    def ask(index: int) -> Row:
        config = _parallel(row["config"], len(ranks), index)
        position = {"dp_size": len(ranks), "dp_rank": index, "parallel_config": config}
        chosen, sync = place.dispatch_cg_and_sync_dp(graphs, **ranks[index], **position)
        if sync is None:
            return {"desc": described(chosen), "sync": None}
        fields = ("uniform_token_count", "eager", "num_reqs", "skip_drafts")
        record = {"num_tokens_across_dp": plain(sync.num_tokens_across_dp)}
        return {"desc": described(chosen), "sync": {**record, **{name: getattr(sync, name) for name in fields}}}

    with replaced(place, get_dp_group=lambda: group):
        return answers_of(len(ranks), ask, reduction)
