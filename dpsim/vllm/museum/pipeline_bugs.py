"""Variants of pipelines: bugs that engines really had, each the healthy program with the bug in about ten lines.

A few pipeline bugs need code that the default program does not have, such as a warm-up before serving. For such a bug,
a healthy variant adds the code and is the `twin` of the faulty variant.
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

HEALTHY = "healthy: the program with additional code, the twin of"
TABLE = 10_000  # int64 numbers: more than gloo or the simulation sends before the receiver posts its receive


# ---- the broadcast of sampled tokens


@mutant("page-002", "MISMATCH:COLLECTIVE:COUNT")
class Page002(Page002Tokens):
    """Source page 002 (vLLM 0.24) unchanged: its width and its mask of a broadcast fail with speculative decoding.

    Vllm pull requests 46994 and 54436 repair them.
    """


@mutant("pp-unmatched-bcast", "HANG:COLLECTIVE:MISSING_RANK")
class ForgetsToSend(SampledTokens):
    """The last stage does not send the sampled tokens that the other stages receive, as after an incomplete merge.

    Reports: vllm-omni pull request 7393; vllm 33701 and 40749.
    """

    def skips_send(self, need: tuple[bool, ...] | None) -> bool:
        return True


@mutant("pp-gate-from-mirror", "DISAGREEMENT:NEED")
class GateFromMirror(SampledTokens):
    """Each stage decides by its own request lengths which rows need a token.

    Only the last stage subtracts rejected drafts from its lengths. So the lengths of the stages drift apart, until one
    stage broadcasts and another does not (vllm issue 54260).
    """

    def row_needs(self, row: Row) -> bool:
        known = row.position if self.is_last else row.computed
        return row.samples and not reaches(row.limit, max(known, row.prefill) + 1)


@mutant("pp-record-stream", "RACE:REUSED_IN_FLIGHT")
class GathersOnSide(Stage):
    """A side stream gathers draft tokens, and the allocator does not record that this stream reads the mapping.

    So the mapping of the next step gets the same memory and overwrites it (vllm issue 56470, pull request 55745). Here
    the side stream reads the drafts from a copy, whose use the allocator does record.
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


# ---- a warm-up before serving


SYNTHETIC = -1
WARM_UP = (
    Batch(0, (), (Admission(SYNTHETIC, (0,)),), (Row(SYNTHETIC, 0, 1, 1, 4, 0),)),
    Batch(1, (), (), (Row(SYNTHETIC, 1, 1, 1, 4, 1),)),
    Batch(2, (SYNTHETIC,), (), ()),
)
"""Three steps of a synthetic request without a client: a prefill, a decode at once, and the free of its slot.

No step waits for the token of the previous step.
"""


@mutant("pp-warms-up", None, f"{HEALTHY} pp-warmup-bcast")
class WarmsUp(Stage):
    """A stage runs synthetic steps before it serves, and orders all communication of one step before the next step.

    There are no more steps than staging buffers, so the host waits for its device only once, at the end.
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
        """Samples after the hidden states of this step, and orders the tokens before the transfers of the next step."""
        assert self.tokens is not None
        assert self.transfer is not None
        self.tokens.side.wait_stream(self.transfer.sending())
        result = super().sample_tokens(masks)
        for stream in (self.transfer.receiving(), self.transfer.sending()):
            self.before_next(stream, self.tokens.side)
        return result

    def before_next(self, stream: Stream, side: Stream) -> None:
        """Lets `stream`, which transfers the next step's hidden states, wait for `side`, which transfers tokens."""
        stream.wait_stream(side)

    def drop(self, result: StepResult | None) -> None:
        """Frees the buffers of a result that no client receives."""
        assert result is not None
        for buffer in (result.inputs, result.tokens, result.counts):
            if buffer is not None:
                buffer.free()


@mutant("pp-warmup-bcast", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", twin="pp-warms-up")
class WarmsUpUnordered(WarmsUp):
    """In the warm-up no event orders the receive of tokens, which spins on the device, before the next hidden states.

    The last stage cannot send tokens while its device spins in the receive of those hidden states. The hidden states do
    not arrive either, because the stage that would send them spins in the receive of the tokens. (Vllm pull request
    56956, open.)
    """

    def before_next(self, stream: Stream, side: Stream) -> None:
        if self.warm:
            super().before_next(stream, side)


# ---- the transfer of hidden states


@mutant("pp-both-ways", None, f"{HEALTHY} pp-blocking-metadata", form="0.33")
class BothWays(Transfer):
    """Before each transfer, neighbouring stages send each other a table that is too large for an eager send."""

    async def receive(self) -> Received:
        await self.exchange(self.before)
        return await super().receive()

    async def send(self, tensors: Mapping[str, Buffer]) -> None:
        await self.exchange(self.after)
        await super().send(tensors)

    async def exchange(self, neighbour: int | None) -> None:
        """Posts a send to the neighbour and then receives from it; the neighbour does the same."""
        assert neighbour is not None
        self.handles.append(self.host.send(np.zeros(TABLE, np.int64), neighbour, site="table.send"))
        await self.wait_for_description()
        await self.host.recv(TABLE, "int64", neighbour, site="table.receive")


@mutant("pp-blocking-metadata", "HANG:P2P:*", form="0.33", twin="pp-both-ways")
class BlockingMetadata(BothWays, WaitsForDescription):
    """A stage waits in its send until the neighbour receives, and the neighbour does the same: both send first.

    Vllm pull request 49274 repairs this.
    """


class Driven:
    """A host send that makes progress only while its sender awaits it, as MPI allows."""

    def __init__(self, start: Callable[[], Awaitable[HostArray]]) -> None:
        self.start = start

    def __await__(self) -> Generator[Any, Any, HostArray]:
        return self.start().__await__()


@mutant("pp-driven-sends", None, f"{HEALTHY} trt-isend-unwaited")
class DrivenSends(WaitsForDescription):
    """A host send makes progress only while its sender awaits it, and the receiver acknowledges the tensors.

    The sender waits for the acknowledgement, because the end of a send is no proof of a receive. NCCL may complete a
    send earlier, for example one of up to 64 MiB between two H200s.
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
    """The host waits for the acknowledgement of its tensors before it awaits the send of their description.

    So the description never leaves the sender, and the receiver never receives the tensors. TensorRT-LLM pull request
    10665 reports this hang; it is certain where kernel launches block.
    """

    async def wait_for_description(self) -> None:
        pass


# ---- the KV cache


@mutant("kv-loaded", None, f"{HEALTHY} kv-free-inflight")
class LoadsCache(Stage):
    """When a request gets its cache slot, a separate stream loads the slot from elsewhere."""

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
        """Orders the load after the steps in flight, which still write to the slots of requests that have ended."""
        self.loader.wait_stream(self.main)


def load(cache: Any, slots: tuple[int, ...]) -> None:
    """Kernel: loads the given cache slots, here with zeros."""
    for slot in slots:
        cache[:, slot] = 0


@mutant("kv-free-inflight", "RACE:BUFFER", twin="kv-loaded")
class FreesInFlight(LoadsCache):
    """A load fills a cache slot while a step in flight still writes the slot for the request that had it before.

    Vllm pull requests 45357 and 47728 report this. There the request ends with the result of the previous step; here a
    client aborts it. The whole cache is one buffer in the model, so a race report is exact only in a scenario with one
    slot.
    """

    def fence(self) -> None:
        pass
