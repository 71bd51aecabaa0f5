"""Other ranks prove something only against a rank of their role: its own earlier steps show the same calls."""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Rank
from tests.checks.blame.innocent import ONE, first
from tests.programs import Script

STEPS = 3


def hands(step: int, mistake: str) -> Script:
    """Rank 0 hands a block to each of ranks 1, 2, and rank 3 takes none. Mistakes of a step: `to`: the last block goes
    to rank 3. `from`: rank 2 takes a block of rank 3.
    """

    async def script(rank: Rank) -> None:
        h = rank.host("h")
        for rank.step in range(STEPS):
            now = rank.step == step
            if rank.rank == 0:
                for to in (1, 3 if now and mistake == "to" else 2):
                    await h.send(ONE, to, site="hand")
            elif rank.rank < 3:
                await h.recv(1, "int32", 3 if now and mistake == "from" and rank.rank == 2 else 0, site="take")
            await h.barrier(site="meet")

    return script


@pytest.mark.parametrize(("mistake", "step", "culprit"), [
    ("to", 0, (0, "hand")), ("to", 2, (0, "hand")), ("from", 2, (2, "take")),
])  # fmt: skip
def test_a_rank_that_never_takes_or_sends_a_block_did_not_leave_it_out(
    mistake: str, step: int, culprit: tuple[int, str]
) -> None:
    found = first(4, hands(step, mistake)).culprit
    assert found is not None
    assert (found.rank, found.site, found.step) == (*culprit, step)
