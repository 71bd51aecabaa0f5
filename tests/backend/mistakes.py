"""Programs that break the contract in one way each, with the error that every backend must report for it.

Rank 1 makes the mistake in the first line of the method that the argument `how` names. The worker processes of gloo and
NCCL import this module by its name.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.ops import DTYPES
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from tests.programs import add, set_to

PLAIN = "; it must be a number, a string, a truth value, None or a tuple of these"
AWAIT = ": did you forget await? Until it is awaited there is no result"


class Pair(NamedTuple):
    first: int
    second: int


@register_protocol("mistakes")
class Mistakes(Program[Any]):
    """A protocol in which rank 1 makes the mistake that `how` names."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 7
        if rank.rank == 1 or prepared["how"] in TOGETHER:
            await getattr(self, prepared["how"])(rank)

    async def makes_them_all(self, rank: Rank) -> None:
        """Makes all mistakes of `SAID`, one after the other. It records each error in the journal as if it had ended
        the program.
        """
        told: Any = rank
        for how in SAID:
            try:
                await getattr(self, how)(rank)
            except BaseException as error:
                told.journal.raised(error)
        raise ValueError("no more")

    async def sends_a_numpy_number(self, rank: Rank) -> None:
        rank.send(0, "box", (1, np.int32(2)), "tell")  # type: ignore[arg-type]

    async def sends_without_a_site(self, rank: Rank) -> None:
        rank.send(0, "box", 1)  # type: ignore[call-arg]

    async def sums_with_a_positional_operation(self, rank: Rank) -> None:
        await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), "max")  # type: ignore[call-arg]

    async def sends_an_array(self, rank: Rank) -> None:
        rank.send(0, "box", np.zeros(2, np.int32), "tell")  # type: ignore[arg-type]

    async def sends_a_list(self, rank: Rank) -> None:
        rank.send(0, "box", [1, 2], "tell")  # type: ignore[arg-type]

    async def sends_names(self, rank: Rank) -> None:
        rank.send(0, "box", Pair(1, 2), "tell")

    async def sends_to_a_fraction(self, rank: Rank) -> None:
        rank.send(0.5, "box", 1, "tell")  # type: ignore[arg-type]

    async def decides_an_array(self, rank: Rank) -> None:
        rank.decide("plan", np.zeros(2, np.int32), "dp_cpu")  # type: ignore[arg-type]

    async def decides_a_set(self, rank: Rank) -> None:
        rank.decide("plan", (1, {2}), "dp_cpu")  # type: ignore[arg-type]

    async def decides_what_is_not_there_yet(self, rank: Rank) -> None:
        rank.decide("plan", rank.mailbox("box").poll("poll"), "dp_cpu")  # type: ignore[arg-type]

    async def passes_an_array(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", set_to, args=(np.zeros(2),))  # type: ignore[arg-type]

    async def costs_less_than_nothing(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", set_to, cost=-1)

    async def steps_by_halves(self, rank: Rank) -> None:
        rank.step = 7.5  # type: ignore[assignment]

    async def sleeps_backwards(self, rank: Rank) -> None:
        await rank.sleep(-1, "nap")

    async def sleeps_a_fraction(self, rank: Rank) -> None:
        await rank.sleep(0.5, "nap")  # type: ignore[arg-type]

    async def allocates_a_fraction(self, rank: Rank) -> None:
        rank.stream("main").alloc((2, 0.5), "int32", "x")  # type: ignore[arg-type]

    async def allocates_less_than_nothing(self, rank: Rank) -> None:
        rank.stream("main").alloc(-1, "int32", "x")

    async def receives_less_than_nothing(self, rank: Rank) -> None:
        await rank.host("dp_cpu").recv((2, -1), "int32", 0)

    async def names_half_a_root(self, rank: Rank) -> None:
        await rank.host("dp_cpu").broadcast(np.zeros(1, np.int32), 0.5)  # type: ignore[arg-type]

    async def gathers_fractions(self, rank: Rank) -> None:
        await rank.host("dp_cpu").all_gather(np.zeros(1, np.int32), sizes=[0.5, 0.5])  # type: ignore[list-item]

    async def takes_a_work_for_its_array(self, rank: Rank) -> None:
        rank.host("dp_cpu").send(np.zeros(1, np.int32), 0, site="sum").max()  # type: ignore[attr-defined]

    async def adds_to_a_work(self, rank: Rank) -> None:
        np.ones(1) + rank.host("dp_cpu").send(np.zeros(1, np.int32), 0, site="sum")  # type: ignore[operator]

    async def misspells_the_step(self, rank: Rank) -> None:
        rank.stpe = 3  # type: ignore[attr-defined]

    async def misspells_a_call(self, rank: Rank) -> None:
        await rank.host("dp_cpu").allreduce(np.zeros(1, np.int32))  # type: ignore[attr-defined]

    async def keeps_its_own_in_a_stream(self, rank: Rank) -> None:
        rank.stream("main").notes = []  # type: ignore[attr-defined]

    async def keeps_its_own_in_a_buffer(self, rank: Rank) -> None:
        rank.stream("main").alloc(1, "int32", "x").owner = 1  # type: ignore[attr-defined]

    async def keeps_its_own_in_a_communicator(self, rank: Rank) -> None:
        rank.device("dp").calls = 0  # type: ignore[attr-defined]

    async def replaces_a_call(self, rank: Rank) -> None:
        rank.send = print  # type: ignore[assignment, method-assign]

    async def awaits_a_plain_call(self, rank: Rank) -> None:
        await rank.stream("main").wait_stream(rank.stream("side"))  # type: ignore[misc]

    async def awaits_an_event(self, rank: Rank) -> None:
        await rank.stream("main").record()  # type: ignore[misc]

    async def awaits_a_capture(self, rank: Rank) -> None:
        await rank.graph("a").capture(rank.stream("main"))  # type: ignore[misc]

    async def enters_a_capture_by_with(self, rank: Rank) -> None:
        with rank.graph("a").capture(rank.stream("main")):  # type: ignore[attr-defined]
            pass

    async def replays_what_was_not_captured(self, rank: Rank) -> None:
        rank.graph("a").replay(rank.stream("main"), "go")

    async def names_a_graph_in_two_words(self, rank: Rank) -> None:
        rank.graph("a b")

    async def numbers_a_graph(self, rank: Rank) -> None:
        rank.graph(3)  # type: ignore[arg-type]

    async def takes_a_graph_from_two_pools(self, rank: Rank) -> None:
        [rank.graph("shared", pool) for pool in ("one", "two")]

    async def captures_a_name(self, rank: Rank) -> None:
        rank.graph("a").capture("main")  # type: ignore[arg-type]

    async def replays_on_a_name(self, rank: Rank) -> None:
        rank.graph("a").replay("main", "go")  # type: ignore[arg-type]

    async def captures_in_another_mode(self, rank: Rank) -> None:
        rank.graph("a").capture(rank.stream("main"), mode="local")  # type: ignore[arg-type]

    async def misspells_a_capture(self, rank: Rank) -> None:
        rank.graph("a").captures_it()  # type: ignore[attr-defined]

    async def keeps_its_own_in_a_graph(self, rank: Rank) -> None:
        rank.graph("a").sizes = [1, 2]  # type: ignore[attr-defined]

    async def launches_nothing(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", None)  # type: ignore[arg-type]

    async def launches_a_number(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", 3)  # type: ignore[arg-type]

    async def launches_a_partial_function(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", partial(set_to_first, numbers=[1]))

    async def launches_an_object(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", Filler())

    async def launches_a_method(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", Filler().fill)

    async def launches_a_method_of_a_list(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", [].clear)

    async def launches_what_returns(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", np.add)

    async def launches_a_default(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", set_to_first)

    async def launches_a_default_of_a_keyword(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", set_to_named)

    async def writes_no_list(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", set_to, writes=rank.stream("main").alloc(4, "int32", "x"), args=(1,))  # type: ignore[arg-type]

    async def writes_an_array(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", set_to, writes=[np.zeros(4)], args=(1,))  # type: ignore[list-item]

    async def reads_nothing(self, rank: Rank) -> None:
        rank.stream("main").launch("fill", set_to, reads=[None, None])  # type: ignore[list-item]

    async def decides_nan(self, rank: Rank) -> None:
        rank.decide("plan", float("nan"), "dp_cpu")

    async def sends_nan(self, rank: Rank) -> None:
        rank.send(0, "box", ("loss", (1, float("nan"))), "tell")

    async def tags_with_nan(self, rank: Rank) -> None:
        rank.stream("main").alloc(1, "int32", "x").tagged(float("nan"))

    async def decides_for_an_unknown_group(self, rank: Rank) -> None:
        rank.decide("plan", 1, "dpcpu")

    async def reduces_a_list(self, rank: Rank) -> None:
        await rank.host("dp_cpu").all_reduce([1, 2], site="sum")  # type: ignore[arg-type]

    async def reduces_a_number(self, rank: Rank) -> None:
        await rank.host("dp_cpu").all_reduce(1)  # type: ignore[arg-type]

    async def gathers_dates(self, rank: Rank) -> None:
        await rank.host("dp_cpu").all_gather(np.zeros(2, "M8[s]"), site="sum")

    async def sends_objects(self, rank: Rank) -> None:
        await rank.host("dp_cpu").send(np.array([None, {}]), 0, site="sum")

    async def reduces_in_another_order_of_bytes(self, rank: Rank) -> None:
        await rank.host("dp_cpu").all_reduce(np.zeros(1, ">i4"), site="sum")

    async def reduces_a_buffer_on_the_host(self, rank: Rank) -> None:
        await rank.host("dp_cpu").all_reduce(rank.stream("main").alloc(1, "int32", "x"))  # type: ignore[arg-type]

    async def reduces_what_is_not_there_yet(self, rank: Rank) -> None:
        await rank.host("dp_cpu").all_reduce(rank.mailbox("box").poll("poll"))  # type: ignore[arg-type]

    async def reduces_an_array_on_the_device(self, rank: Rank) -> None:
        rank.device("dp").all_reduce(np.zeros(2, np.int32), rank.stream("main"))  # type: ignore[arg-type]

    async def broadcasts_a_list_on_the_device(self, rank: Rank) -> None:
        rank.device("dp").broadcast([1, 2], 0, rank.stream("main"))  # type: ignore[arg-type]

    async def reduces_on_a_name(self, rank: Rank) -> None:
        rank.device("dp").all_reduce(rank.stream("main").alloc(1, "int32", "x"), "main")  # type: ignore[arg-type]

    async def receives_on_a_name(self, rank: Rank) -> None:
        rank.device("dp").recv(rank.stream("main").alloc(1, "int32", "x"), 0, "main")  # type: ignore[arg-type]

    async def reads_on_a_name(self, rank: Rank) -> None:
        await rank.stream("main").alloc(1, "int32", "x").read("read", "main")  # type: ignore[arg-type]

    async def records_a_name(self, rank: Rank) -> None:
        rank.stream("main").alloc(1, "int32", "x").record_stream("side")  # type: ignore[arg-type]

    async def receives_dates(self, rank: Rank) -> None:
        await rank.host("dp_cpu").recv(1, "datetime64[s]", 0)  # type: ignore[arg-type]

    async def awaits_what_is_not_of_its_rank(self, rank: Rank) -> None:
        await asyncio.sleep(0)

    async def sleeps_by_asyncio(self, rank: Rank) -> None:
        await asyncio.sleep(1)

    async def stacks_what_does_not_fit(self, rank: Rank) -> None:
        np.stack([np.zeros(1), np.zeros(2)])

    async def exits(self, rank: Rank) -> None:
        sys.exit("no more")

    async def exits_in_a_kernel(self, rank: Rank) -> None:
        rank.stream("main").launch("leave", leave)

    async def writes_what_it_reads(self, rank: Rank) -> None:
        x = rank.stream("main").alloc(4, "int32", "x")
        rank.stream("main").launch("fill", set_to, writes=[x], args=(1,))
        rank.stream("main").launch("scribble", set_to, reads=[x.view(1, 3)], args=(2,))
        await x.read("read")

    async def writes_through_the_wrong_argument(self, rank: Rank) -> None:
        x = rank.stream("main").alloc(4, "int32", "x")
        rank.stream("main").launch("fill", set_to, writes=[x], args=(1,))
        rank.stream("main").launch("scribble", swapped, reads=[x], writes=[x])
        await x.read("read")

    async def returns_something(self, rank: Rank) -> None:
        x = rank.stream("main").alloc(4, "int32", "x")
        rank.stream("main").launch("give", gives, writes=[x])
        await x.read("read")

    async def forgets_a_send(self, rank: Rank) -> None:
        rank.host("dp_cpu").send(np.zeros(1, np.int32), 0, site="lost")

    async def forgets_a_receive(self, rank: Rank) -> None:
        rank.host("dp_cpu").recv(1, "int32", 0, site="lost")

    async def forgets_a_poll(self, rank: Rank) -> None:
        rank.mailbox("box").poll("look")

    async def forgets_a_read(self, rank: Rank) -> None:
        x = rank.stream("main").alloc(4, "int32", "x")
        rank.stream("main").launch("fill", set_to, writes=[x], args=(1,))
        x.read("look")

    async def keeps_to_its_footprint(self, rank: Rank) -> None:
        """No mistake: the kernels read and write one buffer, as a whole and in parts, and name it in their launches."""
        x, main = rank.stream("main").alloc(4, "int32", "x"), rank.stream("main")
        main.launch("fill", set_to, writes=[x], args=(1,))
        main.launch("double", add, reads=[x], writes=[x])
        main.launch("add", add, reads=[x.view(0, 2)], writes=[x.view(2, 4)])
        assert (await x.read("read")).tolist() == [2, 2, 4, 4]

    async def passes_nan(self, rank: Rank) -> None:
        """No mistake: a kernel's argument may be NaN, because no check compares it."""
        x, main = rank.stream("main").alloc(1, "float32", "x"), rank.stream("main")
        main.launch("fill", set_to, writes=[x], args=(float("nan"),))
        main.launch("add", add, reads=(x,), writes=(x,))
        assert np.isnan(await x.read("read")).all()

    async def leaves_out_arguments(self, rank: Rank) -> None:
        """No mistake: a kernel may have a default that is plain data, because the program cannot change it."""
        x, main = rank.stream("main").alloc(2, "int32", "x"), rank.stream("main")
        main.launch("fill", set_to_three, writes=[x])
        assert (await x.read("read")).tolist() == [3, 3]

    async def exchanges_tables(self, rank: Rank) -> None:
        """No mistake: collectives accept arrays of two dimensions, and arrays that are not contiguous in memory."""
        table = np.arange(8, dtype=np.int64).reshape(4, 2)
        assert (await rank.host("dp_cpu").all_reduce(table[::2], site="sum")).tolist() == [[0, 2], [8, 10]]
        assert (await rank.host("dp_cpu").all_gather(table, site="all")).tolist() == [*range(8)] * 2

    async def counts_in_numpy(self, rank: Rank) -> None:
        """No mistake: numbers of numpy are valid where dpsim expects an integer. A decision may be a named tuple,
        because no rank sends it.
        """
        one = np.int64(1)
        rank.step = one  # type: ignore[assignment]
        await rank.sleep(one, "nap")  # type: ignore[arg-type]
        x = rank.stream("main").alloc((one, one), "int32", "x")  # type: ignore[arg-type]
        rank.stream("main").launch("fill", set_to, writes=[x], args=(1,), cost=one)  # type: ignore[arg-type]
        rank.decide("plan", Pair(1, 2), "dp_cpu")
        rank.send(one, "box", ((1, 2.0), True, "text", None), "tell")  # type: ignore[arg-type]


def leave() -> None:
    sys.exit(1)


def set_to_three(target: Any, three: int = 3, *, more: tuple[Any, ...] = (0, ("none", None))) -> None:
    target[:] = three


def set_to_first(target: Any, numbers: Any = [1]) -> None:  # noqa: B006
    target[:] = numbers[0]


def set_to_named(target: Any, *, number: Any = np.int32(1)) -> None:  # noqa: B008
    target[:] = number


class Filler:
    """A callable object that fills an array with the number that it has when it is called, not when it is launched."""

    number = 1

    def fill(self, target: Any) -> None:
        target[:] = self.number

    __call__ = fill


def swapped(source: Any, target: Any) -> None:
    source[:] = 3


def gives(target: Any) -> Any:
    target[:] = 1
    return 5


def kernel_line(kernel: Any) -> str:
    return f"tests/backend/mistakes.py:{kernel.__code__.co_firstlineno}"


SCRIBBLES = (
    "kernel {} of rank 1 scribble[0]: it writes an array that it was given to read ({}); name the buffer in writes"
)
OWN = "A protocol can add none; keep what is its own in local variables of run"
HOLDS = (
    ", which may contain data that changes before the kernel runs; write a plain function, and pass the values in args"
)
KERNEL = "; a function is needed, as launch(site, kernel, ...)"
NAN = ", which does not equal itself; use None or a string in its place"
MAKE = "; write np.array(..., dtype=np.int32)"
TYPES = ", ".join(DTYPES)
SENDS = (
    "; a call that only sends is plain (a launch, a recorded event, a device collective, a replay, a message): "
    "write it without await"
)
BLOCK = "; it is a block: async with graph.capture(stream)"
ALLOC, HOST = "which Stream.alloc returns", "memory of the host goes through rank.host(...)"
STREAM = "a Stream of this backend is needed, not {} (str)"
FOREIGN = (
    "the protocol awaited something that is not of its Rank (a call of asyncio, perhaps); await only calls of "
    "dpsim.contract.interface: rank.sleep in place of asyncio.sleep"
)
ARRAY = "[0 0] (numpy.ndarray: write tuple(....tolist()))"

SAID = {
    "sends_without_a_site": ("TypeError", "send of a Rank lacks 'site'; write send(to, mailbox, message, site)"),
    "sums_with_a_positional_operation": (
        "TypeError",
        "all_reduce of a HostCommunicator has too many arguments without a name; write "
        "all_reduce(array, *, op='sum', site=None); what stands behind * needs its name",
    ),
    "sends_a_numpy_number": (
        "TypeError",
        f"tell: the message has 2 (numpy.int32: write int(...) or float(...)){PLAIN}",
    ),
    "sends_an_array": ("TypeError", f"tell: the message has {ARRAY}{PLAIN}"),
    "sends_a_list": ("TypeError", f"tell: the message has [1, 2] (list){PLAIN}"),
    "sends_names": ("TypeError", f"tell: the message has a tests.backend.mistakes.Pair{PLAIN}"),
    "sends_to_a_fraction": (
        "TypeError",
        "tell: the rank that the message goes to is 0.5 (float); an integer is needed",
    ),
    "decides_an_array": ("TypeError", f"plan: the decision has {ARRAY}{PLAIN}"),
    "decides_a_set": ("TypeError", f"plan: the decision has {{2}} (set){PLAIN}"),
    "decides_what_is_not_there_yet": (
        "TypeError",
        f"plan: the decision has a dpsim.backend.hosts.work.Work (did you forget await?){PLAIN}",
    ),
    "passes_an_array": (
        "TypeError",
        f"fill: an argument of the kernel has [0. 0.] (numpy.ndarray: write tuple(....tolist())){PLAIN}",
    ),
    "costs_less_than_nothing": ("ValueError", "fill: the cost is -1; at least 0 is needed"),
    "steps_by_halves": ("TypeError", "rank 1: the step is 7.5 (float); an integer is needed"),
    "sleeps_backwards": ("ValueError", "nap: the sleep is -1; at least 0 is needed"),
    "sleeps_a_fraction": ("TypeError", "nap: the sleep is 0.5 (float); an integer is needed"),
    "allocates_a_fraction": ("TypeError", "x: a size of the shape is 0.5 (float); an integer is needed"),
    "allocates_less_than_nothing": ("ValueError", "x: a size of the shape is -1; at least 0 is needed"),
    "receives_less_than_nothing": ("ValueError", "dp_cpu.recv: a size of the shape is -1; at least 0 is needed"),
    "names_half_a_root": ("TypeError", "dp_cpu: the root is 0.5 (float); an integer is needed"),
    "gathers_fractions": ("TypeError", "dp_cpu: sizes [0.5, 0.5] must be integers, one a member"),
    "takes_a_work_for_its_array": ("AttributeError", f"sum[0]{AWAIT}, not its max"),
    "adds_to_a_work": ("TypeError", f"sum[0]{AWAIT}"),
    "misspells_the_step": ("AttributeError", f"a Rank has no attribute 'stpe'; did you mean 'step'? {OWN}"),
    "misspells_a_call": (
        "AttributeError",
        f"a HostCommunicator has no attribute 'allreduce'; did you mean 'all_reduce'? {OWN}",
    ),
    "keeps_its_own_in_a_stream": ("AttributeError", f"a Stream has no attribute 'notes'. {OWN}"),
    "keeps_its_own_in_a_buffer": ("AttributeError", f"a Buffer has no attribute 'owner'. {OWN}"),
    "keeps_its_own_in_a_communicator": ("AttributeError", f"a DeviceCommunicator has no attribute 'calls'. {OWN}"),
    "replaces_a_call": ("AttributeError", "the attribute 'send' of a Rank cannot be replaced"),
    "awaits_a_plain_call": ("TypeError", f"nothing was awaited{SENDS}"),
    "awaits_an_event": ("TypeError", f"an Event was awaited{SENDS}"),
    "awaits_a_capture": ("TypeError", f"a.capture: the capture is awaited{BLOCK}"),
    "enters_a_capture_by_with": ("TypeError", f"a.capture: the capture is entered by with{BLOCK}"),
    "replays_what_was_not_captured": (
        "RuntimeError",
        "go: graph a was not captured, so there is nothing to replay. Capture it in a block, async with "
        "graph.capture(stream); a capture counts if the block ends without an error",
    ),
    "names_a_graph_in_two_words": (
        "ValueError",
        "graph 'a b', pool None: a name is printable ASCII without spaces, as decode.4",
    ),
    "numbers_a_graph": ("ValueError", "graph 3, pool None: a name is printable ASCII without spaces, as decode.4"),
    "takes_a_graph_from_two_pools": ("ValueError", "graph shared has its memory from pool one, not from two"),
    "captures_a_name": ("TypeError", STREAM.format("main")),
    "replays_on_a_name": ("TypeError", STREAM.format("main")),
    "captures_in_another_mode": ("ValueError", "graph a: the mode 'local' is none of global, thread_local, relaxed"),
    "misspells_a_capture": (
        "AttributeError",
        f"a Graph has no attribute 'captures_it'; did you mean 'capture'? {OWN}",
    ),
    "keeps_its_own_in_a_graph": ("AttributeError", f"a Graph has no attribute 'sizes'. {OWN}"),
    "launches_nothing": ("TypeError", f"fill: the kernel is None (NoneType){KERNEL}"),
    "launches_a_number": ("TypeError", f"fill: the kernel is 3 (int){KERNEL}"),
    "launches_a_partial_function": ("TypeError", f"fill: the kernel is a functools.partial{HOLDS}"),
    "launches_an_object": ("TypeError", f"fill: the kernel is a tests.backend.mistakes.Filler{HOLDS}"),
    "launches_a_method": (
        "TypeError",
        f"fill: the kernel is <bound method Filler.fill of <tests.backend.mistakes.Filler object>> (method){HOLDS}",
    ),
    "launches_a_method_of_a_list": (
        "TypeError",
        f"fill: the kernel is <built-in method clear of list object> (builtin_function_or_method){HOLDS}",
    ),
    "launches_what_returns": ("TypeError", f"fill: the kernel is a numpy.ufunc{HOLDS}"),
    "launches_a_default": ("TypeError", f"fill: a default of the kernel set_to_first has [1] (list){PLAIN}"),
    "launches_a_default_of_a_keyword": (
        "TypeError",
        f"fill: a default of the kernel set_to_named has 1 (numpy.int32: write int(...) or float(...)){PLAIN}",
    ),
    "writes_no_list": ("TypeError", "fill: writes is a Buffer; a list of buffers is needed, as writes=[x]"),
    "writes_an_array": (
        "TypeError",
        "fill: writes has [0. 0. 0. 0.] (numpy.ndarray); a Buffer is needed, which Stream.alloc returns",
    ),
    "reads_nothing": ("TypeError", "fill: reads has None (NoneType); a Buffer is needed, which Stream.alloc returns"),
    "decides_nan": ("ValueError", f"plan: the decision contains NaN{NAN}"),
    "sends_nan": ("ValueError", f"tell: the message contains NaN{NAN}"),
    "tags_with_nan": ("ValueError", f"x: the tag contains NaN{NAN}"),
    "decides_for_an_unknown_group": (
        "KeyError",
        "\"rank 1 has no communicator 'dpcpu'; it has dp_cpu, dp, ep\"",
    ),
    "reduces_a_list": ("TypeError", f"sum: a numpy array is needed, not [1, 2] (list){MAKE}"),
    "reduces_a_number": ("TypeError", f"dp_cpu: a numpy array is needed, not 1 (int){MAKE}"),
    "gathers_dates": (
        "TypeError",
        f"sum: dtype datetime64[s] is none of {TYPES}; write array.astype(np.int32)",
    ),
    "sends_objects": (
        "TypeError",
        f"sum: dtype object is none of {TYPES}; write array.astype(np.int32)",
    ),
    "reduces_in_another_order_of_bytes": (
        "TypeError",
        f"sum: dtype >i4 is none of {TYPES}; write array.astype(np.int32)",
    ),
    "reduces_a_buffer_on_the_host": (
        "TypeError",
        "dp_cpu: a numpy array is needed, not a Buffer; await its read, or use rank.device(...)",
    ),
    "reduces_what_is_not_there_yet": (
        "TypeError",
        "dp_cpu: a numpy array is needed, not a dpsim.backend.hosts.work.Work (did you forget await?); "
        "its result is one",
    ),
    "reduces_an_array_on_the_device": (
        "TypeError",
        f"dp: a Buffer is needed, {ALLOC}, not [0 0] (numpy.ndarray); {HOST}",
    ),
    "broadcasts_a_list_on_the_device": ("TypeError", f"dp: a Buffer is needed, {ALLOC}, not [1, 2] (list); {HOST}"),
    "reduces_on_a_name": ("TypeError", STREAM.format("main")),
    "receives_on_a_name": ("TypeError", STREAM.format("main")),
    "reads_on_a_name": ("TypeError", STREAM.format("main")),
    "records_a_name": ("TypeError", STREAM.format("side")),
    "receives_dates": ("TypeError", f"dp_cpu.recv: dtype 'datetime64[s]' is none of {TYPES}"),
    "awaits_what_is_not_of_its_rank": ("ForeignAwait", FOREIGN),
    "sleeps_by_asyncio": ("RuntimeError", f"no running event loop: {FOREIGN}"),
    "stacks_what_does_not_fit": ("ValueError", "all input arrays must have the same shape"),
    "exits": ("SystemExit", "no more"),
}
"""By mistake: the class and the message of the error that the program gets at the line of the mistake."""

KERNELS = {
    "exits_in_a_kernel": "kernel leave of rank 1 leave[0]: SystemExit: 1",
    "writes_what_it_reads": SCRIBBLES.format("set_to", f"tests/programs.py:{set_to.__code__.co_firstlineno}"),
    "writes_through_the_wrong_argument": SCRIBBLES.format("swapped", kernel_line(swapped)),
    "returns_something": f"kernel gives of rank 1 give[0]: it returns something of type int ({kernel_line(gives)}); "
    "a kernel writes its results to the arrays of writes",
}
"""By mistake in a kernel: the message of the KernelError that the host gets when it next waits for the device."""

LEFT = {
    "forgets_a_send": ["LEFTOVER:NEVER_AWAITED", "LEFTOVER:SEND"],
    "forgets_a_receive": ["LEFTOVER:NEVER_AWAITED", "LEFTOVER:RECV"],
    "forgets_a_poll": ["LEFTOVER:NEVER_AWAITED"],
    "forgets_a_read": ["LEFTOVER:NEVER_AWAITED"],
}
"""By op that the program never awaits: the classes of the findings when the program has ended."""

NO_MISTAKES = ("keeps_to_its_footprint", "counts_in_numpy", "passes_nan", "leaves_out_arguments", "exchanges_tables")

TOGETHER = ("exchanges_tables",)
"""The methods that both ranks call."""
