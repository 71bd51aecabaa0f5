"""Programs that break the contract, one mistake each, and what every backend has to say of them.

Rank 1 makes the mistake in the first line of the method that is named in the argument `how`. Worker processes import
this module by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dpsim.interface import Rank
from dpsim.program import Program
from dpsim.registry import register_protocol
from tests.programs import add, set_to

PLAIN = "; it must be a number, a string, a truth value, None or a tuple of these"
AWAIT = ": did you forget await? Until it is awaited there is no result"


class Pair(NamedTuple):
    first: int
    second: int


@register_protocol("mistakes")
class Mistakes(Program[Any]):
    """Rank 1 makes a mistake."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 7
        if rank.rank == 1:
            await getattr(self, prepared["how"])(rank)

    async def sends_a_numpy_number(self, rank: Rank) -> None:
        rank.send(0, "box", (1, np.int32(2)), "tell")  # type: ignore[arg-type]

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
        """No mistake: a buffer that is read and written, whole and in parts."""
        x, main = rank.stream("main").alloc(4, "int32", "x"), rank.stream("main")
        main.launch("fill", set_to, writes=[x], args=(1,))
        main.launch("double", add, reads=[x], writes=[x])
        main.launch("add", add, reads=[x.view(0, 2)], writes=[x.view(2, 4)])
        assert (await x.read("read")).tolist() == [2, 2, 4, 4]

    async def counts_in_numpy(self, rank: Rank) -> None:
        """No mistake: numbers of numpy where dpsim counts, and a named tuple where nobody sends it on."""
        one = np.int64(1)
        rank.step = one  # type: ignore[assignment]
        await rank.sleep(one, "nap")  # type: ignore[arg-type]
        x = rank.stream("main").alloc((one, one), "int32", "x")  # type: ignore[arg-type]
        rank.stream("main").launch("fill", set_to, writes=[x], args=(1,), cost=one)  # type: ignore[arg-type]
        rank.decide("plan", Pair(1, 2), "dp_cpu")
        rank.send(one, "box", ((1, 2.0), True, "text", None), "tell")  # type: ignore[arg-type]


def leave() -> None:
    sys.exit(1)


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
ARRAY = "[0 0] (numpy.ndarray: write tuple(....tolist()))"

SAID = {
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
        f"plan: the decision has a dpsim.backend.work.Work (did you forget await?){PLAIN}",
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
    "exits": ("SystemExit", "no more"),
}
"""By mistake: the error that the program gets, at the line that makes the mistake."""

KERNELS = {
    "exits_in_a_kernel": "kernel leave of rank 1 leave[0]: SystemExit: 1",
    "writes_what_it_reads": SCRIBBLES.format("set_to", f"tests/programs.py:{set_to.__code__.co_firstlineno}"),
    "writes_through_the_wrong_argument": SCRIBBLES.format("swapped", kernel_line(swapped)),
    "returns_something": f"kernel gives of rank 1 give[0]: it returns something of type int ({kernel_line(gives)}); "
    "a kernel writes its results to the arrays of writes",
}
"""By mistake of a kernel: the KernelError that the host gets when it next waits for the device."""

LEFT = {
    "forgets_a_send": ["LEFTOVER:NEVER_AWAITED", "LEFTOVER:SEND"],
    "forgets_a_receive": ["LEFTOVER:NEVER_AWAITED", "LEFTOVER:RECV"],
    "forgets_a_poll": ["LEFTOVER:NEVER_AWAITED"],
    "forgets_a_read": ["LEFTOVER:NEVER_AWAITED"],
}
"""By what is left when the program ends: the classes of what is found."""

NO_MISTAKES = ("keeps_to_its_footprint", "counts_in_numpy")
