"""Tests of transfers between tensor-parallel stages: each rank sends its slice, or the whole tensor.

A tensor is sliced if its number of elements can be divided by the number of ranks. Every rank computes the whole model,
so all ranks must have the oracle's tokens in either case.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Buffer, Event, Rank
from dpsim.contract.ops import COMMUNICATOR, COUNT, DECISION_VALUE, KIND, OP, SITE, STEP
from dpsim.contract.program import Program
from dpsim.contract.world import World
from dpsim.runner import run_scenario
from dpsim.scenario import load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.testing import holds as holds_in_every_schedule
from dpsim.vllm.config import Topology
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline.transfer import Received, Transfer
from dpsim.vllm.programs.pp_tokens import PipelineTokens
from tests.properties import breaks, examples, holds
from tests.vllm.pipeline.test_tokens import every_request_has_its_tokens
from tests.vllm.pipeline.token_worlds import EXTREMES, Drawing, Drawn, Played, drawn_worlds, world_of
from tests.vllm.released import TRANSFERS

SEVERAL = drawn_worlds(stages=(2, 2, 2, 3), most=2, tensor_parallel_size=2)


@pytest.mark.runs_once
@pytest.mark.parametrize("form", TRANSFERS)
def test_proven_where_everything_is_explored(form: str) -> None:
    """DPOR proves a world with a sliced step (two tokens) and a step that is not sliced (one token)."""
    config = {"max_num_seqs": 1, "max_num_batched_tokens": 4}
    drawn = Drawn(2, [Request(0, 2, 2)], config, form, tensor_parallel_size=2)
    subject = Subject(world_of(drawn.topology), PipelineTokens(), drawn.prepared())
    told = holds_in_every_schedule(subject, strategy="dpor", schedules=1000)
    assert (told.verdict, told.exploration.runs) == ("proven", 1)
    counts = [record[COUNT] for record in drawn.play().records(0, "transfer") if record[COMMUNICATOR] == "pp.0"]
    assert counts == [1, 1, 1, 1], "slices of two elements, then tensors of one"


def test_worlds_that_are_drawn_have_something_in_them() -> None:
    seen: Counter[str] = Counter()

    def count(drawn: Drawn) -> None:
        numbers = [number for number in tokens_of_steps(drawn).values() if number]
        seen["slices of one element"] += 2 in numbers
        seen["slices of several"] += any(number % 2 == 0 and number > 2 for number in numbers)
        seen["one token"] += 1 in numbers
        seen["an odd number"] += any(number % 2 and number > 1 for number in numbers)
        seen["both"] += len({number % 2 for number in numbers}) > 1
        seen["stages that receive and send"] += drawn.stages > 2

    holds(count, SEVERAL)
    assert len(seen) == 6
    assert min(seen.values()) >= 10, seen


def tokens_of_steps(drawn: Drawn) -> dict[int, int]:
    """Returns the tokens of each step, by the number of the engine's call."""
    calls = drawn.prepared().histories[0].calls
    return {at: call.batch.num_tokens if call.batch else 0 for at, call in enumerate(calls)}


def of_stage(drawn: Drawn, stage: int) -> list[int]:
    """Returns the ranks of a stage."""
    return [drawn.topology.rank(0, stage, position) for position in range(drawn.tensor_parallel_size)]


# ---- invariants, and twins


def all_holds(drawn: Drawn, eager: bool) -> None:
    """In an extreme run (all sends eager, or none), every rank has the oracle's tokens, and each invariant holds."""
    played = drawn.play(eager)
    nothing_found(drawn, played)
    for rank in of_stage(drawn, drawn.stages - 1):
        every_request_has_its_tokens(drawn, played.decided("sampled", rank))
    same_gathers(drawn, played)
    sliced_on_both_sides(drawn, played)


