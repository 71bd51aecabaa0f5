"""Tests collectives that do not match, come late or are missing: what the simulated machine does, and which check finds
it.

A mismatch does not stop the machine. On NCCL too, a broadcast against an all_reduce, another root or another count
completed on all ranks, and did harm later. So the check of matching calls (the ledger) has to find it; there is no
hang.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.collectives.reductions import NUMBERS
from dpsim.contract.interface import HostArray, Rank
from dpsim.contract.ops import DTYPES, KIND
from dpsim.contract.world import At, Delay, Fault
from tests.programs import Script, add
from tests.sim.programs import MODES, everywhere, filled, holds, numbers, see, usual_world

OTHERS = ("broadcast", "reduce", "gather", "scatter")
MISSING = "HANG:COLLECTIVE:MISSING_RANK"


# ---- calls that do not fit


def another(rank: Rank, field: str, call: Any) -> Any:
    """Three ranks make a collective, and the last one changes `field`."""
    odd, ones = rank.rank == 2, np.full(3, rank.rank + 1, np.int32)
    if field == "op":
        return call("broadcast", ones, root=0) if odd else call("all_reduce", ones)
    if field == "root":
        return call("broadcast", ones, root=2 if odd else 0)
    if field == "count":
        return call("all_reduce", ones[: 2 if odd else 3])
    if field == "dtype":
        return call("all_reduce", ones.astype("int64" if odd else "int32"))
    if field == "reduce":
        return call("all_reduce", ones, op="max" if odd else "sum")
    return call("reduce_scatter", ones, sizes=(1, 1, 1) if odd else (2, 0, 1))


def mismatch(field: str, device: bool) -> Script:
    async def script(rank: Rank) -> Any:
        main, made = rank.stream("main"), []

        def on_host(op: str, array: HostArray, /, **more: Any) -> Any:
            return getattr(rank.host("h"), op)(array, **more)

        def on_device(op: str, array: HostArray, /, **more: Any) -> None:
            x = filled(main, array.tolist(), dtype=array.dtype.name)  # type: ignore[arg-type]
            if op == "reduce_scatter":
                output = main.alloc(more["sizes"][rank.rank], "int32", "output")
                rank.device("d").reduce_scatter(output, x, main, **more)
            else:
                output = x
                getattr(rank.device("d"), op)(x, stream=main, **more)
            made.append(output)

        if not device:
            return numbers(await another(rank, field, on_host))
        another(rank, field, on_device)
        return numbers(await made[0].read("read"))

    return script


FIELDS: dict[str, list[tuple[int, ...]]] = {
    "op": [(6, 6, 6), (6, 6, 6), (1, 1, 1)],
    "root": [(1, 1, 1), (1, 1, 1), (3, 3, 3)],
    "count": [(6, 6, 3), (6, 6, 3), (6, 6)],
    "dtype": [(6, 6, 6), (6, 6, 6), (6 << 32 | 6, 6, 3)],  # sent as 4 bytes each, read as 8
    "reduce": [(6, 6, 6), (6, 6, 6), (3, 3, 3)],
    "sizes": [(6, 6), (), (6,)],
}
"""What the ranks receive: the machine gives each rank what its own call requests, as far as the data fit."""


@pytest.mark.parametrize("device", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_mismatch_runs_through_and_the_ledger_names_it(field: str, device: bool) -> None:
    for seen in everywhere(mismatch(field, device), usual_world(3)):
        assert seen.classes == [f"MISMATCH:COLLECTIVE:{field.upper()}"], seen.mode
        assert seen.findings[0].culprit is not None
        assert seen.findings[0].culprit.rank == 2
        assert seen.run.finished, "a wrong reduction or root does not always hang on hardware either"
        if field == "op" and device and seen.learned != FIELDS[field]:
            assert seen.learned == [(6, 6, 6)] * 3, "a broadcast waits for rank 0 alone and may read sums of the others"
            assert seen.mode != "timed"
        else:
            assert seen.learned == FIELDS[field], seen.mode


@pytest.mark.parametrize("device", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("change", [*({"op": op} for op in OTHERS), *({"dtype": dtype} for dtype in DTYPES)], ids=str)
def test_a_planted_change_of_op_or_type_is_named_or_changes_nothing(change: dict[str, Any], device: bool) -> None:
    """A fault changes the op or the dtype of one rank's call, and the checks find it. A dtype that no library reduces
    changes nothing, because no program can make such a call.
    """

    async def script(rank: Rank) -> Any:
        if not device:
            return numbers(await rank.host("h").all_reduce(np.ones(3, np.int32), site="sum"))
        x = filled(rank.stream("main"), [1, 1, 1])
        rank.device("d").all_reduce(x, rank.stream("main"), site="sum")
        return numbers(await x.read("read"))

    applied = "op" in change or change["dtype"] in {*NUMBERS} - {"int32"}
    world = usual_world(3, faults=(Fault("alter", 2, At("sum", 0), change),))
    for seen in everywhere(script, world):
        [kind] = change
        assert seen.classes == ([f"MISMATCH:COLLECTIVE:{kind.upper()}"] if applied else []), seen.mode
        assert seen.run.finished
        if not applied:
            assert seen.learned == [(3, 3, 3)] * 3


@pytest.mark.parametrize("right", [True, False])
def test_pieces_of_an_all_to_all_are_held_against_each_other(right: bool) -> None:
    """The checks compare the sizes of an all_to_all. In the faulty twin rank 1 sends one element fewer than rank 0
    expects.
    """

    async def script(rank: Rank) -> None:
        go, come = ((1, 2), (1, 3)) if rank.rank == 0 else ((3 if right else 2, 1), (2, 1))
        await rank.host("h").all_to_all(np.ones(sum(go), np.int32), source_sizes=go, output_sizes=come)

    for seen in everywhere(script):
        assert seen.classes == ([] if right else ["MISMATCH:COLLECTIVE:SIZES"]), seen.mode


@pytest.mark.parametrize("right", [True, False])
def test_a_wrong_root_does_its_harm_later_and_the_first_finding_is_the_cause(right: bool) -> None:
    async def script(rank: Rank) -> None:
        table = await rank.host("h").broadcast(np.full(1, rank.rank, np.int32), 0 if right else rank.rank, site="plan")
        rank.step = 1
        rank.decide("largest", int(table[0]), "h")

    for seen in everywhere(script, usual_world(3)):
        assert seen.classes == ([] if right else ["MISMATCH:COLLECTIVE:ROOT", "DISAGREEMENT:LARGEST"]), seen.mode


@pytest.mark.parametrize("device", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("makes_up_for_it", [False, True])
def test_a_skipped_collective_pairs_up_silently_and_the_step_names_it(makes_up_for_it: bool, device: bool) -> None:
    """Rank 1 omits the call of step 2 of 4, so its peer receives numbers of another step from then on. The run hangs at
    its end, or, if rank 1 makes one more call, not at all.
    """

    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        got: list[int] = []
        for step in range(4):
            rank.step = step
            rounds = 0 if rank.rank == 1 and step == 2 else 2 if rank.rank == 1 and step == 3 and makes_up_for_it else 1
            for _ in range(rounds):
                if device:
                    x = filled(main, [step])
                    rank.device("d").all_reduce(x, main, site="round")
                    got += numbers(await x.read("read"))
                else:
                    got += numbers(await rank.host("h").all_reduce(np.full(1, step, np.int32), site="round"))
        return tuple(got)

    for seen in everywhere(script):
        assert seen.classes[0] == ("MISMATCH:COLLECTIVE:STEP" if makes_up_for_it else MISSING), seen.mode
        culprit = seen.findings[0].culprit
        assert culprit is not None
        assert (culprit.rank, culprit.step, culprit.site) == (1, 2, "round"), seen.mode
        assert seen.run.ends == (["finished"] * 2 if makes_up_for_it else ["blocked", "finished"])
        assert seen.learned[1] == ((0, 2, 5, 6) if makes_up_for_it else (0, 2, 5))


async def needs_all_of_it(rank: Rank) -> Any:
    main, side, peer = rank.stream("main"), rank.stream("side"), 1 - rank.rank
    x, came = filled(main, [rank.rank + 1]), main.alloc(1, "int32", "came")
    rank.device("d").all_reduce(x, main, site="sum")
    with rank.device("d").coalesced(main):
        rank.device("d").send(x, peer, main, site="give")
        rank.device("d").recv(came, peer, main, site="take")
    side.wait_stream(main)
    y = filled(side, [4], "y")
    side.launch("add", add, reads=[came], writes=[y])
    rank.send(peer, "in", rank.rank, "post")
    heard = await rank.mailbox("in").get("get")
    total = await rank.host("h").all_reduce(await y.read("read"), site="host")
    rank.decide("total", int(total[0]), "h")
    return (heard, *numbers(total))


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize(
    "site", [None, "fill.x", "sum", "give", "take", "fill.y", "add", "post", "get", "read", "host"]
)
def test_a_delay_changes_the_time_and_nothing_else(site: str | None, late: int) -> None:
    """The test delays each op of a program in turn. The program waits for all that it needs, so only the times
    change.
    """
    world, plain = usual_world(delays=(Delay(late, At(site), 5_000_000),)), see(needs_all_of_it)
    holds(needs_all_of_it, [(1, 14), (0, 14)], world)
    seen = see(needs_all_of_it, world)
    assert plain.run.elapsed_ns < 1_000_000
    assert seen.run.elapsed_ns > 5_000_000, "the delay makes the run longer"
    assert [[raw for raw in journal if raw[KIND] != "injected"] for journal in seen.run.journals] == plain.run.journals


def test_a_fault_skips_a_collective_as_a_program_would() -> None:
    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        got: list[int] = []
        for step in range(3):
            rank.step = step
            x = filled(main, [step + 1])
            rank.device("d").all_reduce(x, main, site="round")
            got += numbers(await x.read("read"))
        return tuple(got)

    for seen in everywhere(script, usual_world(faults=(Fault("skip", 1, At("round", 1)),))):
        assert {*seen.classes} == {MISSING}, seen.mode
        assert seen.learned == [None, (2, 2, 5)], "rank 1 has its own number in step 1, then that of its peer's step 1"


def test_each_mode_of_the_simulation_was_run() -> None:
    assert len(everywhere(mismatch("root", False), usual_world(3))) == len(MODES) == 7
