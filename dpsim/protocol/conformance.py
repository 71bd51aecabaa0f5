"""Every call of the contract at least once, with results that a formula predicts.

Not a protocol of vLLM: the program by which a backend shows that it does what `dpsim.interface` says. Each rank knows
what every other rank sends, so it can compute every result by itself and says at once which call gave something else,
and which sentence of the contract that breaks. All numbers are exact in their type: "almost equal" does not occur.

    protocol: {name: conformance}

It asks for the communicators that every world has, "dp_cpu" on the host, "dp" and "ep" on the device, and runs on
groups of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from dpsim.interface import Buffer, DeviceCommunicator, Frozen, HostArray, Rank
from dpsim.ops import DType
from dpsim.registry import Program, register_protocol

DTYPES: tuple[DType, ...] = get_args(DType)
WIDE: dict[DType, int] = {"int32": 1 << 16, "int64": 1 << 40, "float32": 1 << 8}
"""Added to values of a type: a cut of int64 to 32 bits shows; sums over 4,096 ranks are still exact."""


@register_protocol("conformance")
class Conformance(Program):
    """Every call of the contract at least once, with results that a formula predicts.

    Argument: `rounds` (default 3); a round is a step. Raises AssertionError where the backend breaks the contract.
    """

    def prepare(self, args: Mapping[str, Any]) -> int:
        return int(args.get("rounds", 3))

    def steps(self, prepared: int) -> int:
        return prepared

    async def run(self, rank: Rank, prepared: int) -> None:
        for step in range(prepared):
            rank.step = step
            await _Round(rank, step).run()


class _Round:
    """One pass through the contract. Methods in order; each ends with the streams drained."""

    def __init__(self, rank: Rank, step: int) -> None:
        self.rank = rank
        self.step = step
        self.main = rank.stream("main")
        self.host = rank.host("dp_cpu")

    async def run(self) -> None:
        self.names()
        for dtype in DTYPES:
            await self.host_collectives(dtype)
            await self.kernels(dtype)
            for kind in ("dp", "ep"):
                await self.device_collectives(self.rank.device(kind), dtype)
        await self.overlap()
        await self.reuse()
        await self.refusals()
        self.decide()

    def names(self) -> None:
        """A rank knows its step, its streams by name, and its place in each group."""
        expect("Rank.step", self.rank.step, self.step, "the tag that the protocol set stays until it sets another")
        expect("Stream.name", self.main.name, "main", "a stream has the name that it was asked for by")
        expect("Rank.stream", self.rank.stream("main") is self.main, True, "it is made at first use and then the same")
        for group in (self.host, self.rank.device("dp"), self.rank.device("ep")):
            place = group.ranks.index(self.rank.rank), len(group.ranks)
            expect(f"{group.name}.index, .size", (group.index, group.size), place, "a rank's position in `ranks`")

    async def host_collectives(self, dtype: DType) -> None:
        """Sum and broadcast of host memory; what was sent is not changed."""
        ranks, mine = self.host.ranks, self.array(self.rank.rank, dtype)
        law = "a new array with the sum over the group, of the shape and type that was sent"
        total = np.sum([self.array(rank, dtype) for rank in ranks], axis=0, dtype=dtype)
        expect(f"host all_reduce of {dtype}", await self.host.all_reduce(mine), total, law)
        for root in ranks:
            law = f"the array of global rank {root} on every member"
            came = await self.host.broadcast(mine, root, site="conformance.host.broadcast")
            expect(f"host broadcast of {dtype}", came, self.array(root, dtype), law)
        law = "host collectives give a new array and leave what was sent as it is"
        expect(f"the {dtype} array sent", mine, self.array(self.rank.rank, dtype), law)

    async def kernels(self, dtype: DType) -> None:
        """Kernels read some buffers and write others, in stream order, with arguments bound at launch."""
        flat = self.alloc(6, dtype)
        table = self.main.alloc((2, 3), dtype, "conformance.table")
        self.main.launch("conformance.fill", ramp, writes=[flat], args=(WIDE[dtype] + self.rank.rank,), cost=1_000)
        args: tuple[Frozen, ...] = (self.step, 2.0, True, "add", None, (1, (2, 3)))
        self.main.launch("conformance.fold", fold, reads=[flat], writes=[table], args=args)
        self.main.launch("conformance.flip", flip, writes=[table])
        ramped = WIDE[dtype] + self.rank.rank + np.arange(6)
        law = "the content after all work put on the buffer's stream so far, as a numpy array of its shape and type"
        expect(f"read of {dtype}[6]", await flat.read("conformance.read"), ramped.astype(dtype), law)
        folded = (ramped.reshape(2, 3) + self.step + 2 + 6)[:, ::-1].astype(dtype)
        expect(f"read of {dtype}[2, 3]", await table.read("conformance.read"), folded, law)
        flat.free()
        table.free()

    async def device_collectives(self, group: DeviceCommunicator, dtype: DType) -> None:
        """Sum and broadcast in place, in stream order with the kernels around them."""
        buffer = self.alloc(4, dtype)
        sent = [WIDE[dtype] + rank + np.arange(4) for rank in group.ranks]
        self.main.launch("conformance.fill", ramp, writes=[buffer], args=(WIDE[dtype] + self.rank.rank,))
        group.all_reduce(buffer, self.main)
        self.main.launch("conformance.increase", increase, writes=[buffer])
        law = "an in-place sum over the group, after the kernels before it on the stream and before those after it"
        total = np.sum(sent, axis=0) + 1
        expect(f"{group.name} all_reduce of {dtype}", await buffer.read("conformance.read"), total.astype(dtype), law)
        for root, content in zip(group.ranks, sent, strict=True):
            self.main.launch("conformance.fill", ramp, writes=[buffer], args=(WIDE[dtype] + self.rank.rank,))
            group.broadcast(buffer, root, self.main, site="conformance.device.broadcast")
            came = await buffer.read("conformance.read")
            law = f"the buffer of global rank {root} in place on every member"
            expect(f"{group.name} broadcast of {dtype}", came, content.astype(dtype), law)
        buffer.free()

    async def overlap(self) -> None:
        """Two host collectives under way at once, with device work running on below them."""
        mine, root = self.array(self.rank.rank, "int64"), self.host.ranks[self.step % self.host.size]
        buffer = self.alloc(4, "int32")
        first = self.host.all_reduce(mine, site="conformance.first")
        second = self.host.broadcast(mine, root, site="conformance.second")
        self.main.launch("conformance.fill", ramp, writes=[buffer], args=(self.step,))
        mine[:] = -1
        law = "a host collective starts when it is called, with the content that the array has then"
        total = np.sum([self.array(rank, "int64") for rank in self.host.ranks], axis=0)
        expect("the first of two host collectives", await first, total, law)
        expect("the second of two host collectives", await second, self.array(root, "int64"), law)
        law = "the host runs ahead of its streams"
        expect("work launched between", await buffer.read("conformance.read"), ramped32(self.step), law)
        buffer.free()

    async def reuse(self) -> None:
        """Memory that is freed and taken again while the stream still reads it."""
        old, copy = self.alloc(4, "int32"), self.alloc(4, "int32")
        self.main.launch("conformance.fill", ramp, writes=[old], args=(10,))
        self.main.launch("conformance.copy", copy_to, reads=[old], writes=[copy])
        old.free()
        new = self.alloc(4, "int32")
        self.main.launch("conformance.fill", ramp, writes=[new], args=(20,))
        law = "memory that was freed is reused in stream order: earlier work on it is done before"
        expect("a copy of a freed buffer", await copy.read("conformance.read"), ramped32(10), law)
        expect("a buffer in reused memory", await new.read("conformance.read"), ramped32(20), law)
        copy.free()
        new.free()

    async def refusals(self) -> None:
        """What the contract refuses, before anything is sent into the world."""
        other = max(self.host.ranks) + 1
        buffer, sent = self.alloc(1, "int32"), np.zeros(1, np.int32)
        with_root = "a root that is no member of the group"
        refused(ValueError, with_root, lambda: self.host.broadcast(sent, other))
        device = self.rank.device("dp")
        refused(ValueError, with_root, lambda: device.broadcast(buffer, other, self.main))
        me = self.rank.rank
        with_self = "a transfer of a rank with itself"
        refused(ValueError, with_self, lambda: self.host.send(sent, me))
        refused(ValueError, with_self, lambda: self.host.recv(1, "int32", me))
        refused(ValueError, with_self, lambda: device.send(buffer, me, self.main))
        refused(ValueError, with_self, lambda: device.recv(buffer, me, self.main))
        for peer in self.peers[:1]:
            with device.coalesced(self.main):
                send = partial(device.send, buffer, peer, self.rank.stream("side"))
                refused(ValueError, "a transfer within a group on another stream", send)
                refused(RuntimeError, "a group within a group", lambda: device.coalesced(self.main))
                refused(RuntimeError, "a collective within a group", lambda: device.all_reduce(buffer, self.main))
        refused(KeyError, "a host communicator that the rank does not have", lambda: self.rank.host("no such kind"))
        refused(KeyError, "a device communicator that the rank does not have", lambda: self.rank.device("no such kind"))
        refused(TypeError, "a kernel that is a closure", lambda: self.main.launch("refused", closure(other)))
        work = self.host.all_reduce(sent, site="conformance.once")
        await work
        try:
            await work
        except RuntimeError:
            pass
        else:
            raise AssertionError("a host collective was awaited twice without a RuntimeError; the result is given once")
        piece = buffer.view(0, 1)
        buffer.free()
        self.freed(buffer, "a buffer that was freed")
        self.freed(piece, "a view of a buffer that was freed")
        refused(RuntimeError, "to free a buffer twice", buffer.free)

    def freed(self, buffer: Buffer, what: str) -> None:
        """Memory that may hold something else by now is used no more, in no way."""
        device, main = self.rank.device("dp"), self.main
        uses: dict[str, Callable[[], object]] = {
            "launch": lambda: main.launch("refused", increase, writes=[buffer]),
            "read": lambda: buffer.read("refused"),
            "view": lambda: buffer.view(0, 1),
            "record_stream": lambda: buffer.record_stream(main),
            "all_reduce": lambda: device.all_reduce(buffer, main, site="refused"),
            "broadcast": lambda: device.broadcast(buffer, device.ranks[0], main, site="refused"),
        }
        for peer in self.peers[:1]:
            uses["send"] = partial(device.send, buffer, peer, main)
            uses["recv"] = partial(device.recv, buffer, peer, main)
        for name, use in uses.items():
            refused(RuntimeError, f"{name} of {what}", use)

    def decide(self) -> None:
        """A value that all members decide equally, for a host group and for a device group."""
        self.rank.decide("conformance", (self.step, len(self.host.ranks)), "dp_cpu")
        self.rank.decide("conformance.device", ("equal", True, None, 0.5), "ep")

    # ---- what is sent

    @property
    def peers(self) -> list[int]:
        """The other members of the device group."""
        return [rank for rank in self.rank.device("dp").ranks if rank != self.rank.rank]

    def array(self, rank: int, dtype: DType) -> HostArray:
        """What a rank sends in this round, shape (2, 3)."""
        content: HostArray = (WIDE[dtype] + rank + self.step + np.arange(6)).reshape(2, 3).astype(dtype)
        return content

    def alloc(self, count: int, dtype: DType) -> Buffer:
        return self.main.alloc(count, dtype, "conformance.flat")


def expect(what: str, came: Any, wanted: Any, law: str) -> None:
    """Raise AssertionError with both values and the sentence of the contract that holds here."""
    if isinstance(wanted, np.ndarray):
        same = isinstance(came, np.ndarray) and (came.dtype, came.shape) == (wanted.dtype, wanted.shape)
        if same and (came == wanted).all():
            return
        wanted = f"{wanted.dtype}{list(wanted.shape)} {wanted.tolist()}"
        came = f"{came.dtype}{list(came.shape)} {came.tolist()}" if isinstance(came, np.ndarray) else repr(came)
    elif came == wanted:
        return
    raise AssertionError(f"{what}: expected {wanted}, came {came}. The contract: {law}")


def refused(error: type[Exception], what: str, call: Callable[[], object]) -> None:
    """Raise AssertionError if `call` does not raise `error`."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"{what} was accepted. The contract: it is a {error.__name__}, before anything is sent")


