"""What the host tells a GPU at each op, on a device that does nothing (`null_device`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpsim.backend.kernel_call import KernelError

pytest.importorskip("torch")

from tests.real.null_device import NullCalls, null_rank

ENTERS = {"main is current", "side is current"}


@pytest.fixture
def calls() -> NullCalls:
    return NullCalls()


def fill(buffer: Any, value: int) -> None:
    buffer[:] = value


def fails(buffer: Any) -> None:
    raise ValueError("no")


# ---- the current stream


def entered(calls: NullCalls) -> list[str]:
    return [what for what in calls.told if what in ENTERS]


def test_a_stream_is_made_the_current_one_only_where_another_was(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main, side, group = rank.stream("main"), rank.stream("side"), rank.device("dp")
    buffer = main.alloc(4, "int32", "buffer")
    for _ in range(3):
        main.launch("fill", fill, writes=[buffer], args=(1,))
        group.all_reduce(buffer, main)
        buffer.read("read")
    assert entered(calls) == ["main is current"]
    side.launch("fill", fill, writes=[buffer], args=(1,))
    group.all_reduce(buffer, side)
    buffer.read("read", side)
    main.launch("fill", fill, writes=[buffer], args=(1,))
    assert entered(calls) == ["main is current", "side is current", "main is current"]


def test_each_op_is_on_its_own_stream(calls: NullCalls) -> None:
    """Whatever a kernel before it left current, also one that raised."""
    rank = null_rank(calls)
    main, group = rank.stream("main"), rank.device("dp")
    buffer = main.alloc(4, "int32", "buffer")
    ops: list[Callable[[], object]] = [
        lambda: main.alloc(4, "int32", "more"),
        lambda: main.launch("fill", fill, writes=[buffer], args=(1,)),
        lambda: group.all_reduce(buffer, main),
        lambda: buffer.read("read"),
    ]
    for op in ops:
        with pytest.raises(KernelError, match=r"kernel fails of rank 0 fails\[\d\]: ValueError: no"):
            main.launch("fails", fails, writes=[buffer])
        calls.now = 77
        op()
        assert calls.now == 1, "the op went to another stream"
    assert "allreduce on 1" in calls.told
