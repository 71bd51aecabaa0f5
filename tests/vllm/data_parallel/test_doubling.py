"""Tests of the sum by recursive doubling: every rank adds each table once, and all get the same bits.

In release 0.33, the ranks of the V2 runner swap their tables point to point (`dpsim.vllm.data_parallel.doubling`).
Mutant M-DP-12 has one rank whose table is not contiguous; this rank uses a collective, so the ranks hang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.sim.backend import SimBackend
from dpsim.vllm.data_parallel.doubling import calls, exchanges, sum_over, summed
from dpsim.vllm.programs.dp_batch import DataParallelSetup
from tests.programs import world_of
from tests.vllm.data_parallel.batch_worlds import Played

RANKS = range(1, 25)
Exchanges = Callable[[int, int], list[tuple[int, ...]]]


def stuck(rounds: dict[int, list[tuple[str, tuple[int, ...]]]]) -> list[int]:
    """Returns the ranks that never finish their calls.

    A swap completes when all its peers are in the same swap; a collective completes when all its members are in it.
    """
    at = dict.fromkeys(rounds, 0)

    def doing(rank: int) -> tuple[str, frozenset[int]] | None:
        if at[rank] == len(rounds[rank]):
            return None
        kind, others = rounds[rank][at[rank]]
        return kind, frozenset(others) | {rank}

    while True:
        now = {rank: doing(rank) for rank in rounds}
        through = [
            rank for rank, call in now.items() if call is not None and all(now[peer] == call for peer in call[1])
        ]
        if not through:
            return [rank for rank, call in now.items() if call is not None]
        for rank in through:
            at[rank] += 1


def contributions(ranks: int, exchange: Exchanges) -> list[Counter[int]]:
    """Returns which ranks' numbers each rank has added after all rounds, and how often."""
    has = [Counter({rank: 1}) for rank in range(ranks)]
    for turn in range(max([len(exchange(rank, ranks)) for rank in range(ranks)], default=0)):
        had = [has[rank].copy() for rank in range(ranks)]
        for rank in range(ranks):
            for peer in exchange(rank, ranks)[turn]:
                has[rank] += had[peer]
    return has


def one_mask_too_few(rank: int, ranks: int) -> list[tuple[int, ...]]:
    """The faulty twin: it leaves out the first round of swaps."""
    return exchanges(rank, ranks)[1:]


@pytest.mark.parametrize("ranks", RANKS)
def test_each_rank_has_each_element_once(ranks: int) -> None:
    """After all rounds, every rank has the numbers of every rank once, and no rank hangs."""
    every = Counter(range(ranks))
    assert contributions(ranks, exchanges) == [every] * ranks
    assert stuck({rank: calls(rank, ranks) for rank in range(ranks)}) == []
    if ranks > 1:
        assert contributions(ranks, one_mask_too_few) != [every] * ranks


@pytest.mark.parametrize("ranks", RANKS)
def test_sums_have_the_same_bits(ranks: int) -> None:
    """Every rank gets the same bits from the sum, also for numbers for which the order of addition matters."""
    tables = list(np.random.default_rng(ranks).normal(size=(ranks, 7)) * 10.0 ** np.arange(-3, 4))
    found = summed(tables)
    assert {table.tobytes() for table in found} == {found[0].tobytes()}
    assert np.allclose(found[0], np.sum(tables, axis=0))
    columns = np.eye(ranks, dtype=np.int32)
    assert all((table == 1).all() for table in summed(list(columns)))


def test_the_order_of_addition_matters() -> None:
    """Another order of the tables changes the bits of the sum, so the test of equal bits can fail."""
    tables = list(np.random.default_rng(6).normal(size=(6, 7)) * 10.0 ** np.arange(-3, 4))
    backwards = summed(tables[::-1])[0]
    assert backwards.tobytes() != summed(tables)[0].tobytes()


@pytest.mark.parametrize("ranks", [2, 3, 6, 8])
def test_one_rank_with_a_table_that_is_not_contiguous_blocks_all_ranks(ranks: int) -> None:
    """One rank with a table that is not contiguous (mutant M-DP-12) blocks all ranks.

    This rank waits in a collective, and the others wait for its swaps. If no table is contiguous, all ranks call the
    collective, and none hangs.
    """
    differs = {rank: calls(rank, ranks, contiguous=rank != 0) for rank in range(ranks)}
    assert stuck(differs) == list(range(ranks))
    assert stuck({rank: calls(rank, ranks, contiguous=False) for rank in range(ranks)}) == []


# ---- the sum as a program on the simulator


class Reduces(Program[Any]):
    """A program in which each rank sums a table over the group. `wrong` is the rank whose table is not contiguous."""

    def __init__(self, wrong: int | None = None) -> None:
        self.wrong = wrong

    async def run(self, rank: Rank, prepared: Any) -> None:
        group = rank.host("dp_cpu")
        table = np.arange(6, dtype=np.int32).reshape(2, 3) ** (rank.rank + 1)
        if rank.rank == self.wrong:
            table = np.asfortranarray(table)
        table = await sum_over(group, table, "sum")
        rank.decide("sum", tuple(table.ravel().tolist()), "dp_cpu")


def played(ranks: int, wrong: int | None = None) -> Played:
    """Runs the program. It needs no prepared data, so `prepared` is None."""
    world, prepared = world_of(ranks, ["dp_cpu"], []), cast(DataParallelSetup, None)
    return Played(world, SimBackend().run_program(world, Reduces(wrong), None), prepared, ())


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_the_sum_is_that_of_all(ranks: int) -> None:
    """On the simulator, each rank gets the sum of all tables, and no check has a finding."""
    tables = [np.arange(6, dtype=np.int32).reshape(2, 3) ** (rank + 1) for rank in range(ranks)]
    done = played(ranks)
    assert done.classes == []
    for rank in range(ranks):
        assert done.decided("sum", rank) == [tuple(summed(tables)[rank].ravel().tolist())]


def test_one_table_that_is_not_contiguous_hangs_on_the_simulation() -> None:
    """A table of one rank that is not contiguous (mutant M-DP-12) causes a hang on the simulator."""
    done = played(4, wrong=2)
    assert done.classes[0].startswith("HANG")
