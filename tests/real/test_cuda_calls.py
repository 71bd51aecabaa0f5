"""Tests of the calls that the host makes on a GPU at each op, with a device that does nothing (`null_device`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.contract.dtypes import numpy_dtype
from dpsim.contract.interface import Buffer, HostArray
from dpsim.contract.ops import DType
from dpsim.contract.ops import ReduceOp as ReduceWord
from dpsim.contract.world import At, Fault

pytest.importorskip("torch")

import torch
from torch.distributed.distributed_c10d import ReduceOp

from real.cuda_groups import CudaCommunicator
from real.host_calls import GlooHostCommunicator
from real.rank import CollectiveError, tensor
from real.waiting import Unfinished
from tests.real.null_device import NullCalls, NullGroup, null_rank

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
    """Checks that each op runs on its own stream, also if a kernel before it raised or changed the current stream."""
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


# ---- the order of a communicator


def test_a_communicator_records_its_one_event_again(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main, side, group = rank.stream("main"), rank.stream("side"), rank.device("dp")
    buffer = main.alloc(4, "int32", "buffer")
    for stream in (main, main, side, main):
        group.all_reduce(buffer, stream)
    assert [what for what in calls.told if what not in ENTERS] == [
        "allreduce on 1",
        "event 0 on main",
        "allreduce on 1",
        "event 0 on main",
        "side waits for event 0 on main",
        "allreduce on 2",
        "event 0 on side",
        "main waits for event 0 on side",
        "allreduce on 1",
        "event 0 on main",
    ]


def test_communicators_do_not_wait_for_one_another(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main, side = rank.stream("main"), rank.stream("side")
    buffer = main.alloc(4, "int32", "buffer")
    rank.device("dp").all_reduce(buffer, main)
    rank.device("ep").all_reduce(buffer, side)
    assert not [what for what in calls.told if "waits" in what]


def test_a_collective_that_fails_has_its_name_or_is_given_up(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main, group = rank.stream("main"), rank.device("dp")
    assert isinstance(group, CudaCommunicator)
    buffer = main.alloc(4, "int32", "buffer")
    group.all_reduce(buffer, main)
    group._nccl.process_group.fails = lambda: None
    with pytest.raises(CollectiveError, match=r"all_reduce int32\[4\] on dp #1 of rank 0: it fails"):
        group.all_reduce(buffer, main)
    group._nccl.process_group.fails = rank.patience.give_up.set
    for _ in range(2):  # within the call, and before it
        with pytest.raises(Unfinished):
            group.all_reduce(buffer, main)


# ---- reads


def awaited(work: Any) -> Any:
    """Returns the result of a read."""
    with pytest.raises(StopIteration) as ended:
        next(work.__await__())
    return ended.value.value


def read(buffer: Buffer) -> Any:
    return awaited(buffer.read("read"))


def test_reads_use_pinned_memory_again(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main = rank.stream("main")
    buffer = main.alloc((2, 3), "int32", "buffer")
    answers = []
    for value in range(5):
        main.launch("fill", fill, writes=[buffer], args=(value,))
        answers.append(read(buffer))
    assert [answer.tolist() for answer in answers] == [[[value] * 3] * 2 for value in range(5)]
    assert (calls.blocks, calls.events) == (1, 1)


def test_reads_in_progress_have_separate_memory(calls: NullCalls) -> None:
    """Checks that reads in progress use different memory, also on another stream. A read that is copied out late still
    returns the value at its issue.
    """
    rank = null_rank(calls)
    main, side = rank.stream("main"), rank.stream("side")
    buffer = main.alloc(4, "int32", "buffer")
    works = []
    for value, stream in enumerate((main, side, main)):
        main.launch("fill", fill, writes=[buffer], args=(value,))
        works.append(buffer.read("read", stream))
    assert calls.blocks == 3
    assert [awaited(work).tolist() for work in reversed(works)] == [[value] * 4 for value in (2, 1, 0)]
    assert [read(buffer).tolist() for _ in range(4)] == [[2] * 4] * 4
    assert calls.blocks == 3


def test_a_read_that_was_given_up_keeps_its_memory(calls: NullCalls) -> None:
    """Checks that an abandoned read keeps its memory, because the device may still copy into it. So does an unawaited
    read.
    """
    rank = null_rank(calls)
    buffer = rank.stream("main").alloc(4, "int32", "buffer")
    buffer.read("nobody")
    work = buffer.read("read")
    calls.passed = lambda: False
    rank.patience.give_up.set()
    with pytest.raises(Unfinished):
        next(work.__await__())
    calls.passed = lambda: True
    rank.patience.give_up.clear()
    read(buffer)
    assert calls.blocks == 3


def test_forms_of_about_one_size_share_memory(calls: NullCalls) -> None:
    """Checks that reads of similar size share pinned memory, because the host cannot allocate much of it without
    waiting for the device.
    """
    main = null_rank(calls).stream("main")
    forms: list[tuple[tuple[int, ...], DType]] = [
        ((4,), "int32"),
        ((2, 2), "int32"),
        ((3,), "float32"),
        ((2,), "int64"),
    ]
    for count in range(3):
        for value, (shape, dtype) in enumerate(forms):
            buffer = main.alloc(shape, dtype, "buffer")
            main.launch("fill", fill, writes=[buffer], args=(value + count,))
            answer = read(buffer)
            assert (answer.shape, answer.dtype) == (shape, dtype)
            assert (answer == value + count).all()
    assert calls.blocks == 1
    assert read(main.alloc((0, 3), "int64", "empty")).shape == (0, 3)
    assert read(main.alloc((), "int64", "number")).shape == ()
    assert calls.blocks == 3


def test_a_view_is_read_where_it_lies(calls: NullCalls) -> None:
    main = null_rank(calls).stream("main")
    buffer = main.alloc((4, 2), "int32", "buffer")
    main.launch("fill", fill, writes=[buffer.view(1, 3)], args=(5,))
    assert read(buffer.view(1, 4)).tolist() == [[5, 5], [5, 5], [0, 0]]
    assert read(buffer.tagged("t")).tolist() == [[0, 0], [5, 5], [5, 5], [0, 0]]


# ---- collectives


def group_of(communicator: object) -> NullGroup:
    """Returns the process group that a communicator of a rank calls."""
    assert isinstance(communicator, CudaCommunicator | GlooHostCommunicator)
    group = communicator._nccl if isinstance(communicator, CudaCommunicator) else communicator._group
    made: NullGroup = group.process_group
    return made


def test_a_collective_in_place_is_given_its_own_memory(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main, device = rank.stream("main"), rank.device("dp")
    buffer = main.alloc((2, 2), "int32", "buffer")
    device.all_reduce(buffer, main, op="max")
    device.broadcast(buffer.view(1, 2), 1, main)
    device.all_reduce(buffer, main, op="max")
    [(reduced, max_), (spread, from_1), (_, again)] = group_of(device).given
    assert reduced[0].data_ptr() == tensor(buffer).data_ptr()
    assert spread[0].data_ptr() == tensor(buffer)[1:].data_ptr()
    assert spread[0].numel() == 2
    assert max_ is again, "options are made once"
    assert (max_.reduceOp, max_.asyncOp) == (ReduceOp.MAX, False)
    assert (from_1.rootRank, from_1.asyncOp) == (1, False)


def test_a_reduce_is_given_the_memory_itself(calls: NullCalls) -> None:
    """Checks that a reduce uses the memory of the buffer itself. NCCL writes only on the root, so the other ranks need
    no copy, and their buffers do not change.
    """
    rank = null_rank(calls)
    main, device = rank.stream("main"), rank.device("dp")
    buffer = main.alloc(4, "int32", "buffer")
    for root in (0, 1):
        device.reduce(buffer, root, main, op="min")
    assert len(group_of(device).given) == 2
    for root, ([reduced], options) in enumerate(group_of(device).given):
        assert reduced.data_ptr() == tensor(buffer).data_ptr()
        assert (options.rootRank, options.reduceOp, options.asyncOp) == (root, ReduceOp.MIN, False)


def test_the_root_alone_names_pieces(calls: NullCalls) -> None:
    """Checks that only the root passes a list of pieces, because torch rejects one of another member. The pieces lie in
    the buffer, one for each member.
    """
    rank = null_rank(calls)
    main, device = rank.stream("main"), rank.device("dp")
    own, whole = main.alloc(2, "int64", "own"), main.alloc(4, "int64", "whole")
    device.gather(whole, own, 0, main)
    device.gather(None, own, 1, main)
    device.scatter(own, whole, 0, main)
    device.scatter(own, None, 1, main)
    given = [([one.data_ptr() for one in tensors], options) for tensors, options in group_of(device).given]
    mine, first = tensor(own).data_ptr(), tensor(whole).data_ptr()
    assert [places for places, _ in given] == [[mine, first, first + 16], [mine]] * 2
    assert [(options.rootRank, options.asyncOp) for _, options in given] == [(0, False), (1, False)] * 2


def test_a_type_that_numpy_lacks_is_sent_as_its_torch_type(calls: NullCalls) -> None:
    rank = null_rank(calls)
    main, device = rank.stream("main"), rank.device("dp")
    half, byte = main.alloc(4, "bfloat16", "half"), main.alloc(4, "uint16", "byte")
    device.all_reduce(half, main, op="avg")
    device.broadcast(byte, 1, main)
    [([mean], options), ([sent], _)] = group_of(device).given
    assert (tensor(half).dtype, mean.dtype, options.reduceOp) == (torch.int16, torch.bfloat16, ReduceOp.AVG)
    assert mean.data_ptr() == tensor(half).data_ptr()
    assert (sent.dtype, sent.numel(), sent.data_ptr()) == (torch.uint8, 8, tensor(byte).data_ptr())
    assert read(half).dtype == numpy_dtype("bfloat16")


@pytest.mark.parametrize(("op", "wanted"), [("band", 6), ("bor", 6), ("bxor", 0)])
def test_nccl_has_no_bitwise_reductions_so_all_is_gathered(calls: NullCalls, op: ReduceWord, wanted: int) -> None:
    """Runs a bitwise reduction. The stand-in group returns equal elements of two members."""
    rank = null_rank(calls)
    main, device = rank.stream("main"), rank.device("dp")
    buffer = main.alloc(2, "int8", "buffer")
    main.launch("fill", fill, writes=[buffer], args=(6,))
    device.all_reduce(buffer, main, op=op)
    [([whole, _], _)] = group_of(device).given
    assert whole.numel() == 4
    assert read(buffer).tolist() == [wanted] * 2


def test_an_altered_collective_is_sent_with_its_altered_size(calls: NullCalls) -> None:
    """Checks that an altered collective has its altered size, and uses separate memory of that size."""
    fault = Fault("alter", 0, At("sum", 0), {"count": 7})
    rank = null_rank(calls, faults=(fault,))
    main, device = rank.stream("main"), rank.device("dp")
    buffer = main.alloc(4, "int32", "buffer")
    for _ in range(2):
        device.all_reduce(buffer, main, site="sum")
    assert [tensors[0].numel() for tensors, _ in group_of(device).given] == [7, 4]


def test_a_host_collective_sends_and_receives_in_one_copy(calls: NullCalls) -> None:
    rank = null_rank(calls)
    host = rank.host("dp_cpu")
    mine = np.arange(6, dtype=np.int32).reshape(3, 2).T
    work = host.all_reduce(mine, site="sum")
    [([sent], options)] = group_of(host).given
    assert options.asyncOp
    mine[:] = 0  # the program may do that at once
    answer = awaited(work)
    assert answer.__array_interface__["data"][0] == sent.data_ptr(), "the result lies in the copy that was sent"
    assert answer.tolist() == [[0, 2, 4], [1, 3, 5]]
    assert answer.flags.writeable
    odds: list[HostArray] = [np.broadcast_to(np.int64(3), (4,)), np.zeros(0, np.float32), np.zeros((), np.int32)]
    for odd in odds:
        assert awaited(host.all_reduce(odd)).shape == odd.shape
