"""The part `basics`: names, kernels, reads, a host that runs ahead of its streams, reuse of memory, and refused
calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, Frozen
from dpsim.contract.ops import DType
from dpsim.testing.conformance.ground import (
    WIDE,
    Round,
    copy_to,
    expect,
    flip,
    fold,
    increase,
    line,
    refused,
    that_remember,
)


async def basics(at: Round) -> None:
    _names(at)
    for dtype in WIDE:
        await _kernels(at, dtype)
    await _overlap(at)
    await _reuse(at)
    await _versions(at)
    await _refusals(at)
    at.rank.probe("conformance.basics")
    at.rank.decide("conformance", (at.step, len(at.host.ranks)), "dp_cpu")
    at.rank.decide("conformance.device", ("equal", True, None, 0.5), "ep")


def _names(at: Round) -> None:
    rank = at.rank
    expect(
        "Rank.step",
        rank.step,
        at.step,
        "rank.step keeps the number that the program set last. A wrong backend resets it",
    )
    expect(
        "Stream.name",
        at.main.name,
        "main",
        ("a stream has the name that the program passed to rank.stream. A wrong backend renames it"),
    )
    expect(
        "Rank.stream",
        rank.stream("main") is at.main,
        True,
        ("rank.stream returns the same stream each time for one name. A wrong backend creates a second stream"),
    )
    for group in (at.host, at.device, rank.device("ep")):
        place = group.ranks.index(rank.rank), len(group.ranks)
        expect(
            f"{group.name}.index, .size",
            (group.index, group.size),
            place,
            ("`index` is the rank's position in `ranks`, and `size` is their number. A wrong backend counts otherwise"),
        )


async def _kernels(at: Round, dtype: DType) -> None:
    """Kernels read and write buffers in stream order. Their arguments are bound at the launch."""
    flat, table = at.put(6, dtype), at.main.alloc((2, 3), dtype, "conformance.table")
    args: tuple[Frozen, ...] = (at.step, 2.0, True, "add", None, (1, (2, 3)))
    at.main.launch("conformance.fold", fold, reads=[flat], writes=[table], args=args, cost=1_000)
    at.main.launch("conformance.flip", flip, writes=[table])
    mine = at.line(at.rank.rank, 6, dtype)
    law = (
        "a read returns the content after all work enqueued on the buffer's stream so far, as an "
        "array of the buffer's shape and type. A wrong backend copies earlier, or converts"
    )
    expect(f"read of {dtype}[6]", await flat.read("conformance.read"), mine, law)
    folded = (mine.reshape(2, 3) + at.step + 2 + 6)[:, ::-1].astype(dtype)
    expect(f"read of {dtype}[2, 3]", await table.read("conformance.read"), folded, law)
    flat.free()
    table.free()


async def _overlap(at: Round) -> None:
    group, mine = at.host, at.line(at.rank.rank, 6, "int64")
    root = group.ranks[at.step % group.size]
    first = group.all_reduce(mine, site="conformance.first")
    second = group.broadcast(mine, root, site="conformance.second")
    buffer = at.put(4, "int32")
    mine[:] = -1
    law = (
        "a host collective sends the content that the array has at the call. A wrong backend "
        "reads the array later, after the program changed it"
    )
    total = np.sum([at.line(rank, 6, "int64") for rank in group.ranks], axis=0)
    expect("the first of two host collectives", await first, total, law)
    expect("the second of two host collectives", await second, at.line(root, 6, "int64"), law)
    got = await buffer.read("conformance.read")
    expect(
        "work launched between",
        got,
        at.line(at.rank.rank, 4, "int32"),
        (
            "a kernel runs as any other if the host launches it while its collectives are in "
            "progress. A wrong backend drops or spoils its result"
        ),
    )
    buffer.free()


async def _reuse(at: Round) -> None:
    """The program frees memory and allocates it again while the stream still reads it."""
    old, copy = at.put(4, "int32"), at.alloc(4, "int32")
    at.main.launch("conformance.copy", copy_to, reads=[old], writes=[copy])
    old.free()
    new = at.alloc(4, "int32")
    at.main.launch("conformance.line", line, writes=[new], args=(20, 1))
    law = (
        "a stream reuses freed memory only after its earlier work on this memory. A wrong backend "
        "overwrites a buffer that a kernel has yet to read"
    )
    got = await copy.read("conformance.read")
    expect("a copy of a freed buffer", got, at.line(at.rank.rank, 4, "int32"), law)
    expect("a new buffer", await new.read("conformance.read"), np.arange(20, 24, dtype=np.int32), law)
    copy.free()
    new.free()


async def _versions(at: Round) -> None:
    """A buffer with a version tag is the same memory as the buffer."""
    main, group, law = (
        at.main,
        at.device,
        (
            "a tagged buffer is the memory of the buffer, with the version that the program expects "
            "there. A wrong backend copies the memory, or changes its shape"
        ),
    )
    table, copy = main.alloc((2, 2), "int32", "conformance.table"), at.alloc(2, "int32")
    version = (at.step, "table", None, True, 0.5)
    main.launch("conformance.line", line, writes=[table.tagged(version)], args=(30, 1))
    row = table.tagged(version).view(1, 2)
    expect("Buffer.tagged", (row.shape, row.dtype), ((1, 2), "int32"), law)
    got = await table.tagged(version).read("conformance.read")
    expect("a read of a version", got, np.arange(30, 34, dtype=np.int32).reshape(2, 2), law)
    main.launch("conformance.line", line, writes=[copy.tagged(1)], args=(at.rank.rank, 1))
    group.all_reduce(copy.tagged(2), main)  # in place: it accepts any version, and leaves its own tag
    group.broadcast(copy.tagged(2), group.ranks[0], main)
    total = sum(group.ranks) + group.size * np.arange(2, dtype=np.int32)
    got = await copy.tagged(2).read("conformance.read")
    expect("a sum that leaves a version", got, total.astype(np.int32), law)
    refused(TypeError, "an array as a tag", partial(table.tagged, np.zeros(1, np.int32)))  # type: ignore[arg-type]
    refused(RuntimeError, "to free memory by a version of it", table.tagged(version).free)
    table.free()
    copy.free()


async def _refusals(at: Round) -> None:
    rank, host, device, main = at.rank, at.host, at.device, at.main
    other, me = max(host.ranks) + 1, rank.rank
    buffer, sent = at.alloc(1, "int32"), np.zeros(1, np.int32)
    outside, with_self = "a root that is no member of the group", "a transfer of a rank with itself"
    refused(ValueError, outside, lambda: host.broadcast(sent, other))
    refused(ValueError, outside, lambda: device.broadcast(buffer, other, main))
    for peer, what in (other, "a peer that is no member of the group"), (me, with_self):
        refused(ValueError, what, partial(host.send, sent, peer))
        refused(ValueError, what, partial(host.recv, 1, "int32", peer))
        refused(ValueError, what, partial(device.send, buffer, peer, main))
        refused(ValueError, what, partial(device.recv, buffer, peer, main))
    for sizes in ([1] * (host.size + 1), [-1] * host.size, [2] * host.size):
        what = f"the sizes {sizes} of one element each from {host.size} members"
        refused(ValueError, what, partial(host.all_gather, sent, sizes=sizes))
        refused(ValueError, what, partial(device.all_gather, buffer, buffer, main, sizes=sizes))
    for peer in at.peers[:1]:
        with device.coalesced(main):
            send = partial(device.send, buffer, peer, rank.stream("side"))
            refused(ValueError, "a transfer within a group on another stream", send)
            refused(RuntimeError, "a group within a group", lambda: device.coalesced(main))
            refused(RuntimeError, "a collective within a group", lambda: device.all_reduce(buffer, main))
    refused(KeyError, "a host communicator that the rank does not have", lambda: rank.host("no such kind"))
    refused(KeyError, "a device communicator that the rank does not have", lambda: rank.device("no such kind"))
    for what, kernel in that_remember().items():
        refused(TypeError, f"a kernel that is {what}", partial(main.launch, "refused", kernel))
    _refused_values(at, buffer, sent)
    for thing in (rank, host, device, main, buffer, main.record(), rank.mailbox("refused")):
        refused(
            AttributeError,
            "a new attribute that the program sets on an object of dpsim",
            partial(setattr, thing, "own", 1),
        )
    work: Any = host.all_reduce(sent, site="conformance.once")
    refused(TypeError, "a sum that was not awaited, as an array", lambda: work[0])
    await work
    try:
        await work
    except RuntimeError:
        pass
    else:
        raise AssertionError(
            "the program awaited one host collective twice, and no RuntimeError was raised. The "
            "contract: an await returns a result only once"
        )
    piece = buffer.view(0, 1)
    refused(RuntimeError, "to free a view", piece.free)
    buffer.free()
    _freed(at, buffer, "a buffer that was freed")
    _freed(at, piece, "a view of a buffer that was freed")
    refused(RuntimeError, "to free a buffer twice", buffer.free)


def _refused_values(at: Round, buffer: Buffer, sent: np.ndarray[Any, Any]) -> None:
    rank, host, device, main = at.rank, at.host, at.device, at.main
    number: Any = np.int32(1)
    array: Any = np.zeros(1, np.int32)
    half: Any = 0.5
    numbers: Any = [1]
    nothing: Any = None
    nan = float("nan")
    unplain: dict[str, Callable[[], object]] = {
        "a message with a number of numpy": lambda: rank.send(rank.rank, "refused", (1, number), "refused"),
        "an array for a message": lambda: rank.send(rank.rank, "refused", array, "refused"),
        "a list for a message": lambda: rank.send(rank.rank, "refused", numbers, "refused"),
        "an array for a decision": lambda: rank.decide("refused", array, "dp_cpu"),
        "an array for an argument of a kernel": lambda: main.launch(
            "refused", increase, writes=[buffer], args=(array,)
        ),
        "None for a kernel": lambda: main.launch("refused", nothing),
        "a list for an array": lambda: host.all_reduce(numbers, site="refused"),
        "an array for a buffer": lambda: device.all_reduce(array, main, site="refused"),
        "a step of 0.5": lambda: setattr(rank, "step", half),
        "a sleep of 0.5 ns": lambda: rank.sleep(half, "refused"),
    }
    for what, call in unplain.items():
        refused(TypeError, what, call)
    for what, call in {
        "NaN for a message": lambda: rank.send(rank.rank, "refused", (1, nan), "refused"),
        "NaN for a decision": lambda: rank.decide("refused", nan, "dp_cpu"),
        "NaN for a tag": lambda: buffer.tagged(nan),
    }.items():
        refused(ValueError, what, call)
    refused(ValueError, "a sleep of -1 ns", lambda: rank.sleep(-1, "refused"))
    refused(ValueError, "a shape of -1 elements", lambda: main.alloc(-1, "int32", "refused"))


def _freed(at: Round, buffer: Buffer, what: str) -> None:
    """A freed buffer may have other content now, so every use of it is refused."""
    device, main = at.device, at.main
    uses: dict[str, Callable[[], object]] = {
        "launch": lambda: main.launch("refused", increase, writes=[buffer]),
        "read": lambda: buffer.read("refused"),
        "view": lambda: buffer.view(0, 1),
        "tagged": lambda: buffer.tagged(1),
        "record_stream": lambda: buffer.record_stream(main),
        "all_reduce": lambda: device.all_reduce(buffer, main, site="refused"),
        "broadcast": lambda: device.broadcast(buffer, device.ranks[0], main, site="refused"),
    }
    for peer in at.peers[:1]:
        uses["send"] = partial(device.send, buffer, peer, main)
        uses["recv"] = partial(device.recv, buffer, peer, main)
    for name, use in uses.items():
        refused(RuntimeError, f"{name} of {what}", use)
