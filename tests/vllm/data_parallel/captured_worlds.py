"""Small worlds in which data-parallel ranks capture CUDA graphs before they serve requests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, STEP
from dpsim.vllm.data_parallel.captured import CapturedForward
from tests.vllm.data_parallel.batch_worlds import Drawn, Played, configs, request_lists

SIZES = [1, 2, 4], [2, 8], [4], [1, 16]
SPECIALISED = {"enable_lora": True, "cudagraph_specialize_lora": True}


@st.composite
def captured_worlds(draw: st.DrawFn, more: bool = False) -> Drawn:
    """Draws worlds of two or three ranks with a few requests: some have to run eagerly, and some have adapters.

    No world has graphs specialised for adapters, because then ranks may replay graphs of different captures. With
    `more`, a world may also have a single rank, prefixes, encoder inputs and sequence parallelism.
    """
    config = draw(configs())
    q = config["num_speculative_tokens"] + 1
    loras = draw(st.sampled_from([False, False, True]))
    config |= {
        "cudagraph_capture_sizes": [q * size for size in draw(st.sampled_from(SIZES))],
        "max_num_seqs": draw(st.sampled_from([2, 4, 6])),
        "enable_dbo": False,
        "enable_lora": loras,
        "cudagraph_specialize_lora": False,
        "capture_graphs": True,
    }
    if more:
        config |= {"block_size": 4} | draw(st.sampled_from([{}, {"enable_sp": True, "parts": 2}]))
    requests = draw(request_lists(force_eager=True, loras=loras, prefixes=more))
    return Drawn(draw(st.sampled_from([2, 2, 3, 1] if more else [2, 2, 3])), requests, config)


def captured(drawn: Drawn, **wrong: Any) -> Played:
    """Runs a drawn world whose ranks capture graphs. `wrong` replaces arguments of `play`."""
    return drawn.play(**{"captured": CapturedForward, **wrong})


def records(played: Played, rank: int, kind: str, steps: bool | None = None) -> list[Any]:
    """Returns a rank's records of a kind: those of steps (True), of the capture session (False), or all (None)."""
    found = [raw for raw in played.run.journals[rank] if raw[KIND] == kind]
    return [raw for raw in found if steps is None or (raw[STEP] >= 0) is steps]


def served(played: Played, rank: int) -> list[tuple[Any, ...]]:
    """Returns the plans, modes and expert sums that a rank recorded in its steps."""
    labels, found = ("plan", "mode", "experts"), records(played, rank, "decision", steps=True)
    return [(raw[STEP], raw[SITE], raw[DECISION_VALUE]) for raw in found if raw[SITE] in labels]
