"""Figures about the batches of a finished run, for its report: padding, graph modes, and moves of experts.

tokens scheduled 24, tokens run 32, padded-token overhead 33.3 %, steps by graph mode NONE 1, PIECEWISE 1, FULL 2
moves of experts  step 1: 0 to rank 1, 3 to rank 0; step 3: none
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, STEP, RawRecord
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.expert_balance import SLOTS, Placement
from dpsim.vllm.data_parallel.timeline import Timeline

MOVES_LISTED = 8


def tokens_and_modes(timeline: Timeline, journal: Sequence[RawRecord]) -> dict[str, Any]:
    """Compares the tokens that requests needed with those that ranks ran, and counts the steps of each graph mode.

    From the decisions of one rank, in steps with an agreement. Missing tokens of a rank do not reduce the padding of
    others.
    """
    modes: Counter[str] = Counter()
    real = run = dropped = microbatched = 0
    for raw in journal:
        if raw[KIND] != "decision" or raw[STEP] < 0:
            continue  # a run of a capture session has an agreement, too
        if raw[SITE] == "plan":
            _, num_tokens, _ = raw[DECISION_VALUE]
            if num_tokens is not None:
                scheduled = [batch.num_tokens for batch in timeline.batches(raw[STEP])]
                run += sum(num_tokens)
                real += sum(scheduled)
                dropped += sum([max(own - count, 0) for own, count in zip(scheduled, num_tokens, strict=True)])
        elif raw[SITE] == "mode":
            mode, split = raw[DECISION_VALUE]
            modes[mode] += 1
            microbatched += split
    tokens: dict[str, Any] = {}
    if real:  # a single rank needs no agreement, and decides no count
        tokens = {"tokens scheduled": real, "tokens run": run, **({"tokens dropped": dropped} if dropped else {})}
        tokens["padded-token overhead"] = f"{100 * (run - real + dropped) / real:.1f} %"
    return {
        **tokens,
        "steps by graph mode": {mode.name: modes[mode.name] for mode in RuntimeMode},
        "microbatched steps": microbatched,
    }


def moves_of_experts(journal: Sequence[RawRecord]) -> str:
    """Lists the step of each placement, and the experts that change ranks, which are numbered as in the group `eplb`.

    If experts move while steps run, also the last step before the new experts are in use.
    """
    lines: list[str] = []
    before: Placement = ()
    for raw in journal:
        if raw[KIND] != "decision":
            continue
        if raw[SITE] == "moved":
            lines[-1] += f" (used after step {raw[STEP]})"
        elif raw[SITE] == "placement":
            after: Placement = raw[DECISION_VALUE]
            moves = _moves(before or tuple(range(len(after))), after)
            lines.append(f"step {raw[STEP]}: {', '.join(moves) or 'none'}")
            before = after
    more = [f"and {len(lines) - MOVES_LISTED} times more"] if len(lines) > MOVES_LISTED else []
    return "; ".join([*lines[:MOVES_LISTED], *more]) or "none were due"


def _moves(before: Placement, after: Placement) -> list[str]:
    return [
        f"{expert} to rank {after.index(expert) // SLOTS}"
        for expert in sorted(after)
        if expert in before and before.index(expert) // SLOTS != after.index(expert) // SLOTS
    ]
