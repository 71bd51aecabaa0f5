"""Tests that data that one job leaves on its communicators does not reach the next job.

In these tests a root calls one broadcast more than its peer. NCCL sends the data before the receiver calls, so the run
finishes and leaves the data behind. On gloo the root waits for the receiver, so the run hangs.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.ops import DECISION_VALUE, KIND, RawRecord
from dpsim.contract.world import Run
from real import pool
from real.backend import TorchBackend
from real.matched import all_matched
from tests.real import surplus_program
from tests.real.worlds import NCCL, make_world

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

on_gpus = pytest.mark.parametrize("backend", [NCCL], indirect=True)


def decisions(run: Run) -> list[Any]:
    assert run.finished, run.observed
    return [[raw[DECISION_VALUE] for raw in journal if raw[KIND] == "decision"] for journal in run.journals]


RIGHT = [[4 * surplus_program.TOLD]] * 2


@on_gpus
def test_an_unreceived_message_does_not_reach_the_next_job(backend: TorchBackend) -> None:
    world = make_world(2, ["dp"])
    assert decisions(backend.run(world, "real_surplus", {"surplus": True})) == RIGHT
    for _ in range(2):
        assert decisions(backend.run(world, "real_surplus", {})) == RIGHT


@on_gpus
def test_without_the_check_an_unreceived_message_reaches_the_next_job(
    backend: TorchBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(2, ["dp"], stall_ns=2_000_000_000)
    monkeypatch.setattr(pool, "all_matched", lambda journals, world: True)
    assert decisions(backend.run(world, "real_surplus", {"surplus": True})) == RIGHT
    run = backend.run(world, "real_surplus", {})
    assert not run.finished or decisions(run) != RIGHT
    monkeypatch.undo()
    backend.run(world, "real_surplus", {"surplus": True})  # its communicators are not used again
    assert decisions(backend.run(world, "real_surplus", {})) == RIGHT


# ---- journals by hand


def collective(op: str = "broadcast", count: int = 4, root: int | None = 1, name: str = "dp") -> RawRecord:
    return ("collective", 0, "main", "tell", 0, "x.py:1", "main", name, 0, op, count, "int32", root, None, (), (), ())


def transfer(op: str, peer: int, count: int = 4) -> RawRecord:
    return ("transfer", 0, "main", op, 0, "x.py:1", "main", "dp", 0, op, count, "int32", peer, None, (), ())


SAME = [collective(), collective("all_to_all", 3)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SAME, SAME),
        (SAME, [collective(), collective("all_to_all", 9)]),
        ([transfer("send", 1), transfer("recv", 1)], [transfer("send", 0), transfer("recv", 0)]),
        ([collective(name="dp"), collective(name="ep")], [collective(name="ep"), collective(name="dp")]),
    ],
)
def test_journals_whose_calls_all_meet_are_matched(first: list[RawRecord], second: list[RawRecord]) -> None:
    assert all_matched([first, second], make_world())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SAME, SAME[:1]),
        ([], SAME),
        ([collective()], [collective(root=0)]),
        ([collective()], [collective(count=8)]),
        ([collective()], [collective("all_reduce", root=None)]),
        ([collective(name="dp")], [collective(name="ep")]),
        ([transfer("send", 1)], []),
        ([transfer("send", 1)], [transfer("recv", 0, count=8)]),
        ([transfer("recv", 1)], [transfer("recv", 0)]),
    ],
)
def test_journals_with_an_unmet_call_are_not_matched(first: list[RawRecord], second: list[RawRecord]) -> None:
    assert not all_matched([first, second], make_world())
