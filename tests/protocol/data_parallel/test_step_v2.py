"""Steps of the V2 runner on the simulated machine: ranks come to one plan, and tokens come out.

The agreement itself is held to the engine's answers in `test_batch_v2.py`; here it goes over the wire, with dummies.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.interface import HostArray
from dpsim.protocol.data_parallel.batch_v2 import AgreementV2, LocalV2
from dpsim.protocol.data_parallel.flow import Flow033
from dpsim.protocol.data_parallel.step_v2 import DataParallelStepV2
from tests.properties import breaks, examples, holds
from tests.protocol.data_parallel.batch_worlds import Drawn, Played, decodes, drawn_worlds, line_up, play, prefill


def played(drawn: Drawn, step: type[DataParallelStepV2] = DataParallelStepV2) -> Played:
    return drawn.play(step=step, flow=Flow033)


def nothing_found(drawn: Drawn, step: type[DataParallelStepV2] = DataParallelStepV2) -> None:
    done = played(drawn, step)
    assert done.classes == [], f"found: {done.classes}"


class OwnUniform(DataParallelStepV2):
    """The threshold of decodes is taken by the own batch alone (M-UB-12)."""

    class agreement(AgreementV2):  # noqa: N801
        def decodes(self, uniform: int | None, local: LocalV2) -> bool:
            return local.uniform_token_count == self.graphs.q


@examples(15, 500)
def test_nothing_is_found(examples: int) -> None:
    holds(nothing_found, drawn_worlds(force_eager=True), examples)


class ByRows(DataParallelStepV2):
    """Tokens and modes of the table are taken for one another."""

    async def gather(self, column: tuple[int, ...]) -> HostArray:
        table = await super().gather(column)
        return table[[1, 0, *range(2, len(column))]]


@pytest.mark.parametrize("wrong", [OwnUniform, ByRows])
def test_a_mistake_is_found(wrong: type[DataParallelStepV2]) -> None:
    breaks(lambda drawn: nothing_found(drawn, wrong), drawn_worlds(), "found", examples=500)


def plans(*of_ranks: Any, **config: Any) -> list[Any]:
    done = play(line_up(*of_ranks), step=DataParallelStepV2, flow=Flow033, **config)
    assert done.classes == []
    assert done.decided("plan", 0) == done.decided("plan", 1)
    return done.decided("plan", 0)


def test_examples_over_the_wire() -> None:
    """A-16 to A-18, with a dummy, and unpadded where the mode is NONE."""
    sizes = {"cudagraph_capture_sizes": (1, 2, 4, 8, 16), "max_num_seqs": 8}
    assert plans(decodes(3), [], **sizes) == [(False, (4, 4), 2)]
    assert plans(decodes(3), prefill(11), **sizes) == [(False, (16, 16), 1)]
    assert plans(decodes(3), prefill(100), **sizes) == [(False, (3, 100), 0)]


def test_a_last_microbatch_without_a_token_is_run() -> None:
    """A-19: (64, 128) keeps its FULL graph, and the smaller rank's second half is padding."""
    config = {"enable_dbo": True, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": (64, 128)}
    assert plans(decodes(64), decodes(128), **config) == [(True, (128, 128), 2)]
    assert plans(decodes(63), decodes(128), **config) == [(True, (128, 128), 0)]
