"""Explores programs with `reduce` completely, and tests the mistakes that programs make with a root."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.sim.collectives import parts
from tests.programs import Script, copy, explored, world_of
from tests.sim.programs import Twins, filled, holds, numbers, usual_world
from tests.testing.test_check_backend import Generous

twins = Twins()


def totals(root_of: Any = lambda rank, step: step % 2) -> Script:
    """The ranks reduce to each of two roots in turn, on hosts and on devices."""

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        for rank.step in range(2):
            root = root_of(rank.rank, rank.step)
            mine = np.array([rank.rank + 1], np.int32)
            x = filled(main, [rank.rank + 1])
            rank.device("d").reduce(x, root, main, site="device.total")
            got = int((await rank.host("h").reduce(mine, root, site="host.total"))[0])
            assert got == (6 if rank.rank == root else rank.rank + 1), "the root gets the total, the others keep theirs"
            assert numbers(await x.read("read")) == (got,)
            x.free()

    return script


def test_a_healthy_program_is_proven() -> None:
    result = explored(world_of(3, ["h"], ["d"]), totals(), schedules=20_000)
    assert result.verdict == "proven", result.summary()


def test_a_machine_in_which_all_receive_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: on the machine without time all members receive the total, as in a past bug. The explorer
    reports a violation.
    """
    monkeypatch.setattr(parts, "Results", Generous)
    monkeypatch.setattr(parts, "role", lambda *_: (True, True))
    assert explored(world_of(3, ["h"], ["d"]), totals()).verdict == "violated"


def test_members_that_name_two_roots_are_found() -> None:
    """Rank 2 names another root than its peers."""
    result = explored(world_of(3, ["h"], ["d"]), totals(lambda rank, step: 1 if rank == 2 else 0), schedules=50)
    finding = result.findings[0]
    assert finding.klass == "MISMATCH:COLLECTIVE:ROOT"
    assert finding.culprit is not None
    assert (finding.culprit.rank, finding.culprit.step, finding.culprit.site) == (2, 0, "device.total")


def broadcasts_the_total(right: bool) -> Script:
    """The root broadcasts the total. In the faulty twin rank 2 uses its own result of the reduce as the total."""

    async def script(rank: Rank) -> int:
        group = rank.host("h")
        mine = await group.reduce(np.array([rank.rank + 1], np.int32), 0)
        total = await group.broadcast(mine, 0)
        value = int((total if right or rank.rank != 2 else mine)[0])
        rank.decide("total", value, "h")
        return value

    return script


def test_the_total_is_the_roots_alone() -> None:
    holds(broadcasts_the_total(True), [6] * 3, usual_world(3))
    finding = explored(usual_world(3), broadcasts_the_total(False), schedules=50).findings[0]
    assert finding.klass == "DISAGREEMENT:TOTAL"
    assert finding.culprit is not None
    assert finding.culprit.rank == 2


@twins("RACE:BUFFER", learned=[(3,), (2,)])
async def the_input_may_be_overwritten_after_the_reduce(rank: Rank, right: bool) -> Any:
    """Another stream may overwrite the input after the reduce has read it, on the root and elsewhere. In the faulty
    twin it does not wait.
    """
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, [rank.rank + 1]), filled(main, [9], "y")
    side.wait_stream(main)
    rank.device("d").reduce(x, 0, main)
    result = x.read("read", main)
    if right:
        side.wait_stream(main)
    side.launch("overwrite", copy, reads=[y], writes=[x])
    return numbers(await result)


@twins("CRASH:VALUEERROR", learned=[(2,), (1,)], also=["HANG"])
async def a_root_is_a_member(rank: Rank, right: bool) -> Any:
    return numbers(await rank.host("h").reduce(np.ones(1, np.int32), 0 if right else 2))


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()
