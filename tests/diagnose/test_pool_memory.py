"""Tests of reports about reads of unwritten memory in a graph's pool: they name the replay that overwrote it, if one
did.
"""

from __future__ import annotations

from dpsim.contract.interface import Rank
from tests.diagnose.test_graphs import line, run_and_report
from tests.programs import set_to


def test_which_replay_overwrote_what_is_read() -> None:
    """The culprit is not the last replay, because that graph has another pool."""

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        x = main.alloc(1, "int32", "x")
        for name, pool in ("first", "pool"), ("harmless", "own"):
            async with rank.graph(name, pool).capture(main):
                main.launch("set", set_to, writes=[x], args=(1,))
        async with rank.graph("second", "pool").capture(main):
            y = main.alloc(1, "int32", "y")
            main.launch("set", set_to, writes=[y], args=(2,))
        for name in ("second", "first", "harmless"):
            rank.graph(name).replay(main, f"{name}.go")
        await y.read("late")

    _, text = run_and_report(script)
    assert "which nothing wrote since replay 0 of graph first (first.go[0]" in line(text, "late[0]", "reads y")


def test_memory_that_only_a_capture_used_was_overwritten_by_no_replay() -> None:
    """Reads memory of a graph that was captured and never replayed. No replay overwrote it."""

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        for name in ("first", "second"):
            async with rank.graph(name, "pool").capture(main):
                y = main.alloc(1, "int32", "y")
                main.launch("set", set_to, writes=[y], args=(2,))
                y.free()
            if name == "first":
                rank.graph(name).replay(main, "go")
        await y.read("late")

    _, text = run_and_report(script)
    assert "which nothing wrote before" in line(text, "late[0]", "reads y")
