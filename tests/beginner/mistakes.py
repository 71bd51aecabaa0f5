"""The mistakes of users who write their first protocol.

Each mistake is a few lines, which `page.py` inserts into the program in `HEAD`. The rest of that program is correct.
"""

from __future__ import annotations

from typing import NamedTuple

HEAD = """\
import numpy as np
from dpsim import Program, register_protocol
from pydantic import BaseModel, Field


@register_protocol("NAME")
class Mistake(Program):
    class Params(BaseModel):
        ranks: int = Field(2, ge=2, le=4)
        steps: int = Field(2, ge=1, le=4)

    @staticmethod
    def ranks(params):
        return params.ranks

    async def run(self, rank, args):
        world, device = rank.host("world"), rank.device("world")
        main, side, inbox = rank.stream("main"), rank.stream("side"), rank.mailbox("inbox")
        ones = np.ones(1, np.int32)
"""
"""The program that surrounds the lines of a mistake. `NAME` is replaced by the name of the protocol."""

FOOT = """

def fill(x):
    x[:] = 1


def double(x, y):
    y[:] = 2 * x
"""
"""Two kernels for the lines of the mistakes, and the end of each program."""


LOOP = "for rank.step in range(args.params.steps):"


class Mistake(NamedTuple):
    """One mistake and its cure.

    `what`: the title of its section. `lines`: what the user wrote in the loop. `cure`: the corrected lines. `why`: one
    sentence with the reason, if the report does not give it. `gloo`: why gloo prints a different report; empty if gloo
    prints the same one. `command`: the command that shows the mistake on the simulation.
    """

    name: str
    what: str
    lines: str
    cure: str
    why: str = ""
    gloo: str = ""
    loop: str = LOOP
    ranks: int = 2
    limits: str = "{stall: 1s}"
    command: str = "run"


