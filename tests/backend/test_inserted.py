"""Tests the fault kind `insert`: the rank makes a call that its program leaves out, and the call pairs up with those of
its peers. The faulty twin of each case is the same run without the fault, which hangs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.backend.calls.inserted import neutral_of
from dpsim.checks.judge import judge
from dpsim.contract.collectives.reductions import REDUCTIONS
from dpsim.contract.dtypes import as_float32, numpy_dtype
from dpsim.contract.interface import Rank
from dpsim.contract.ops import DECISION_VALUE, KIND, ORDINAL, SITE, STEP
from dpsim.contract.program import Program
from dpsim.contract.world import At, Fault, Run
from dpsim.sim.backend import SimBackend
from tests import programs
from tests.backend.inserted_programs import CALLS, LEARNED, insert, world

BEFORE_NEXT = At("next", 1)


def run(name: str, device: bool, *faults: Fault) -> Run:
    return SimBackend().run(world(*faults), "t_inserted", (name, device))


def classes(ran: Run, *faults: Fault) -> list[str]:
    return [finding.klass for finding in judge(world(*faults), ran)]


@pytest.mark.parametrize("device", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("name", CALLS)
def test_an_inserted_call_pairs_up_with_those_of_the_peers(name: str, device: bool) -> None:
    if device and name == "barrier":
        pytest.skip("devices have no barrier")
    fault = insert(name, BEFORE_NEXT, device)
    ran = run(name, device, fault)
    assert ran.finished
    assert classes(ran, fault) == []
    if not device and name in LEARNED:
        [learned] = [raw[DECISION_VALUE] for raw in ran.journals[0] if raw[KIND] == "decision"]
        assert learned == LEARNED[name]
    assert classes(run(name, device))[0].startswith(("HANG", "MISMATCH", "LEFTOVER"))


@pytest.mark.parametrize("at", [BEFORE_NEXT, At("next", 2), At("end", 0)], ids=str)
def test_a_place_that_comes_too_late_does_not_help(at: At) -> None:
    """Rank 0 waits in its call. So rank 1 must make its own before its next call of the same communicator."""
    fault = insert("all_reduce", at)
    assert (classes(run("all_reduce", False, fault), fault) == []) == (at == BEFORE_NEXT)


async def ends_early(rank: Rank) -> None:
    group = rank.host("dp_cpu")
    for _ in range(2 - rank.rank):
        await group.all_reduce(np.full(4, 7, np.int32), site="odd")


def test_the_last_call_of_a_program_can_be_inserted() -> None:
    fault = insert("all_reduce", At("end", 0))
    ran = programs.run(world(fault), ends_early)
    assert ran.finished
    assert not judge(world(fault), ran)
    assert ran.journals[1][-1][KIND] == "finished"
    assert not programs.run(world(), ends_early).finished


def test_an_inserted_call_shifts_no_address() -> None:
    """A fault at a later visit of the same site applies to the same call with the insertion as without it."""
    late = Fault("alter", 1, At("odd", 1), {"count": 3})  # the call of step 2
    fault = insert("all_reduce", BEFORE_NEXT)
    ran = run("all_reduce", False, fault, late)
    own = [(raw[STEP], raw[ORDINAL]) for raw in ran.journals[1] if (raw[KIND], raw[SITE]) == ("collective", "odd")]
    inserted = [raw for raw in own if raw[1] < 0]
    assert [step for step, _ in inserted] == [1]
    assert own == [(0, 0), *inserted, (2, 1)]
    altered = [
        raw[STEP] for raw in ran.journals[1] if raw[KIND] == "injected" and raw[ORDINAL] == 1 and raw[SITE] == "odd"
    ]
    assert altered == [2]


@pytest.mark.parametrize(("given", "step"), [({}, 1), ({"step": 7}, 7)])
def test_an_inserted_call_has_the_present_step_or_the_given_one(given: dict[str, Any], step: int) -> None:
    ran = run("all_reduce", False, insert("all_reduce", BEFORE_NEXT, **given))
    assert [raw[STEP] for raw in ran.journals[1] if raw[SITE] == "odd" and raw[ORDINAL] < 0] == [step]
    assert [raw[STEP] for raw in ran.journals[1] if (raw[KIND], raw[SITE]) == ("collective", "next")] == [0, 1, 2]


def test_two_insertions_and_another_fault_at_one_address_all_apply() -> None:
    faults = (insert("all_reduce", BEFORE_NEXT), insert("max", BEFORE_NEXT), Fault("raise", 1, BEFORE_NEXT))
    ran = run("all_reduce", False, *faults)
    assert [raw[KIND] for raw in ran.journals[1] if raw[ORDINAL] < 0] == ["collective"] * 2
    assert ran.ends[1] == "raised"


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "bfloat16", "bool"])
@pytest.mark.parametrize("reduce", ["sum", "max", "min", "prod", "band"])
def test_the_contribution_changes_no_reduction(dtype: str, reduce: str) -> None:
    if reduce == "band" and "float" in dtype:
        pytest.skip("no bits of floating-point numbers are reduced")
    one = neutral_of(dtype, reduce)
    assert one.dtype == numpy_dtype(dtype)
    brings = as_float32(one) if dtype == "bfloat16" else one
    apply: Any = REDUCTIONS[reduce].apply  # type: ignore[index]  # one of its keys
    for value in (0, 1) if dtype == "bool" else (0, 1, 5, 200) if dtype == "uint8" else (0, 1, -3, 1000):
        other = np.full(1, value, brings.dtype)
        assert apply(other, brings) == other


class InAThread(Program[Any]):
    threaded = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await rank.start("beside", beside).join("joined")


async def beside(own: Rank) -> None:
    for _ in range(2 - own.rank):
        await own.host("dp_cpu").all_reduce(np.full(4, 7, np.int32), site="odd")
    await own.sleep(1_000, site="rest")


@pytest.mark.parametrize("site", ["rest", "end"])
def test_a_call_is_inserted_in_another_thread(site: str) -> None:
    fault = insert("all_reduce", At(site, 0, thread="beside"))
    ran = SimBackend().run_program(world(fault), InAThread(), None)
    assert ran.finished
    assert not judge(world(fault), ran)
    assert not SimBackend().run_program(world(), InAThread(), None).finished


async def captures(rank: Rank) -> None:
    main, graph, group = rank.stream("main"), rank.graph("g"), rank.device("dp")
    mine = main.alloc(4, "int32", "mine")
    async with graph.capture(main):
        main.launch("fill", programs.set_to, writes=[mine], args=(7,))
        if rank.rank == 0:
            group.all_reduce(mine, main, site="odd")
        main.launch("again", programs.set_to, writes=[mine], args=(8,))
    for _ in range(2):
        graph.replay(main, "replay")
    await mine.read("mine.read")


def test_a_call_in_a_capture_is_part_of_each_replay() -> None:
    fault = insert("all_reduce", At("again", 0), device=True)
    ran = programs.run(world(fault), captures)
    assert ran.finished
    assert not judge(world(fault), ran)
    assert not programs.run(world(), captures).finished


def test_a_host_call_in_a_capture_is_an_error_of_the_capture() -> None:
    fault = insert("all_reduce", At("again", 0))
    assert classes(programs.run(world(fault), captures), fault)[0] == "CRASH:CAPTUREERROR"


async def coalesces(rank: Rank) -> None:
    main, group = rank.stream("main"), rank.device("dp")
    buffers = [main.alloc(4, "int32", "mine") for _ in range(2)]
    for one in buffers:
        main.launch("fill", programs.set_to, writes=[one], args=(7,))
    with group.coalesced(main):
        if rank.rank == 0:
            group.send(buffers[0], 1, main, site="odd")
        if rank.rank == 0:
            group.recv(buffers[1], 1, main, site="back")
        else:
            group.send(buffers[1], 0, main, site="back")
    await buffers[1].read("mine.read")


def test_a_transfer_in_a_coalesced_group_belongs_to_it() -> None:
    fault = insert("recv", At("back", 0), device=True)
    ran = programs.run(world(fault), coalesces)
    assert ran.finished
    assert not judge(world(fault), ran)
    assert judge(world(), programs.run(world(), coalesces))


def test_a_collective_in_a_coalesced_group_is_an_error_of_the_group() -> None:
    fault = insert("all_reduce", At("back", 0), device=True)
    ran = programs.run(world(fault), coalesces)
    assert ran.ends[1] == "raised"


def test_a_rank_that_is_no_member_raises() -> None:
    fault = insert("all_reduce", BEFORE_NEXT, communicator="other")
    assert run("all_reduce", False, fault).ends[1] == "raised"
