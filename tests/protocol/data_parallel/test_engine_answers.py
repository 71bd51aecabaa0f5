"""What the engine's own code answered, of the agreement and of the V1 runner around it, row by row, in three releases.

`decide` asks the agreement alone, `flow` the whole way from the batch to the agreed graph (tests/data/engine/README.md
says more). No row is left out. Each comparison finds answers that are wrong in one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dpsim.config import EngineConfig, Microbatching, RuntimeMode
from dpsim.interface import HostArray
from dpsim.protocol.data_parallel.batch import BatchForm, LocalBatch, Release014, Source000, StepPlan, told
from dpsim.protocol.data_parallel.flow import RELEASES, BatchFlow, Flow014, Flow017, Flow033
from dpsim.protocol.data_parallel.timeline import Batch
from dpsim.protocol.graphs.dispatcher import ALL_MODES, Descriptor
from tests.engine import answers

RELEASED = {"0.14.0": "0.14", "0.17.0": "source-000", "0.33.0": "0.33"}

BEFORE, AFTER = "before the all-reduce", "after the all-reduce"

Row = dict[str, Any]
Columns = list[list[int] | None]


def refused(when: str) -> Row:
    return {"raises": "AssertionError", "when": when}


def as_told(answer: Any) -> Any:
    """An answer of the engine, without the head of a message."""
    return {key: value for key, value in answer.items() if key != "message"} if isinstance(answer, dict) else answer


# ---- decide: the agreement alone


def decided(row: Row, form: BatchForm) -> tuple[Columns, list[Any]]:
    """What each rank sends, and what it answers."""
    engine, ranks = Microbatching(**row["config"]), row["ranks"]
    if len(ranks) == 1:
        alone = {"ubatch": False, "num_tokens_across_dp": None, "cudagraph_mode": ranks[0]["cudagraph_mode"]}
        return [None], [alone]
    locals_ = [of_rank(rank, engine) for rank in ranks]
    return agreed(form, engine, locals_, lambda _, plan: plan_as_told(plan))


def of_rank(rank: Row, config: Microbatching) -> LocalBatch | None:
    """What a rank tells; None if it refuses to."""
    try:
        return told(
            rank["num_tokens_unpadded"],
            rank["num_tokens_padded"],
            rank["allow_microbatching"],
            rank["uniform_decode"],
            rank.get("allow_dp_padding", True),
            RuntimeMode(rank["cudagraph_mode"]),
            config,
        )
    except AssertionError:
        return None


def plan_as_told(plan: StepPlan) -> Row:
    assert plan.num_tokens is not None
    tokens = list(plan.num_tokens)
    return {"ubatch": plan.microbatched, "num_tokens_across_dp": tokens, "cudagraph_mode": int(plan.mode)}


def agreed(
    form: BatchForm,
    config: Microbatching,
    locals_: Sequence[LocalBatch | None],
    answer: Callable[[int, StepPlan], Any],
) -> tuple[Columns, list[Any]]:
    """One agreement of a group. Where one rank sends nothing, the others wait."""
    sent: Columns = [list(form.column(local)) if local is not None else None for local in locals_]
    if None in locals_:
        return sent, [refused(BEFORE) if local is None else "waits" for local in locals_]
    table: HostArray = np.array(sent, np.int32).T
    answered: list[Any] = []
    for index, local in enumerate(locals_):
        assert local is not None
        try:
            form.refuse(table, local)
            answered.append(answer(index, form.decide(table, config)))
        except AssertionError:
            answered.append(refused(AFTER))
    return sent, answered


def differing(file: str, version: str, ask: Callable[[Row], tuple[Columns, list[Any]]]) -> list[int]:
    """Which rows are answered otherwise."""
    wrong = []
    for number, row in enumerate(answers(file, version)):
        sent, answered = ask(row)
        if (sent, answered) != (row["sent"], [as_told(answer) for answer in row["answers"]]):
            wrong.append(number)
    return wrong


@pytest.mark.parametrize("version", RELEASED)
def test_decide(version: str) -> None:
    form = RELEASES[RELEASED[version]][0]()
    assert differing("decide", version, lambda row: decided(row, form)) == []


class AllRefuse(Release014):
    """Ranks that do not want padding raise as well."""

    def refuse(self, table: HostArray, local: LocalBatch) -> None:
        super().refuse(table, local._replace(wants_padding=bool(table[3].any())))


class NobodyRefuses(Release014):
    def refuse(self, table: HostArray, local: LocalBatch) -> None:
        return


@pytest.mark.parametrize(
    ("version", "wrong"), [("0.14.0", AllRefuse), ("0.14.0", NobodyRefuses), ("0.14.0", Source000)]
)
def test_decide_finds_what_is_wrong(version: str, wrong: type[BatchForm]) -> None:
    assert differing("decide", version, lambda row: decided(row, wrong()))


# ---- flow: from the batch to the agreed graph


def flowed(row: Row, form: type[BatchForm], flow: type[BatchFlow]) -> tuple[Columns, list[Any]]:
    """What each rank sends, and the descriptor to which it comes."""
    decides = flow(engine_config(row["config"]), form())
    batches = [batch_of(rank) for rank in row["ranks"]]
    firsts = [decides.first_dispatch(batch) for batch in batches]
    if len(batches) == 1:
        return [None], [descriptor_as_told(*firsts[0], StepPlan(False, None, firsts[0][0]))]
    locals_ = [decides.local_batch(batch, *first) for batch, first in zip(batches, firsts, strict=True)]

    def second(index: int, plan: StepPlan) -> Row:
        assert plan.num_tokens is not None
        count = plan.num_tokens[index]
        mode, descriptor = decides.second_dispatch(batches[index], count, plan)
        assert descriptor.num_tokens == count  # as the step does
        return descriptor_as_told(mode, descriptor, plan)

    return agreed(decides.form, decides.config, locals_, second)


def engine_config(config: Row) -> EngineConfig:
    return EngineConfig(
        cudagraph_mode=config["cudagraph_mode"],
        cudagraph_capture_sizes=config["capture_sizes"],
        num_speculative_tokens=config["query_len"] - 1,
        max_num_seqs=config["max_num_seqs"],
        enable_lora=config["lora"] != "off",
        cudagraph_specialize_lora=config["lora"] == "both",
        enable_dbo=config["enable_dbo"],
        dbo_decode_token_threshold=config["dbo_decode_token_threshold"],
        dbo_prefill_token_threshold=config["dbo_prefill_token_threshold"],
    )


def batch_of(rank: Row) -> Batch:
    """The pieces stand for requests, and only their number counts."""
    return Batch(
        ((0, 0, 0),) * rank["num_reqs"],
        rank["num_tokens"],
        rank["max_num_scheduled_tokens"],
        num_loras=rank["num_active_loras"],
        force_eager=rank["force_eager"],
        encoder_reqs=rank["num_encoder_reqs"],
        cascade_attention=rank["use_cascade_attn"],
        allow_microbatching=rank["allow_microbatching"],
        forced_uniform=bool(rank["force_uniform_decode"]),
    )


def descriptor_as_told(mode: RuntimeMode, descriptor: Descriptor, plan: StepPlan) -> Row:
    tokens = None if plan.num_tokens is None else list(plan.num_tokens)
    return {"mode": mode.name, **descriptor._asdict(), "ubatch": plan.microbatched, "num_tokens_across_dp": tokens}


@pytest.mark.parametrize("version", RELEASED)
def test_flow(version: str) -> None:
    release = RELEASES[RELEASED[version]]
    assert differing("flow", version, lambda row: flowed(row, *release)) == []


class NeverForced(Flow017):
    def uniform(self, batch: Batch) -> bool:
        return super().uniform(batch._replace(forced_uniform=False))


class FullForCascades(Flow017):
    def forbids_full(self, batch: Batch) -> bool:
        return batch.encoder_reqs > 0


class FullForEncoders(Flow033):
    def forbids_full(self, batch: Batch) -> bool:
        return False


class MaySplitAlways(Flow033):
    def may_split(self, batch: Batch) -> bool:
        return True


class ForgetsThatItIsEager(Flow014):
    """The second dispatch looks for a graph."""

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch._replace(force_eager=False), agreed, plan)


class ForbidsAgain(Flow017):
    """The second dispatch is not held to the agreed mode."""

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return self.dispatch(batch, agreed, ALL_MODES)


@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        ("0.17.0", NeverForced),
        ("0.17.0", FullForCascades),
        ("0.17.0", ForbidsAgain),
        ("0.17.0", Flow014),
        ("0.17.0", Flow033),
        ("0.14.0", ForgetsThatItIsEager),
        ("0.14.0", Flow017),
        ("0.33.0", FullForEncoders),
        ("0.33.0", MaySplitAlways),
        ("0.33.0", Flow017),
    ],
)
def test_flow_finds_what_is_wrong(version: str, wrong: type[BatchFlow]) -> None:
    form = RELEASES[RELEASED[version]][0]
    assert differing("flow", version, lambda row: flowed(row, form, wrong))


def test_the_rows_reach_what_they_are_for() -> None:
    """Not one case over and over: dummies of one token where a decode has more, batches that may not have FULL, splits,
    and, a few times, an assertion on some ranks of a group.
    """
    seen: Counter[str] = Counter()
    for row in answers("flow"):
        for rank, answer in zip(row["ranks"], row["answers"], strict=True):
            seen["one-token dummy"] += bool(rank["force_uniform_decode"]) and 1 == rank["num_tokens"] < query_len(row)
            seen["cascade"] += rank["use_cascade_attn"]
            seen["encoder"] += rank["num_encoder_reqs"] > 0
            seen["forced eager"] += rank["force_eager"]
            seen["may not split"] += not rank["allow_microbatching"]
            seen["split"] += answer.get("ubatch", False)
        seen["some raise"] += 0 < sum("raises" in answer for answer in row["answers"]) < len(row["ranks"])
    assert seen.pop("some raise") > 1
    assert min(seen.values()) > 100, seen


def query_len(row: Row) -> int:
    return int(row["config"]["query_len"])
