"""Checks that an agreement fits one CUDA graph on all ranks, also in a run without captures.

If `config.capture_graphs` is not set, the stand-in for the model runs eagerly. So it accepts all counts and modes. A
step checks the agreement itself, and raises:

    UnequalCounts   the step has a graph or microbatches, and ranks keep different counts (invariant I-DP-4)
    OtherMode       all ranks sent one mode, and the agreement is another one (invariant I-DP-3)

During its captures, the engine asserts that the agreed mode is the one that all ranks sent (specification 5.6). A run
without a session checks this for each mode beforehand (`BatchFlow.rehearse`). If the ranks sent different modes, the
agreement may choose a smaller one.

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
    """The ranks agreed on a graph or on microbatches, but on different token counts."""


class OtherMode(AssertionError):
    """All ranks sent the same mode, but agreed on another one."""


def refuse_unequal_counts(counts: Sequence[int] | None, mode: RuntimeMode, microbatched: bool) -> None:
    """Raises UnequalCounts if the plan has a graph or microbatches, and the counts of the ranks differ."""
    if counts is None or not (mode or microbatched) or len(set(counts)) == 1:
        return
    how = "in microbatches" if microbatched else f"in a {mode.name} graph"
    raise UnequalCounts(f"the ranks agreed to run {how}, with {', '.join(map(str, counts))} tokens each (I-DP-4)")


def refuse_other_mode(sent: Sequence[int], agreed: RuntimeMode) -> None:
    """Raises OtherMode if all ranks sent one mode and the agreement is another one. `sent`: the mode of each rank."""
    if agreed not in sent and len(set(sent)) == 1:
        raise OtherMode(f"all ranks sent {RuntimeMode(sent[0]).name}, and the agreement is {agreed.name} (I-DP-3)")