MISTAKES = [
    Mistake(
        "forgotten_await",
        "An await is missing",
        """
largest = world.all_reduce(ones, op="max", site="agree")
rank.decide("largest", int(largest[0]), "world")
""",
        """
largest = await world.all_reduce(ones, op="max", site="agree")
rank.decide("largest", int(largest[0]), "world")
""",
    ),
    Mistake(
        "never_awaited",
        "A collective is started and never awaited",
        """
world.barrier(site="end_of_step")
""",
        """
await world.barrier(site="end_of_step")
""",
    ),
    Mistake(
        "freed_buffer",
        "A freed buffer is used",
        """
x = main.alloc(4, "int32", "x")
main.launch("fill", fill, writes=[x])
x.free()
device.all_reduce(x, main, site="sum")
""",
        """
x = main.alloc(4, "int32", "x")
main.launch("fill", fill, writes=[x])
device.all_reduce(x, main, site="sum")
x.free()
""",
        why="After `free`, the allocator may give the memory to later work of the stream. So free a buffer after "
        "its last use.",
    ),
    Mistake(
        "wrong_dtype",
        "Two ranks bring arrays of different dtypes",
        """
load = np.array([0 if rank.rank == 0 else 0.5])
await world.all_reduce(load, site="load")
""",
        """
load = np.array([0 if rank.rank == 0 else 0.5], np.float64)
await world.all_reduce(load, site="load")
""",
        ranks=3,
        why="numpy makes an int64 array of a list of integers, and a float64 array of a list with a fraction. So "
        "state the dtype.",
    ),
    Mistake(
        "crossed_communicators",
        "Two ranks use two communicators in crossed order",
        """
x = main.alloc(1, "int32", "x")
main.launch("fill", fill, writes=[x])
if rank.rank == 0:
    await world.barrier(site="meet")
device.all_reduce(x, main, site="sum")
await x.read("look")
if rank.rank != 0:
    await world.barrier(site="meet")
""",
        """
x = main.alloc(1, "int32", "x")
main.launch("fill", fill, writes=[x])
await world.barrier(site="meet")
device.all_reduce(x, main, site="sum")
await x.read("look")
""",
        why="All ranks have to make the collectives of all their communicators in the same order.",
    ),
    Mistake(
        "poll_loop",
        "A loop polls a mailbox to which no rank sends",
        """
while await inbox.poll("look") is None:
    await rank.sleep(1_000_000, "pause")
""",
        """
await inbox.get("look", timeout_ns=1_000_000)
""",
        limits="{stall: 1s, deadline: 1s}",
        why="`poll` returns at once, so the loop never ends. `get` waits for a message, here until a time-out.",
    ),
    Mistake(
        "wrong_root",
        "Each rank names itself as the root",
        """
await world.broadcast(ones, rank.rank, site="tokens")
""",
        """
await world.broadcast(ones, 0, site="tokens")
""",
        why="A broadcast has one root, so every rank has to pass the same root.",
        gloo="the ranks also hang, because their roots differ.",
    ),
    Mistake(
        "asyncio_sleep",
        "A program waits with `asyncio.sleep`",
        """
await asyncio.sleep(0.1)
await world.barrier(site="meet")
""",
        """
await rank.sleep(100_000_000, "pause")
await world.barrier(site="meet")
""",
    ),
    Mistake(
        "numpy_scalar",
        "A message has a number of numpy",
        """
rank.send(0, "inbox", ones[0], "report")
await inbox.get("look", timeout_ns=1_000_000)
""",
        """
rank.send(0, "inbox", int(ones[0]), "report")
await inbox.get("look", timeout_ns=1_000_000)
""",
    ),
    Mistake(
        "missing_site",
        "A call has no site",
        """
rank.send(0, "inbox", 1)
await inbox.get("look", timeout_ns=1_000_000)
""",
        """
rank.send(0, "inbox", 1, "report")
await inbox.get("look", timeout_ns=1_000_000)
""",
    ),
    Mistake(
        "print_only",
        "A program prints its decision instead of deciding",
        """
table = await world.all_gather(np.array([rank.rank]), site="table")
print("the next batch has", int(table[rank.rank]), "tokens")
""",
        """
table = await world.all_gather(np.array([rank.rank]), site="table")
rank.decide("tokens", int(table[-1]), "world")
""",
        why="The checks do not read what a program prints. With `rank.decide` the program states a value that the"
        " ranks have to agree on.",
    ),
    Mistake(
        "class_state",
        "Ranks share a list on the class",
        """
self.seen = [*getattr(self, "seen", []), rank.step]
await world.barrier(site="meet")
""",
        """
seen = [*range(rank.step), rank.step]
await world.barrier(site="meet")
""",
    ),
    Mistake(
        "no_wait",
        "A stream reads what another stream may still write",
        """
x, y = main.alloc(4, "int32", "x"), side.alloc(4, "int32", "y")
main.launch("fill", fill, writes=[x])
side.launch("double", double, reads=[x], writes=[y])
await y.read("look")
""",
        """
x, y = main.alloc(4, "int32", "x"), side.alloc(4, "int32", "y")
main.launch("fill", fill, writes=[x])
side.wait_stream(main)
side.launch("double", double, reads=[x], writes=[y])
await y.read("look")
""",
    ),
    Mistake(
        "sends_a_list",
        "A message is a list that changes later",
        """
tokens = [1, 2]
rank.send(0, "inbox", tokens, "report")
tokens.append(3)
await inbox.get("look", timeout_ns=1_000_000)
""",
        """
tokens = [1, 2]
rank.send(0, "inbox", tuple(tokens), "report")
tokens.append(3)
await inbox.get("look", timeout_ns=1_000_000)
""",
    ),
    Mistake(
        "returns_early",
        "A rank without work returns early",
        """
if rank.rank == 1 and rank.step == 1:
    return
await world.all_reduce(ones, site="agree")
""",
        """
await world.all_reduce(ones, site="agree")
""",
    ),
    Mistake(
        "never_set_step",
        "A program never sets `rank.step`",
        """
await world.barrier(site="meet")
rank.decide("half", step // 2, "world")
""",
        """
await world.barrier(site="meet")
rank.decide("half", rank.step // 2, "world")
""",
        loop="for step in range(args.params.steps):",
        why="If the program does not set `rank.step`, a report cannot name the step in which a rank failed.",
    ),
    Mistake(
        "wrong_size",
        "A program is written for two ranks and runs on three",
        """
await world.all_gather(ones, sizes=[1, 1], site="table")
""",
        """
await world.all_gather(ones, sizes=[1] * world.size, site="table")
""",
        ranks=3,
    ),
    Mistake(
        "float_sum",
        "Ranks compare a sum of floats for equality",
        """
total = await world.all_reduce(np.array([0.1 * (rank.rank + 1)]), site="sum")
rank.decide("full", bool(total[0] == 0.1 + 0.2 + 0.3), "world")
""",
        """
total = await world.all_reduce(np.array([rank.rank + 1]), site="sum")
rank.decide("full", bool(total[0] == 1 + 2 + 3), "world")
""",
        ranks=3,
        command="explore",
        why="The line `assumes:` of the verdict warns about this. Another library may add floats in another order, and "
        "the comparison then fails. The sum of integers does not depend on the order.",
        gloo="`dpsim run` makes a single run, for which it prints no line `assumes:`.",
    ),
    Mistake(
        "time_sleep",
        "A program waits with `time.sleep`",
        """
time.sleep(0.01)
await world.barrier(site="meet")
""",
        """
await rank.sleep(10_000_000, "pause")
await world.barrier(site="meet")
""",
        why="`time.sleep` blocks Python but does not advance simulated time. `rank.sleep` takes simulated time in"
        " the simulation, and real time on gloo.",
    ),
    Mistake(
        "random_number",
        "Each rank draws a random number without a common seed",
        """
chosen = random.randrange(1_000_000)
await world.barrier(site="meet")
rank.decide("chosen", chosen, "world")
""",
        """
chosen = random.Random(rank.step).randrange(1_000_000)
await world.barrier(site="meet")
rank.decide("chosen", chosen, "world")
""",
        command="explore",
        why="The report shows random numbers, which this page replaces by `N`. Give each rank the same seed, such"
        " as its step.",
        gloo="`dpsim run` makes one run and repeats none. So it reports that the ranks decide differently.",
    ),
    Mistake(
        "awaited_twice",
        "A result is awaited twice",
        """
work = world.all_reduce(ones, site="agree")
await work
await work
""",
        """
work = world.all_reduce(ones, site="agree")
await work
""",
    ),
    Mistake(
        "returning_kernel",
        "A kernel returns its result",
        """
x, y = main.alloc(4, "int32", "x"), main.alloc(4, "int32", "y")
main.launch("fill", fill, writes=[x])
main.launch("double", lambda x, y: 2 * x, reads=[x], writes=[y])
await y.read("look")
""",
        """
x, y = main.alloc(4, "int32", "x"), main.alloc(4, "int32", "y")
main.launch("fill", fill, writes=[x])
main.launch("double", double, reads=[x], writes=[y])
await y.read("look")
""",
        gloo="a kernel gets arrays of torch in place of numpy, so the type in the message differs.",
    ),
    Mistake(
        "unseen_decision",
        "Only one rank decides",
        """
if rank.rank == 0:
    rank.decide("tokens", 3, "world")
await world.barrier(site="meet")
""",
        """
rank.decide("tokens", 3, "world")
await world.barrier(site="meet")
""",
        ranks=3,
        why="If only some ranks are meant to decide a value, pass `local=True`.",
    ),
    Mistake(
        "catches_all",
        "A program catches every exception",
        """
try:
    await world.all_reduce(np.ones(rank.rank + 1, np.int32), site="agree")
except Exception:
    pass
""",
        """
await world.all_reduce(ones, site="agree")
""",
        why="dpsim records each call before the call raises. So the check finds the mismatch although the program"
        " catches the exception.",
        gloo="the ranks also hang, because gloo waits for elements that no rank sends.",
    ),
]
