"""An agreement has to fit one graph on all ranks, also in a run that captures none (I-DP-3 and I-DP-4 of 1.10).

The stand-in for the model runs eagerly unless `config.capture_graphs` is set. It then runs with any counts and in any
mode, on which graphs would not pair. So a step checks the agreement itself, and raises:

    UnequalCounts   the step has a graph or microbatches, and ranks keep different counts (I-DP-4)
    OtherMode       all ranks sent one mode, and the agreement is another one (I-DP-3)

The engine asserts the second one when it captures (5.6): no session can capture a graph on which ranks never agree. A
run without a session asks the form for each mode instead (`BatchFlow.rehearse`). An agreement may choose a smaller mode
where the ranks sent different ones.

    >>> refuse_other_mode([1, 2], RuntimeMode.NONE)
    >>> refuse_other_mode([1, 1], RuntimeMode.NONE)
    Traceback (most recent call last):
        ...
    dpsim.vllm.data_parallel.one_graph.OtherMode: all ranks sent PIECEWISE, and the agreement is NONE (I-DP-3)
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.vllm.config import RuntimeMode


class UnequalCounts(AssertionError):
    """The ranks agreed on a graph or on microbatches, and on different counts."""


class OtherMode(AssertionError):
    """The ranks agreed on another mode than the one that all of them sent."""


def refuse_unequal_counts(counts: Sequence[int] | None, mode: RuntimeMode, microbatched: bool) -> None:
    """Raise UnequalCounts for a plan that pads ranks to different counts, where their collectives need equal sizes."""
    if counts is None or not (mode or microbatched) or len(set(counts)) == 1:
        return
    how = "in microbatches" if microbatched else f"in a {mode.name} graph"
    raise UnequalCounts(f"the ranks agreed to run {how}, with {', '.join(map(str, counts))} tokens each (I-DP-4)")


def refuse_other_mode(sent: Sequence[int], agreed: RuntimeMode) -> None:
    """Raise OtherMode if all ranks sent one mode and the agreement is another one. `sent`: the mode of each rank."""
    if agreed not in sent and len(set(sent)) == 1:
        raise OtherMode(f"all ranks sent {RuntimeMode(sent[0]).name}, and the agreement is {agreed.name} (I-DP-3)")
