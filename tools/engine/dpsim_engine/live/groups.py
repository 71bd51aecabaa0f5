"""Calls the agreement of each rank of a group, one after the other, with the sum of all columns (`stand_ins`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim_engine.comparison import Row
from dpsim_engine.decide import AFTER, BEFORE
from dpsim_engine.live.installed import module
from dpsim_engine.live.stand_ins import (
    REFUSALS,
    Reduction,
    Table,
    dp_group,
    parallel_config,
    plain,
    refusal,
    replaced,
)


def decide(row: Row) -> Row:
    """Puts the question to the V1 runner of vLLM 0.14 to 0.33.

    In release 0.14 a rank also passes its wish for padding, which is part of its row.
    """
    place = module("vllm.v1.worker.dp_utils")
    ranks = row["ranks"]

    def ask(index: int) -> Row:
        config = parallel_config(row["config"], len(ranks), index)
        ubatch, tokens, mode = place.coordinate_batch_across_dp(parallel_config=config, **ranks[index])
        return {"ubatch": bool(ubatch), "num_tokens_across_dp": plain(tokens), "cudagraph_mode": int(mode)}

    reduction = Reduction()
    with replaced(place, dist=reduction, get_dp_group=dp_group):
        return answers_of(len(ranks), ask, reduction)


def answers_of(ranks: int, ask: Callable[[int], Row], reduction: Reduction) -> Row:
    """Returns the column and the answer of each rank.

    If one rank raises before it sends, the ranks that sent wait without end.
    """
    sent: list[Table | None] = []
    early: dict[int, Any] = {}
    for index in range(ranks):
        try:
            table, answer = reduction.first(lambda index=index: ask(index))  # type: ignore[misc]
        except REFUSALS as error:
            table, answer = None, refusal(error, BEFORE)
        sent.append(table)
        if table is None:
            early[index] = answer
    columns = [None if table is None else [line[index] for line in table] for index, table in enumerate(sent)]
    if early:
        return {"sent": columns, "answers": [early.get(index, "waits") for index in range(ranks)]}
    total = [[sum(values) for values in zip(*lines, strict=True)] for lines in zip(*filter(None, sent), strict=True)]
    answers: list[Any] = []
    for index in range(ranks):
        try:
            answers.append(reduction.second(lambda index=index: ask(index), total))  # type: ignore[misc]
        except REFUSALS as error:
            answers.append(refusal(error, AFTER))
    return {"sent": columns, "answers": answers}
