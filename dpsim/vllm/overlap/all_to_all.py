"""The all-to-all of the experts, and where a microbatch yields in it (specification 4.4).

A dispatch sends each token to the rank of its expert, and a combine brings it back. A microbatch yields to the next one
while it communicates. There are two forms:

    high throughput   the kernels run on the comm stream. A microbatch yields before each, and once more before it takes
                      back what a combine brought
    low latency       a kernel sends, and the network works beside all streams. A hook completes the receive; the next
                      microbatch runs that hook after it has enqueued its own computing

Some buffers are allocated on one stream and used on another. The rank frees them right after their last call, and
`record_stream` makes the allocator keep them until the other stream is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dpsim.contract.interface import Buffer, Event, Rank, Stream
from dpsim.vllm.overlap.hooks import Dbo
from dpsim.vllm.overlap.routing import Route, permute, unpermute
from dpsim.vllm.overlap.sm_control import SMControl
from dpsim.vllm.overlap.state import ForwardState


class AllToAll(ABC):
    """`handles`: for each microbatch, the dispatch to which its combine belongs (invariant I-BT-8)."""

    def __init__(self, rank: Rank, state: ForwardState, dbo: Dbo, sms: SMControl, shares: int) -> None:
        self.rank, self.state, self.dbo, self.sms, self.shares = rank, state, dbo, sms, shares
        self.experts = rank.device("ep")
        self.handles: dict[int, Route] = {}

    @abstractmethod
    async def dispatch(self, layer: int, hidden: Buffer) -> Buffer:
        """Send this rank's tokens to their experts. Returns the tokens for its own expert, on the compute stream."""

    @abstractmethod
    async def combine(self, outgoing: Buffer, num_tokens: int) -> Buffer:
        """Send the tokens back, and free `outgoing`. Returns this rank's tokens in their former order."""

    # ---- what both have

    def route(self, layer: int) -> Route:
        """From the counts of the forward context: those of this microbatch on all ranks."""
        forward = self.state.running_context()
        counts = [rows for rows in forward.context.counts for _ in range(self.shares)]
        return Route.of(layer, forward.first_token, counts, self.experts.index)

    def handle(self) -> int:
        """The key under which the rank keeps the dispatch until its combine: the number of the microbatch."""
        return self.dbo.current_ubatch_id

    def permuted(self, route: Route, hidden: Buffer) -> tuple[Buffer, Buffer]:
        """Sort the rows to send by expert. Returns them, and a buffer for the rows to receive."""
        stream = self.dbo.stream
        sent = stream.alloc(hidden.shape, "int32", "dispatch.sent")
        received = stream.alloc(sum(route.output_sizes), "int32", "dispatch.received")
        stream.launch("dispatch.permute", permute, reads=[hidden], writes=[sent], args=(route.order,), cost=0)
        return sent, received

    def exchange(
        self, output: Buffer, source: Buffer, to: Sequence[int], come: Sequence[int], stream: Stream, site: str
    ) -> None:
        """Run the collective. `to`: the rows to each rank. `come`: the rows from each rank."""
        self.sms.check(self.dbo.enabled)
        self.experts.all_to_all(output, source, stream, output_sizes=come, source_sizes=to, site=site)

    def unpermuted(self, route: Route, combined: Buffer, hidden: Buffer) -> None:
        self.dbo.stream.launch(
            "combine.unpermute",
            unpermute,
            reads=[combined],
            writes=[hidden],
            args=(route.order, route.marks),
            cost=0,
        )

    def drop(self, buffer: Buffer, used_on: Stream) -> None:
        """Free a buffer whose last use is on the stream `used_on`."""
        buffer.record_stream(used_on)
        buffer.free()


class HighThroughput(AllToAll):
    """The high-throughput form: its kernels run on the comm stream."""

    async def dispatch(self, layer: int, hidden: Buffer) -> Buffer:
        route = self.route(layer)
        sent, received = self.permuted(route, hidden)
        previous = self.dbo.get_previous_event(lambda stream: stream.record())
        await self.dbo.yield_and_switch_from_compute_to_comm()
        stream = self.dbo.stream
        if previous is not None:
            stream.wait(previous)
        self.exchange(received, sent, route.source_sizes, route.output_sizes, stream, "experts.dispatch")
        self.drop(sent, stream)
        self.handles[self.handle()] = route
        self.dbo.switch_to_compute_sync()
        return received

    async def combine(self, outgoing: Buffer, num_tokens: int) -> Buffer:
        stream = self.dbo.stream
        combined = stream.alloc(num_tokens, "int32", "combine.rows")
        hidden = stream.alloc(num_tokens, "int32", "hidden")
        await self.dbo.yield_and_switch_from_compute_to_comm()
        stream = self.dbo.stream
        route = self.handles[self.handle()]
        self.exchange(combined, outgoing, route.output_sizes, route.source_sizes, stream, "experts.combine")
        self.drop(outgoing, stream)
        self.dbo.switch_to_compute()
        self.shared_experts()
        await self.receive(route, combined, hidden)
        return hidden

    def shared_experts(self) -> None:
        """Compute the shared experts while the combine runs. This model has none."""

    async def receive(self, route: Route, combined: Buffer, hidden: Buffer) -> None:
        """Write the combined rows in their former order."""
        self.dbo.switch_to_comm()
        stream = self.dbo.stream
        self.unpermuted(route, combined, hidden)
        self.drop(combined, stream)
        await self.dbo.yield_and_switch_from_comm_to_compute()


class ReceivedTwice(AssertionError):
    """The second run would take the next message, or wait for it (invariant I-BT-7)."""


class Receive:
    """The hook of a receive: it makes `stream` wait for the event `done`, which marks the arrival."""

    def __init__(self, stream: Stream, done: Event) -> None:
        self.stream, self.done = stream, done
        self.complete = False

    def __call__(self) -> None:
        """Raises ReceivedTwice at the second call."""
        if self.complete:
            raise ReceivedTwice("the hook of a receive runs a second time (I-BT-7)")
        self.complete = True
        self.stream.wait(self.done)


class LowLatency(AllToAll):
    """The low-latency form: the network works beside all streams, and a hook completes the receive."""

    async def dispatch(self, layer: int, hidden: Buffer) -> Buffer:
        route = self.route(layer)
        self.dbo.maybe_run_recv_hook()
        sent, received = self.permuted(route, hidden)
        self.handles[self.handle()] = route
        await self.send(received, sent, route.source_sizes, route.output_sizes, "experts.dispatch")
        return received

    async def combine(self, outgoing: Buffer, num_tokens: int) -> Buffer:
        stream = self.dbo.stream
        route = self.handles[self.handle()]
        self.dbo.maybe_run_recv_hook()
        combined = stream.alloc(num_tokens, "int32", "combine.rows")
        hidden = stream.alloc(num_tokens, "int32", "hidden")
        await self.send(combined, outgoing, route.output_sizes, route.source_sizes, "experts.combine")
        self.unpermuted(route, combined, hidden)
        combined.free()
        return hidden

    async def send(self, output: Buffer, source: Buffer, to: Sequence[int], come: Sequence[int], site: str) -> None:
        """Send, register the hook of the receive at the next microbatch, and yield."""
        stream, network = self.dbo.stream, self.rank.stream("network")
        network.wait_stream(stream)
        self.exchange(output, source, to, come, network, site)
        self.drop(source, network)
        done = network.record()
        self.dbo.register_recv_hook(Receive(stream, done))
        await self.dbo.yield_()
