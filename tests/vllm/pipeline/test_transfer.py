"""Tests of the invariants of hidden states and of the batch queue (specification 7.6), each with a faulty twin.

Some tests read a history, that is, all calls of an engine, without a simulated machine. The file
test_tensor_parallel.py tests I-PS-5 and I-PS-10, and test_remote_calls.py tests I-PS-7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dpsim.contract.ops import COUNT, DTYPE, KIND, SITE, STEP, STREAM
from dpsim.runner import run_scenario
from dpsim.scenario import load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.vllm.museum.pipeline import AnotherOrder, LooksAtOnce, NeverWaitsForSends, NewestFirst, WaitsAtOnce
from dpsim.vllm.museum.steps import DeepQueue
from dpsim.vllm.pipeline.batches import Batch, StepResult
from dpsim.vllm.pipeline.history import History
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.stage import Stage
from dpsim.vllm.pipeline.transfer import Blocking, describe, parse
from tests.properties import breaks, examples, holds
from tests.vllm.pipeline.token_worlds import EXTREMES, Drawn, Played, drawn_worlds

SEVERAL = drawn_worlds(stages=(2, 2, 3), most=5)

# ---- what stages do


def transfers_match(drawn: Drawn, played: Played) -> None:
    """A stage sends exactly the transfers that the next stage receives, of the same tensors (invariant I-PS-1)."""
    for stage in range(drawn.stages - 1):
        sent = [moved(record) for record in played.records(stage, "transfer") if record[SITE].endswith(".send")]
        came = [moved(record) for record in played.records(stage + 1, "transfer") if record[SITE].endswith(".receive")]
        assert sent == came, "I-PS-1: one transfer of each on both sides, in the same order"


def moved(record: Any) -> tuple[Any, ...]:
    """Returns the step, tensor, size and type of a transfer."""
    return record[STEP], record[SITE].partition(".")[0], record[COUNT], record[DTYPE]


def nothing_found(drawn: Drawn, played: Played) -> None:
    """No check has a finding. The check of races covers invariants I-PS-3, I-PS-4 and I-PS-13."""
    assert played.findings == [], "; ".join(f"{found.klass} {found.message}" for found in played.findings)


def results_in_order(drawn: Drawn, played: Played) -> None:
    """Results arrive in the order of the batches (invariant I-PS-6)."""
    assert played.classes == [], f"I-PS-6: {played.findings[0].message}"
    for rank in range(drawn.stages):
        steps = [value[0] for value in played.decided("inputs", rank)]
        assert steps == sorted(steps), "I-PS-6: results come in the order of the batches"


def same_order_everywhere(drawn: Drawn, played: Played) -> None:
    """All stages process the same batches in the same order (invariant I-PS-2)."""
    batches = [[value[0] for value in played.decided("inputs", rank)] for rank in range(drawn.stages)]
    assert all(one == batches[0] for one in batches), "I-PS-2: the same batches in the same order on all stages"


def empty_steps_send_nothing(drawn: Drawn, played: Played) -> None:
    """A step without tokens has no transfer (invariant I-PS-9)."""
    assert played.classes == [], f"I-PS-9: {played.findings[0].message}"
    empty = {
        at for at, call in enumerate(played.prepared.histories[0].calls) if call.batch is None or not call.batch.rows
    }
    for rank in range(drawn.stages):
        assert not [record for record in played.records(rank, "transfer") if record[STEP] in empty], "I-PS-9"


class NewestFirstOnOne(Stage):
    """The first stage reports its newest result first; the other stages report their oldest."""

    def next_result(self) -> StepResult | None:
        return self.results.pop() if self.is_first else super().next_result()

    async def take(self, result: StepResult) -> None:
        self.taken = result.batch.number
        await super().take(result)


class ReceivesAlways(Stage):
    """A stage receives hidden states also in a step without tokens."""

    def transfers(self, batch: Batch) -> bool:
        return True


# ---- properties of histories


def queue_is_no_deeper(drawn: Drawn, history: History) -> None:
    """The batch queue is never too deep (I-PS-2), and the engine takes a result only when it has to (I-PS-11)."""
    depth, queued = drawn.stages + int(drawn.config["async_scheduling"]), 0
    for call in history.calls:
        queued += call.batch is not None
        assert queued <= depth, f"I-PS-11: {queued} batches in a queue of {depth}"
        over = call.batch is None or (not call.batch.rows and last_of(history, call))
        assert not call.takes or queued == depth or over or call.deferred, (
            "I-PS-11: takes only if it is full or nothing is left"
        )
        queued -= call.takes
    assert queued == 0, "I-PS-11: the queue is empty at the end"


def last_of(history: History, call: Any) -> bool:
    """Returns whether the scheduler has no requests after a call: the next call schedules nothing, or a new request."""
    after = history.calls[history.calls.index(call) + 1 :]
    following = next((one.batch for one in after), None)
    return following is None or bool(following.admitted)


def one_step_in_flight(drawn: Drawn, history: History) -> None:
    """Without async scheduling, the engine schedules a decode only after it knows the last token (I-PS-8)."""
    if drawn.config["async_scheduling"]:
        return
    queue: list[set[int]] = []
    for call in history.calls:
        if call.batch is not None:
            runs = {row.request for row in call.batch.rows if row.samples}
            again = {row.request for row in call.batch.rows if not row.prefilling}
            assert not again & set().union(*queue, set()), "I-PS-8: a step whose token is not known yet"
            queue.append(runs)
        if call.takes:
            queue.pop(0)


def late_results_change_nothing(drawn: Drawn, history: History) -> None:
    """Each admitted request ends once, and no request runs without an admission (invariant I-PS-12)."""
    held: Counter[int] = Counter()
    for call in history.calls:
        if call.batch is not None:
            for request in call.batch.freed:
                held[request] -= 1
            for one in call.batch.admitted:
                held[one.request] += 1
            assert all(0 <= times <= 1 for times in held.values()), "I-PS-12: freed twice"
            assert all(held[row.request] == 1 for row in call.batch.rows), "I-PS-12: runs without a slot"
    assert not any(held.values()), "every slot was given back"


class RunsAhead(PipelineScheduler):
    """The scheduler runs a request again before its token is known."""

    def _may_run(self, state: Any, number: int) -> bool:
        tokens = state.num_output_tokens + state.in_flight
        return bool(number >= state.number + self.stages - 1 and tokens < state.max_tokens)


class EndsAgain(PipelineScheduler):
    """A late result ends a request that has already ended."""

    def update_from_output(self, results: Sequence[Any]) -> None:
        super().update_from_output(results)
        self.finished += [one.state.number for one in results if one.sampled and one.state not in self.running]


RUNS: list[tuple[str, Callable[[Drawn, Played], None], dict[str, Any], str]] = [
    ("I-PS-1", transfers_match, {"transfer": AnotherOrder}, "I-PS-1"),
    ("I-PS-2", same_order_everywhere, {"stage": NewestFirstOnOne}, "I-PS-2"),
    ("I-PS-3", nothing_found, {"transfer": NeverWaitsForSends}, "RACE:BUFFER"),
    ("I-PS-4", nothing_found, {"transfer": LooksAtOnce}, "RACE:BUFFER"),
    ("I-PS-6", results_in_order, {"stage": NewestFirst}, "I-PS-6.* is reported as that of batch"),
    ("I-PS-9", empty_steps_send_nothing, {"stage": ReceivesAlways}, "I-PS-9"),
    ("I-PS-13", nothing_found, {"scheduler": DeepQueue}, "RACE:BUFFER.*staging"),
]

HISTORIES: list[tuple[str, Callable[[Drawn, History], None], dict[str, Any], str]] = [
    ("I-PS-2 depth", queue_is_no_deeper, {"scheduler": DeepQueue}, "I-PS-11"),
    ("I-PS-8", one_step_in_flight, {"scheduler": RunsAhead}, "I-PS-8"),
    ("I-PS-11", queue_is_no_deeper, {"scheduler": WaitsAtOnce}, "I-PS-11"),
    ("I-PS-12", late_results_change_nothing, {"scheduler": EndsAgain}, "I-PS-12"),
]


@examples(4, 40, 400)
def test_the_invariants_of_transfers_hold_in_both_extreme_runs(examples: int) -> None:
    """All properties hold in both extreme runs: with only eager sends, and with none."""
    of_runs = list(dict.fromkeys(property_ for _, property_, _, _ in RUNS))
    of_histories = list(dict.fromkeys(property_ for _, property_, _, _ in HISTORIES))

    def all_hold(drawn: Drawn) -> None:
        for property_ in of_histories:
            property_(drawn, drawn.prepared().histories[0])
        for played in (drawn.play(eager) for eager in EXTREMES):
            for look in of_runs:
                look(drawn, played)

    holds(all_hold, SEVERAL, examples)


@pytest.mark.parametrize(("property_", "twin", "says"), [one[1:] for one in RUNS], ids=[one[0] for one in RUNS])
def test_a_twin_breaks_it(property_: Callable[[Drawn, Played], None], twin: dict[str, Any], says: str) -> None:
    def in_both(drawn: Drawn) -> None:
        for eager in EXTREMES:
            property_(drawn, drawn.play(eager, **twin))

    breaks(in_both, SEVERAL, says)


@pytest.mark.parametrize(
    ("property_", "twin", "says"), [one[1:] for one in HISTORIES], ids=[one[0] for one in HISTORIES]
)
def test_a_twin_of_the_scheduler_breaks_it(
    property_: Callable[[Drawn, History], None], twin: dict[str, Any], says: str
) -> None:
    breaks(lambda drawn: property_(drawn, drawn.prepared(**twin).histories[0]), SEVERAL, says)


def test_blocking_transfers_need_no_other_stream() -> None:
    """The transfers of release 0.14 use only the main stream."""

    def one_stream(drawn: Drawn) -> None:
        played = drawn.play(transfer=Blocking)
        streams = {record[STREAM] for rank in range(drawn.stages) for record in played.records(rank, "transfer")}
        assert streams <= {"main", None}

    holds(one_stream, SEVERAL, examples=20)


def test_a_description_of_tensors_is_read_as_it_was_written() -> None:
    class Shaped:
        def __init__(self, *shape: int) -> None:
            self.shape, self.dtype = shape, "int64"

    tensors: Any = {"hidden": Shaped(3, 8), "residual": Shaped(5)}
    assert parse(describe(tensors)) == [("hidden", "int64", (3, 8)), ("residual", "int64", (5,))]


@pytest.mark.parametrize("name", ["pp2_free_in_flight", "pp4_free_in_flight"])
def test_scenarios_free_in_flight(name: str) -> None:
    """The scenarios exclude some rows of one entry of the token queue, and all rows of another one."""
    result = run_scenario(load_scenario(scenario_path(name)))
    assert (result.verdict, result.met) == ("held", True)
    for rank in range(result.world.size - 1):
        probes = {record[SITE] for record in result.run.journals[rank] if record[KIND] == "probe"}
        assert probes == {"pp.some_excluded", "pp.all_excluded"}
