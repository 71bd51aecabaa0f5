"""Tests version tags of buffers: the tag that an op leaves there, and the tag that an op expects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, LAUNCH_WRITES
from dpsim.trace.form import decode, digest, encode
from tests.programs import copy, set_to, touch
from tests.sim.programs import Twins, numbers, see, usual_world

twins = Twins()


@twins("STALE:VERSION", learned=[(1,)])
async def a_staging_buffer_is_read_before_it_is_filled_again(rank: Rank, right: bool) -> Any:
    """A staging buffer is never freed, and all its uses are in order. In the faulty twin the first batch is read after
    the second is written.
    """
    main, side = rank.stream("main"), rank.stream("side")
    staging, result = main.alloc(1, "int32", "staging"), side.alloc(1, "int32", "result")
    for batch in (1, 2):
        main.wait_stream(side)
        main.launch("fill", set_to, writes=[staging.tagged(("batch", batch))], args=(batch,))
        side.wait_stream(main)
        if right and batch == 1:
            side.launch("take", copy, reads=[staging.tagged(("batch", 1))], writes=[result])
    if not right:
        side.launch("take", copy, reads=[staging.tagged(("batch", 1))], writes=[result])
    return numbers(await result.read("read"))


@twins("STALE:VERSION", learned=[(1,), (1,)])
async def transfers_and_collectives_have_versions_too(rank: Rank, right: bool) -> Any:
    main, group = rank.stream("main"), rank.device("d")
    x, y = main.alloc(1, "int32", "x"), main.alloc(2, "int32", "y")
    main.launch("fill", set_to, writes=[x.tagged(1)], args=(1,))
    if rank.rank:
        group.recv(x.tagged(2), 0, main)
    else:
        group.send(x.tagged(1), 1, main)
    group.all_gather(y.tagged("all"), x.tagged(1 + (rank.rank == 1) * right), main)
    group.all_reduce(y.view(0, 1), main)
    main.launch("half", set_to, writes=[y.view(0, 1).tagged("all")], args=(1,))
    return numbers((await y.tagged("all").read("read"))[:1])


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()


async def tagged(rank: Rank) -> None:
    main = rank.stream("main")
    x = main.alloc(4, "int32", "x")
    main.launch("fill", touch, writes=[x.tagged((1, "b", None, float("inf")))])
    main.launch("fill", touch, writes=[x])


def test_a_tag_is_part_of_the_reference_and_of_the_trace() -> None:
    [journal] = see(tagged, usual_world(1)).run.journals
    first, second = [raw for raw in journal if raw[KIND] == "launch"]
    assert first[LAUNCH_WRITES] == ((0, 0, 4, (1, "b", None, float("inf"))),)
    assert second[LAUNCH_WRITES] == ((0, 0, 4),)
    assert decode(encode(0, first))[1][LAUNCH_WRITES] == first[LAUNCH_WRITES]
    plain = [*journal]
    plain[journal.index(first)] = (*first[:LAUNCH_WRITES], second[LAUNCH_WRITES])
    assert digest([plain]) != digest([journal])


@pytest.mark.parametrize("tag", [np.zeros(2), [1], (1, [2]), object()])
def test_a_tag_is_plain_data(tag: Any) -> None:
    async def script(rank: Rank) -> None:
        with pytest.raises(TypeError):
            rank.stream("main").alloc(1, "int32", "x").tagged(tag)

    assert see(script, usual_world(1)).run.finished