def same_gathers(drawn: Drawn, played: Played) -> None:
    """The ranks of a stage gather the same tensors in the same order, each sliced tensor once (invariant I-PS-5)."""
    sliced = [at for at, number in tokens_of_steps(drawn).items() if number and number % 2 == 0]
    for stage in range(drawn.stages):
        wanted = [(at, f"{name}.gather") for at in sliced if stage for name in ("hidden", "residual")]
        for rank in of_stage(drawn, stage):
            gathers = [(one[STEP], one[SITE]) for one in played.records(rank, "collective") if one[OP] == "all_gather"]
            assert gathers == wanted, "I-PS-5: number and order of all-gathers"


def sliced_on_both_sides(drawn: Drawn, played: Played) -> None:
    """Both sides transfer the same part of a tensor: a slice if its elements can be divided (invariant I-PS-10)."""
    numbers = tokens_of_steps(drawn)
    for rank in range(drawn.topology.world_size):
        for record in played.records(rank, "transfer"):
            number, moved = numbers[record[STEP]], record[COUNT]
            assert moved == (number // 2 if number % 2 == 0 else number) or record[COMMUNICATOR].startswith("pp_cpu"), (
                f"I-PS-10: {moved} of {number} elements"
            )


def nothing_found(drawn: Drawn, played: Played) -> None:
    """No check has a finding. The check of races covers invariants I-PS-3 and I-PS-4."""
    assert played.classes == [], ", ".join(played.classes)


class GathersInAnotherOrder(Transfer):
    """All ranks of a stage but the first gather their tensors in reverse order."""

    def gathered(self, received: Received) -> list[str]:
        names = super().gathered(received)
        return names[::-1] if self.tp_index else names


class SlicesOneSideOnly(Transfer):
    """Every stage but the first treats all tensors as whole."""

    def parts(self, shape: tuple[int, ...]) -> int:
        return super().parts(shape) if self.before is None else 1