def ramped32(start: int) -> HostArray:
    """What `ramp` writes into four int32."""
    return np.arange(start, start + 4, dtype=np.int32)


# ---- kernels: the array API standard, on numpy and torch alike


def ramp(out: Any, start: int) -> None:
    """start, start + 1, ..."""
    xp = array_namespace(out)
    out[:] = xp.arange(start, start + out.shape[0], dtype=out.dtype, device=device_of(out))


def fold(flat: Any, table: Any, step: int, two: float, really: bool, how: str, nothing: None, nested: Any) -> None:
    """Reshape, and add what the arguments say. Values of every type that `Frozen` allows arrive as they were given."""
    assert (really, how, nothing, nested) == (True, "add", None, (1, (2, 3)))
    xp = array_namespace(flat)
    one, (second, third) = nested
    table[:, :] = xp.reshape(flat, tuple(table.shape)) + (step + int(two) + one + second + third)


def flip(table: Any) -> None:
    """Mirror each row, in place."""
    xp = array_namespace(table)
    table[:, :] = xp.flip(table, axis=1)


def increase(buffer: Any) -> None:
    """One more, in place. Before a sum it would count once for each rank."""
    buffer[:] = buffer + 1


def copy_to(source: Any, target: Any) -> None:
    target[:] = source


def closure(value: int) -> Callable[..., None]:
    """A kernel that no backend may accept."""

    def kernel(buffer: Any) -> None:
        buffer[:] = value

    return kernel
