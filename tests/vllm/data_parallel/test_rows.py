"""Tests of the kernel that writes a batch's tokens into rows: exact values, the same with numpy and with torch."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from dpsim.vllm.model.rows import Piece, cut, value, write
from tests.vllm.data_parallel.naive_tokens import naive_value


def random_pieces(random: Random) -> tuple[Piece, ...]:
    sizes = [random.choice([1, 1, 2, 9]) for _ in range(random.randint(0, 6))]
    return tuple((random.randint(0, 500), size, random.randint(0, 5_000)) for size in sizes)


def tokens(pieces: tuple[Piece, ...]) -> list[tuple[int, int]]:
    """Returns (request, position) of each token."""
    return [(request, position + place) for request, count, position in pieces for place in range(count)]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_kernel_writes_the_naive_values(library: str) -> None:
    """The kernel writes the naive values of the tokens, and zeros into the rows of padding."""
    xp = pytest.importorskip(library)
    random = Random(0)
    for _ in range(50):
        own, before, behind = random_pieces(random), random.randint(0, 3), random.randint(0, 3)
        buffer = xp.ones(before + len(tokens(own)) + behind, dtype=xp.int32)
        write(buffer, before, own)
        values = [naive_value(request, position) for request, position in tokens(own)]
        assert buffer.tolist() == [0] * before + values + [0] * behind
        assert [value(request, position) for request, position in tokens(own)] == values


def test_tokens_of_a_few_hundred_requests_differ() -> None:
    """No two tokens of 250 requests have the same value, so the witness notices if two tokens are exchanged."""
    values = np.array([[value(request, position) for position in range(1000)] for request in range(250)])
    assert len(np.unique(values)) == values.size


def test_the_sum_of_eight_ranks_fits_into_32_bits() -> None:
    """The sum of eight tensor-parallel ranks fits into 32 bits, also for the last of a million positions."""
    assert 8 * value(499_999, 1_000_000) < 2**31


def test_cuts_of_a_batch_contain_all_its_tokens_in_order() -> None:
    """Consecutive cuts of a batch contain all tokens in order, and none is empty."""
    random = Random(1)
    for _ in range(50):
        own = random_pieces(random)
        count = len(tokens(own))
        edges = [0, *sorted(random.randint(0, count) for _ in range(3)), count]
        parts = [cut(own, first, stop) for first, stop in pairwise(edges)]
        assert [len(tokens(part)) for part in parts] == [stop - first for first, stop in pairwise(edges)]
        assert [token for part in parts for token in tokens(part)] == tokens(own)
        assert all(size for part in parts for _, size, _ in part), "no piece is empty"
