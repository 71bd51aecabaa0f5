"""Compares the batch agreement of data-parallel ranks: what each rank sends, and what it decides (specification 1.5).

If one rank raises before its all-reduce, the others wait without end, so the file has no further answers for them. The
function `agreed` runs the agreement of a group, without the code before and after it. The kind `flow` compares all of
the V1 runner's decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import Microbatching, RuntimeMode
from dpsim.vllm.data_parallel.batch import BatchForm, LocalBatch, StepPlan, batch_to_send
from dpsim.vllm.releases import V0_14, V0_17, V0_33, Absent, Release
from dpsim_engine.comparison import Comparison, Row, ours_of

BEFORE, AFTER = "before the all-reduce", "after the all-reduce"

Columns = list[list[int] | None]


def refused(when: str) -> Row:
    return {"raises": "AssertionError", "when": when}


def agreed(
    form: BatchForm,
    config: Microbatching,
    locals_: Sequence[LocalBatch | None],
    answer: Callable[[int, StepPlan], Any],
) -> tuple[Columns, list[Any]]:
    """Runs one agreement of a group. Returns the column of each rank, and its answer `answer(rank, plan)`.

    A rank that raised before the all-reduce is None in `locals_`.
    """
    sent: Columns = [list(form.column(local)) if local is not None else None for local in locals_]
    if None in locals_:
        return sent, [refused(BEFORE) if local is None else "waits" for local in locals_]
    table: HostArray = np.array(sent, np.int32).T
    answered: list[Any] = []
    for index, local in enumerate(locals_):
        assert local is not None
        try:
            form.refuse(table, local)
            answered.append(answer(index, form.decide(table, config)))
        except AssertionError:
            answered.append(refused(AFTER))
    return sent, answered


def in_their_words(sent: Columns, answers: list[Any]) -> Row:
    return {"sent": sent, "answers": answers}


def expected(row: Row) -> Row:
    return in_their_words(row["sent"], row["answers"])


def answered(row: Row, form: BatchForm) -> Row:
    engine, ranks = Microbatching(**row["config"]), row["ranks"]
    if len(ranks) == 1:
        alone = {"ubatch": False, "num_tokens_across_dp": None, "cudagraph_mode": ranks[0]["cudagraph_mode"]}
        return in_their_words([None], [alone])
    locals_ = [_of_rank(rank, engine) for rank in ranks]
    return in_their_words(*agreed(form, engine, locals_, lambda _, plan: _plan_in_their_words(plan)))


def _of_rank(rank: Row, config: Microbatching) -> LocalBatch | None:
    """Returns the local batch of a rank, or None if the rank raises."""
    try:
        return batch_to_send(
            rank["num_tokens_unpadded"],
            rank["num_tokens_padded"],
            rank["allow_microbatching"],
            rank["uniform_decode"],
            rank.get("allow_dp_padding", True),
            RuntimeMode(rank["cudagraph_mode"]),
            config,
        )
    except AssertionError:
        return None


def _plan_in_their_words(plan: StepPlan) -> Row:
    assert plan.num_tokens is not None
    tokens = list(plan.num_tokens)
    return {"ubatch": plan.microbatched, "num_tokens_across_dp": tokens, "cudagraph_mode": int(plan.mode)}


def agreement_of(release: Release) -> BatchForm | Absent:
    return release.agreement if isinstance(release.agreement, Absent) else release.agreement()


DECIDE: Comparison[BatchForm] = Comparison(
    "decide",
    "decide",
    "vllm.v1.worker.dp_utils.coordinate_batch_across_dp",
    ours_of(agreement_of, V0_14, V0_17, V0_33),
    answered,
    expected,
    piece=agreement_of,
)
