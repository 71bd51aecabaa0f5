"""Tests random sequences of collectives with uneven sizes on four sides: formulas, the timed machine, the machine
without time, and gloo.

The formulas follow the text of the contract, in numpy, with whole tables of the members' inputs. They share no code
with the simulation or with `dpsim.contract.collectives`.

    size, calls = plan(seed)            # some collectives, on hosts and on devices, of two or three ranks
    wanted(seed)                        # for each rank, the results of all calls
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpsim.checks.judge import judge
from dpsim.contract.collectives import COLLECTIVES
from dpsim.contract.interface import HostArray, Rank
from dpsim.contract.ops import DECISION_VALUE, KIND
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from dpsim.contract.world import Run, World
from dpsim.sim.backend import SimBackend
from dpsim.sim.collectives import joint, parts
from dpsim.sim.collectives.results import Results
from tests.programs import set_to
from tests.properties import examples
from tests.sim.programs import MODES, usual_world

IN_PLACE = ("all_reduce", "broadcast", "reduce")
OPS = (*IN_PLACE, "reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "gather", "scatter")
FOLD: dict[str, Any] = {
    **{"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod},
    **{"band": np.bitwise_and.reduce, "bor": np.bitwise_or.reduce, "bxor": np.bitwise_xor.reduce},
}


class Call(NamedTuple):
    """A collective. `elements`: the size of a call in place. `rows`: for the other calls, row i has the sizes that
    member i passes.
    """

    on_host: bool
    op: str
    elements: int
    root: int
    fold: Any
    rows: list[list[int]]


def call(rng: random.Random, size: int) -> Call:
    on_host, op = rng.random() < 0.5, rng.choice(OPS)
    if op == "barrier":
        on_host = True
    rows = [[rng.choice((0, 0, 1, 2, 3)) for _ in range(size)] for _ in range(size)]
    return Call(on_host, op, rng.choice((0, 1, 4)), rng.randrange(size), rng.choice([*FOLD]), rows)


def brings(one: Call, number: int, rank: int) -> HostArray:
    counts = {"all_gather": one.rows[0][rank], "reduce_scatter": sum(one.rows[0]), "all_to_all": sum(one.rows[rank])}
    count = 0 if one.op == "barrier" else counts.get(one.op, one.elements)
    if one.op == "scatter":  # the root has this number for each member
        count *= len(one.rows)
    return np.array([(7 * number + 31 * rank + 5 * place * (rank + 1)) % 97 for place in range(count)], np.int32)


def gives(one: Call, number: int, size: int, rank: int) -> HostArray:
    """Returns the result of a call for a rank, by the text of the contract."""
    lines = [brings(one, number, member) for member in range(size)]
    if one.op == "broadcast":
        return lines[one.root]
    if one.op == "all_reduce" or (one.op == "reduce" and rank == one.root):
        return np.array(FOLD[one.fold](lines, axis=0), np.int32)
    if one.op == "reduce":
        return lines[rank]
    if one.op == "scatter":
        return np.split(lines[one.root], size)[rank]
    if one.op == "gather" and rank != one.root:
        return lines[rank][:0]
    if one.op == "reduce_scatter":
        bounds = np.cumsum([0, *one.rows[0]])
        return np.array(FOLD[one.fold](lines, axis=0)[bounds[rank] : bounds[rank + 1]], np.int32)
    if one.op == "all_to_all":
        cuts = [np.split(line, np.cumsum(row)[:-1]) for line, row in zip(lines, one.rows, strict=True)]
        return np.concatenate([pieces[rank] for pieces in cuts])
    return np.concatenate(lines)  # for all_gather and gather; for a barrier nothing


def plan(seed: int) -> tuple[int, list[Call]]:
    rng = random.Random(seed)
    size = rng.choice((2, 3, 3))
    return size, [call(rng, size) for _ in range(rng.randint(3, 8))]


@register_protocol("random_collectives")
class RandomCollectives(Program[int]):
    """Makes the calls of a seed in order. Each rank decides the result of each call."""

    def prepare(self, args: Any) -> int:
        return int(args["seed"])

    async def run(self, rank: Rank, prepared: int) -> None:
        _, calls = plan(prepared)
        for rank.step, one in enumerate(calls):
            mine = brings(one, rank.step, rank.rank)
            got = await (self.host(rank, one, mine) if one.on_host else self.device(rank, one, mine))
            rank.decide(f"got.{rank.rank}", tuple(got.tolist()), "own")

    def more(self, rank: Rank, one: Call) -> dict[str, Any]:
        if one.op == "all_to_all":
            column = [row[rank.rank] for row in one.rows]
            return {"source_sizes": one.rows[rank.rank], "output_sizes": column}
        if one.op in ("all_gather", "reduce_scatter"):
            return {"sizes": one.rows[0]} | ({"op": one.fold} if one.op == "reduce_scatter" else {})
        root = {} if one.op in ("all_reduce", "barrier") else {"root": one.root}
        return root | ({"op": one.fold} if one.op in ("all_reduce", "reduce") else {})

    async def host(self, rank: Rank, one: Call, mine: HostArray) -> HostArray:
        group = rank.host("h")
        if one.op == "barrier":
            return await group.barrier()
        got: HostArray = await getattr(group, one.op)(mine, **self.more(rank, one))
        return got

    async def device(self, rank: Rank, one: Call, mine: HostArray) -> HostArray:
        main, group = rank.stream("main"), rank.device("d")
        source = main.alloc(mine.size, "int32", "source")
        for place, value in enumerate(mine.tolist()):
            main.launch("fill", set_to, writes=[source.view(place, place + 1)], args=(value,))
        if one.op in IN_PLACE:
            getattr(group, one.op)(source, stream=main, **self.more(rank, one))
            return await source.read("read")
        output = main.alloc(gives(one, rank.step, group.size, rank.rank).size, "int32", "output")
        getattr(group, one.op)(output, source, stream=main, **self.more(rank, one))
        return await output.read("read")


def world(seed: int) -> World:
    return usual_world(plan(seed)[0], groups=("d",))


def got(run: Run) -> list[list[Any]]:
    return [[raw[DECISION_VALUE] for raw in journal if raw[KIND] == "decision"] for journal in run.journals]


def wanted(seed: int) -> list[list[Any]]:
    size, calls = plan(seed)
    return [
        [tuple(gives(one, number, size, rank).tolist()) for number, one in enumerate(calls)] for rank in range(size)
    ]


def differs(seed: int) -> str:
    """Returns the first mode in which a rank received a wrong result or a check reported a finding, or ""."""
    for mode, choose in MODES.items():
        run = SimBackend(choose=choose).run(world(seed), "random_collectives", {"seed": seed})
        if got(run) != wanted(seed) or judge(world(seed), run):
            return mode
    return ""


@examples(20, 250, 1_000)
def test_both_machines_compute_the_results_of_the_formulas(examples: int) -> None:
    assert {seed: mode for seed in range(examples) if (mode := differs(seed))} == {}


def test_every_collective_is_drawn_on_both_sides() -> None:
    drawn = {(one.on_host, one.op) for seed in range(60) for one in plan(seed)[1]}
    assert drawn == {(side, op) for side in (True, False) for op in COLLECTIVES} - {(False, "barrier")}


class Wrong(Results):
    """A faulty machine, which reverses the results of its collectives. The comparison has to find it."""

    def of(self, rank: int) -> HostArray | None:
        result = super().of(rank)
        return None if result is None else result[::-1]

    def all(self) -> list[HostArray | None]:
        return [self.of(rank) for rank in self.brought]


@pytest.mark.parametrize(("machine", "mode"), [(joint, "timed"), (parts, "first")])
def test_a_mistake_in_either_machine_is_found(machine: Any, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "Results", Wrong)
    assert mode in {differs(seed) for seed in range(10)}


def rounds(backend: Any, seeds: range) -> None:
    for seed in seeds:
        if plan(seed)[0] == 2:  # the number of gloo processes
            run = backend.run(world(seed), "random_collectives", {"seed": seed})
            assert got(run) == wanted(seed), f"seed {seed}: {run.observed}"


@pytest.mark.xdist_group("gloo")
@pytest.mark.slow
def test_gloo_computes_the_results_of_the_formulas(dpsim_backend: Any) -> None:
    pytest.importorskip("torch")
    rounds(dpsim_backend("gloo", size=2), range(20))


@pytest.mark.slow
@pytest.mark.xdist_group("gloo")
def test_gloo_computes_the_results_of_many_formulas(dpsim_backend: Any) -> None:
    pytest.importorskip("torch")
    rounds(dpsim_backend("gloo", size=2), range(20, 300))


@pytest.mark.gpu(2)
@pytest.mark.xdist_group("gpu")
def test_nccl_computes_the_results_of_the_formulas(dpsim_backend: Any) -> None:
    rounds(dpsim_backend("nccl", size=2), range(100))