class SendsTheFirstSlice(Transfer):
    """All ranks send the first slice."""

    def own_slice(self, tensor: Buffer) -> Buffer:
        return tensor.view(0, tensor.shape[0] // self.parts(tensor.shape))


class GathersAtOnce(Transfer):
    """A rank gathers before it has received its slice."""

    def wait_received(self, ready: Event) -> None:
        pass


@examples(12, 50, 400)
def test_the_invariants_of_tensor_parallel_pipelines_hold(examples: int) -> None:
    holds(lambda drawn: all_holds(*drawn), st.tuples(SEVERAL, st.sampled_from(EXTREMES)), examples)


@pytest.mark.parametrize(
    ("property_", "twin", "says"),
    [
        (same_gathers, GathersInAnotherOrder, "I-PS-5"),
        pytest.param(sliced_on_both_sides, SlicesOneSideOnly, "I-PS-10", marks=pytest.mark.slow),
        (nothing_found, GathersAtOnce, "RACE:BUFFER"),
        (nothing_found, SendsTheFirstSlice, "CRASH:WRONG"),
        (nothing_found, GathersInAnotherOrder, "CRASH:WRONG"),
        (nothing_found, SlicesOneSideOnly, "MISMATCH:TRANSFER:COUNT"),
    ],
)
def test_a_twin_breaks_it(property_: Any, twin: type[Transfer], says: str) -> None:
    breaks(lambda drawn: property_(drawn, drawn.play(transfer=twin)), SEVERAL, says)


def test_the_scenario_pp2_tp2_sliced_holds_and_slices_some_steps() -> None:
    """In the scenario `pp2_tp2_sliced`, some steps are sliced and some are not, and some rows need no token."""
    result = run_scenario(load_scenario(scenario_path("pp2_tp2_sliced")))
    assert (result.verdict, result.met) == ("held", True)
    came = Counter(record[SITE] for record in result.run.journals[2] if record[KIND] in ("transfer", "collective"))
    assert 5 <= came["hidden.gather"] <= came["hidden.receive"] - 5
    for rank in result.world.communicators[0].ranks:
        probes = {record[SITE] for record in result.run.journals[rank] if record[KIND] == "probe"}
        assert probes == {"pp.some_excluded", "pp.all_excluded"}


# ---- transfers without a model: tensors of any shape


class Sent(NamedTuple):
    """The transfer class, and the shapes of the tensors that it sends in each of two steps."""

    transfer: type[Transfer]
    shapes: dict[str, tuple[int, ...]]


def count_up(tensor: Any, start: int) -> None:
    """Kernel: writes different numbers into all elements."""
    tensor[...] = np.arange(start, start + tensor.size).reshape(tensor.shape)


class SendsTensors(Program[Sent]):
    """A program in which the first stage sends tensors, and the last stage records what it receives."""

    async def run(self, rank: Rank, prepared: Sent) -> None:
        transfer, main = prepared.transfer(rank, rank.device("tp").size), rank.stream("main")
        tensors = {name: main.alloc(shape, "int64", name) for name, shape in prepared.shapes.items()}
        for step in range(2):
            rank.step = step
            await transfer.begin()
            if transfer.before is None:
                for name, tensor in tensors.items():
                    if math.prod(tensor.shape):
                        main.launch(f"{name}.make", count_up, writes=[tensor], args=(100 * step,))
                await transfer.send(tensors)
            else:
                for name, tensor in transfer.first_access(await transfer.receive()).items():
                    came: Iterable[Any] = (
                        (await tensor.read(f"{name}.read")).reshape(-1) if math.prod(tensor.shape) else []
                    )
                    rank.decide(name, (tensor.shape, tuple(map(int, came))), "tp")
                    tensor.free()
        await transfer.begin()


def alone(size: int) -> World:
    """Returns a world of two stages with `size` ranks each."""
    return world_of(Topology(pipeline_parallel_size=2, tensor_parallel_size=size))


def sent_is_received(drawn: tuple[int, Sent]) -> None:
    """The last stage receives exactly the tensors that the first stage sends, and gathers only sliced ones."""
    size, sent = drawn
    for eager in EXTREMES:
        strategy = Drawing(eager)
        strategy.begin()
        run, findings = Subject(alone(size), SendsTensors(), sent).run(strategy)
        assert findings == [], findings[0].message
        for rank in range(size, 2 * size):
            came = [record[DECISION_VALUE] for record in run.journals[rank] if record[KIND] == "decision"]
            assert came == [
                (shape, tuple(range(100 * step, 100 * step + math.prod(shape))))
                for step in range(2)
                for shape in sent.shapes.values()
            ]
            moved = {record[SITE] for record in run.journals[rank] if record[KIND] in ("transfer", "collective")}
            assert {f"{name}.receive" in moved for name, shape in sent.shapes.items() if not math.prod(shape)} <= {
                False
            }
            assert {f"{name}.gather" for name, shape in sent.shapes.items() if math.prod(shape) % size} & moved == set()


SHAPES = st.sampled_from([(0,), (1,), (2,), (3,), (6,), (7,), (0, 3), (3, 0), (6, 2), (5, 1)])


def test_tensors_of_any_shape_and_none_without_elements() -> None:
    shapes = st.lists(SHAPES, min_size=1, max_size=4).map(
        lambda shapes: {f"t{at}": shape for at, shape in enumerate(shapes)}
    )
    transfers = st.sampled_from(list(TRANSFERS.values()))
    holds(sent_is_received, st.tuples(st.sampled_from([2, 3]), st.builds(Sent, transfers, shapes)), examples=40)


def test_a_slice_that_is_not_of_whole_rows_is_refused() -> None:
    """A slice that does not consist of whole rows raises: six elements can be divided by two, but three rows cannot.

    In this model, a buffer has only one shape.
    """
    strategy = Drawing(True)
    strategy.begin()
    _, findings = Subject(alone(2), SendsTensors(), Sent(Transfer, {"odd": (3, 2)})).run(strategy)
    assert findings[0].klass == "CRASH:VALUEERROR"
