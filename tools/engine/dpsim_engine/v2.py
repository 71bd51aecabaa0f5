"""Compares the V2 runner's agreement: first choice, sent column and decision of each rank (specification 1.7, 3.4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import CUDAGraphMode, EngineConfig
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2, LocalV2, SyncState
from dpsim.vllm.graphs.candidates import BatchDescriptor, CandidateTable
from dpsim.vllm.releases import V0_33, Absent, Release
from dpsim_engine.comparison import Comparison, Row, ours_of

Decided = tuple[BatchDescriptor, SyncState | None]


class Group(NamedTuple):
    """The ranks of a group with one configuration.

    `sizes`: the sizes of graphs; None for those of the configuration.
    """

    config: EngineConfig
    ranks: list[LocalV2]
    sizes: tuple[int, ...] | None = None

    def agreement(self, kind: type[AgreementV2]) -> AgreementV2:
        return kind(self.config, CandidateTable(self.config, self.sizes))

    def sent(self, kind: type[AgreementV2]) -> list[tuple[int, ...]]:
        agreement = self.agreement(kind)
        return [agreement.column(rank, agreement.first_dispatch(rank)) for rank in self.ranks]

    def decided(self, kind: type[AgreementV2]) -> list[Decided]:
        table: HostArray = np.array(self.sent(kind), np.int32).T
        return [self.agreement(kind).decide(table, rank) for rank in self.ranks]


def engine_config(question: Row) -> EngineConfig:
    """Returns the configuration without validation, because rows have thresholds that an engine may refuse."""
    return EngineConfig().model_copy(
        update={
            "cudagraph_mode": CUDAGraphMode(question["cudagraph_mode"]),
            "num_speculative_tokens": question["decode_query_len"] - 1,
            "max_num_seqs": question["max_num_seqs"],
            "enable_dbo": question["enable_dbo"],
            "dbo_decode_token_threshold": question["dbo_decode_token_threshold"],
            "dbo_prefill_token_threshold": question["dbo_prefill_token_threshold"],
        }
    )


def group_of(row: Row) -> Group:
    ranks = [
        LocalV2(
            rank["num_tokens"],
            rank["num_reqs"],
            rank["uniform_token_count"],
            may_split=rank["allow_ubatching"],
            may_skip_drafts=rank["allow_skip_drafts"],
            need_eager=rank["need_eager"],
        )
        for rank in row["ranks"]
    ]
    return Group(engine_config(row["config"]), ranks, tuple(row["config"]["cudagraph_capture_sizes"]))


def _described(chosen: BatchDescriptor) -> Row:
    fields = chosen._asdict()
    return {"cg_mode": fields.pop("mode").name, **fields, "num_active_loras": 0}


# ---- the first choice of a rank


def wished(row: Row, kind: type[CandidateTable]) -> list[Row | None]:
    """Returns the first choice of each rank; None for a rank that has to run eagerly, which selects no graph."""
    table = kind(engine_config(row["config"]), row["config"]["cudagraph_capture_sizes"])
    return [
        None
        if rank["need_eager"]
        else _described(table.dispatch(rank["num_reqs"], rank["num_tokens"], rank["uniform_token_count"]))
        for rank in row["ranks"]
    ]


def graphs_of(release: Release) -> type[CandidateTable] | Absent:
    return release.v2 if isinstance(release.v2, Absent) else release.v2.graphs


V2_DISPATCH: Comparison[type[CandidateTable]] = Comparison(
    "v2_dispatch",
    "v2_sync",
    "vllm.v1.worker.gpu.cudagraph_utils.CudaGraphManager.dispatch",
    ours_of(graphs_of, V0_33),
    wished,
    lambda row: row["first_dispatch"],
    piece=graphs_of,
)

# ---- the agreement of all


def _in_their_words(decided: Decided) -> Row:
    chosen, state = decided
    if state is None:
        return {"desc": _described(chosen), "sync": None}
    record = state._asdict()
    return {"desc": _described(chosen), "sync": {"num_tokens_across_dp": list(record.pop("num_tokens")), **record}}


def agreed(row: Row, kind: type[AgreementV2]) -> Row:
    group = group_of(row)
    answers = [_in_their_words(decided) for decided in group.decided(kind)]
    return {"sent": [list(column) for column in group.sent(kind)], "answers": answers}


def agreement_of(release: Release) -> type[AgreementV2] | Absent:
    return release.v2 if isinstance(release.v2, Absent) else release.v2.agreement


V2_SYNC: Comparison[type[AgreementV2]] = Comparison(
    "v2_sync",
    "v2_sync",
    "vllm.v1.worker.gpu.dp_utils.dispatch_cg_and_sync_dp",
    ours_of(agreement_of, V0_33),
    agreed,
    lambda row: {"sent": row["sent"], "answers": row["answers"]},
    piece=agreement_of,
)
