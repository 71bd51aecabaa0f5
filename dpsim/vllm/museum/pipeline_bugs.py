"""Historical bugs of pipelines, area 3: bugs of engines, each in ten lines at the place of the report.

Some bugs need a schedule or a transport that the protocol does not have. A healthy extension adds it, beside the bug,
and the bug names it as its `twin`: the bug alone is the difference between the two.

Not here: pp-captured-recv, which needs graphs (`dpsim.vllm.museum.graph_bugs`).

    protocol: {name: pp_tokens, variant: pp-record-stream}
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, HostArray, Stream
from dpsim.vllm.model import kernels
from dpsim.vllm.museum.tokens import mutant
from dpsim.vllm.pipeline.batches import Admission, Batch, InputBatch, Row, StepResult
from dpsim.vllm.pipeline.need_mask import reaches
from dpsim.vllm.pipeline.page_002 import Page002Tokens
from dpsim.vllm.pipeline.request_table import gather
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.stage import Stage
from dpsim.vllm.pipeline.transfer import Received, Transfer, WaitsForDescription

HEALTHY = "healthy: an extension of the protocol, the twin of"
TABLE = 10_000  # numbers of 8 bytes, more than gloo or the simulation sends eagerly


# ---- sampled tokens


@mutant("page-002", "MISMATCH:COLLECTIVE:COUNT")
class Page002(Page002Tokens):
    """Source page 002 as it stands: its width and its mask, both of which fail with speculative decoding.

    Pull requests 46994 and 54436 of vllm.
    """


@mutant("pp-unmatched-bcast", "HANG:COLLECTIVE:MISSING_RANK")
class ForgetsToSend(SampledTokens):
    """A merge brought the receive, but not the send (vllm-omni pull request 7393; vllm 33701, 40749)."""

    def skips_send(self, need: tuple[bool, ...] | None) -> bool:
        return True


@mutant("pp-gate-from-mirror", "DISAGREEMENT:NEED")
class GateFromMirror(SampledTokens):
    """Each stage decides by its own lengths whether a row needs its token. Only the last subtracts rejected drafts.

    The mirrors drift apart until one side broadcasts and the other does not (vllm issue 54260).
    """

    def row_needs(self, row: Row) -> bool:
        known = row.position if self.is_last else row.computed
        return row.samples and not reaches(row.limit, max(known, row.prefill) + 1)


@mutant("pp-record-stream", "RACE:REUSED_IN_FLIGHT")
class GathersOnSide(Stage):
    """The side stream gathers drafts, and the allocator does not know that it reads the mapping there.

    The next step's mapping gets the memory and overwrites it (vllm issue 56470, pull request 55745). The drafts come
    from a copy here, and the allocator knows of it.
    """

    def draft_tokens(self, input_batch: InputBatch) -> None:
        self.table.propose(input_batch.mapping)
        if self.tokens is not None:
            proposed = self.main.alloc(self.table.drafts.shape, "int64", "drafts.proposed")
            self.main.launch("drafts.copy", kernels.copy, reads=[self.table.drafts], writes=[proposed])
            self.tokens.join_side()
            drafts = self.tokens.side.alloc((len(input_batch.slots), self.drafts), "int64", "drafts.sent")
            self.tokens.side.launch("drafts.gather", gather, reads=[proposed, input_batch.mapping], writes=[drafts])
            self.tokens.broadcast_drafts(drafts)
            proposed.record_stream(self.tokens.side)
            proposed.free()
            drafts.free()


# ---- a warm-up


SYNTHETIC = -1
WARM_UP = (
    Batch(0, (), (Admission(SYNTHETIC, (0,)),), (Row(SYNTHETIC, 0, 1, 1, 4, 0),)),
    Batch(1, (), (), (Row(SYNTHETIC, 1, 1, 1, 4, 1),)),
    Batch(2, (SYNTHETIC,), (), ()),
)
"""A request without a client is prefilled and decodes at once: no step waits for the token of the step before."""


@mutant("pp-warms-up", None, f"{HEALTHY} pp-warmup-bcast")
class WarmsUp(Stage):
    """Synthetic steps come before serving. All communication has one order, which is that of the steps.

    There are no more steps than staging buffers, so the host waits for its device once, at the end.
    """

    warm = False

    async def run(self) -> None:
        for self.rank.step, batch in enumerate(WARM_UP, -len(WARM_UP)):
            await self.execute(batch)
            if batch.rows:
                self.drop(self.sample_tokens())
        await self.main.record().synchronize("warm_up.synchronize")
        self.warm = True
        await super().run()

    def sample_tokens(self, masks: tuple[tuple[int, ...], ...] = ()) -> StepResult | None:
        """Sample behind the hidden states of this step."""
        assert self.tokens is not None
        assert self.transfer is not None
        self.tokens.side.wait_stream(self.transfer.sending())
        result = super().sample_tokens(masks)
        for stream in (self.transfer.receiving(), self.transfer.sending()):
            self.before_next(stream, self.tokens.side)
        return result

    def before_next(self, stream: Stream, side: Stream) -> None:
        """Order the tokens before the hidden states of the next step."""
        stream.wait_stream(side)

    def drop(self, result: StepResult | None) -> None:
        """Free a result, which no client receives."""
        assert result is not None
        for buffer in (result.inputs, result.tokens, result.counts):
            if buffer is not None:
                buffer.free()


@mutant("pp-warmup-bcast", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", twin="pp-warms-up")
class WarmsUpUnordered(WarmsUp):
    """In the warm-up a receive of tokens, which spins on the device, has no order with hidden states of the next step.

    The last stage cannot send tokens while a receive of those hidden states holds its device. They do not arrive,
    because the stage that would send them spins (vllm pull request 56956, open).
    """

    def before_next(self, stream: Stream, side: Stream) -> None:
        if self.warm:
            super().before_next(stream, side)


# ---- hidden states


@mutant("pp-both-ways", None, f"{HEALTHY} pp-blocking-metadata", form="0.33")
class BothWays(Transfer):
    """Neighbours first send each other what they hold, a table that is too large for an eager send."""

    async def receive(self) -> Received:
        await self.exchange(self.before)
        return await super().receive()

    async def send(self, tensors: Mapping[str, Buffer]) -> None:
        await self.exchange(self.after)
        await super().send(tensors)

    async def exchange(self, neighbour: int | None) -> None:
        """Post a send, then receive. Both neighbours do so."""
        assert neighbour is not None
        self.handles.append(self.host.send(np.zeros(TABLE, np.int64), neighbour, site="table.send"))
        await self.wait_for_description()
        await self.host.recv(TABLE, "int64", neighbour, site="table.receive")


@mutant("pp-blocking-metadata", "HANG:P2P:*", form="0.33", twin="pp-both-ways")
class BlockingMetadata(BothWays, WaitsForDescription):
    """A posted send waits until the receiver takes it, and both neighbours send first.

    Vllm pull request 49274.
    """


class Driven:
    """A send that moves only while its sender waits for it, as those of MPI may."""

    def __init__(self, start: Callable[[], Awaitable[HostArray]]) -> None:
        self.start = start

    def __await__(self) -> Generator[Any, Any, HostArray]:
        return self.start().__await__()


@mutant("pp-driven-sends", None, f"{HEALTHY} trt-isend-unwaited")
class DrivenSends(WaitsForDescription):
    """A send over host memory moves only while its sender waits for it; and the host waits until tensors were taken.

    The receiver says that it took them, as NCCL may end a send earlier, one of up to 64 MiB between two H200s.
    """

    def send_on_host(self, array: HostArray, site: str) -> Awaitable[HostArray]:
        return Driven(lambda: WaitsForDescription.send_on_host(self, array, site))

    async def send(self, tensors: Mapping[str, Buffer]) -> None:
        await super().send(tensors)
        assert self.after is not None
        taken = self.sending().alloc(1, "int64", "taken")
        self.device.recv(taken, self.after, self.sending(), site="taken.receive")
        await taken.read("taken.read", self.sending())
        taken.free()

    async def receive(self) -> Received:
        received = await super().receive()
        assert self.before is not None
        taken = self.receiving().alloc(1, "int64", "taken")
        self.receiving().launch("taken.fill", kernels.fill, writes=[taken], args=(1,), cost=0)
        self.device.send(taken, self.before, self.receiving(), site="taken.send")
        taken.free()
        return received


@mutant("trt-isend-unwaited", "HANG:P2P:*", twin="pp-driven-sends")
class IsendUnwaited(DrivenSends):
    """The host waits for its tensors first, and the send of their description never moves.

    TensorRT-LLM pull request 10665; certain where launches block.
    """

    async def wait_for_description(self) -> None:
        pass


# ---- the cache


@mutant("kv-loaded", None, f"{HEALTHY} kv-free-inflight")
class LoadsCache(Stage):
    """When a request gets its slot, a separate stream fills its cache from elsewhere."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.loader = self.rank.stream("kv_load")
        self.loader.wait_stream(self.main)

    def update_slots(self, batch: Batch) -> None:
        super().update_slots(batch)
        if batch.admitted:
            self.fence()
            slots = tuple(self.slots.of[one.request] for one in batch.admitted)
            self.loader.launch("kv.load", load, writes=[self.cache], args=(slots,))
            self.main.wait_stream(self.loader)

    def fence(self) -> None:
        """Order the load behind steps in flight, which write to slots of requests that are gone."""
        self.loader.wait_stream(self.main)


def load(cache: Any, slots: tuple[int, ...]) -> None:
    """Kernel: load the cache of some slots, here with zeros."""
    for slot in slots:
        cache[:, slot] = 0


@mutant("kv-free-inflight", "RACE:BUFFER", twin="kv-loaded")
class FreesInFlight(LoadsCache):
    """A load fills a slot while a step in flight still writes the cache of its former request.

    Vllm pull requests 45357 and 47728. There the request ends with the result of the step before; here the client
    aborts it. The whole cache is one buffer here, so the finding is exact if there is one slot.
    """

    def fence(self) -> None:
        pass
