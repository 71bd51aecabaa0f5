"""Scripts: the instructions of each rank as plain data, which both the interpreter and dpsim run.

A rank has a number, at first its rank plus one. The result of each awaited call changes the number, and the rank sends
the number in its messages. The outcome of a rank consists of how it ended, and of each awaited call's result with its
place in the list.

    ("post", to, box)                       sends the number to a mailbox
    ("watch", peer, box)                    when the peer has ended, a number arrives there: GONE plus the peer's rank
    ("poll", box)  ("get", box)  ("idle", box)
    ("start", handle, kind, op, shape)      a host collective or transfer; ("await", handle) awaits it
    ("start", handle, kind, "make", ())         makes that communicator, which the world does not have
    ("asks", handle)                            queries whether the call is over; the handle may have been awaited
    ("start", handle, kind, "any", (size,))     a receive from any source; its await returns the source and the elements
    ("alloc", buffer, stream, size)  ("free", buffer)  ("mark", buffer, stream)     `mark` is record_stream
    ("fill", stream, view)                  a kernel: every element is the number
    ("copy", stream, source, target)        a kernel: target = source
    ("mix", stream, source, target)         a kernel: target = (3 target + source) % 97
    ("read", view, stream)                  stream None: the buffer's own
    ("record", event, stream)  ("wait", stream, event)  ("join", stream, other)  ("query", event)  ("sync", event)
    ("device", kind, stream, op, shape, views)      a device collective; views: (in place,) or (output, source)
    ("transfer", kind, stream, (way, view, peer))   way: "send" or "recv"
    ("group", kind, stream, ((way, view, peer), ...))
    ("within", box, ms)  ("sleep", ms)      a get with a time-out; a delay is (rank, place of the instruction, ms)
    ("capture", graph, stream, (kernels))  ("replay", graph, stream)
    ("alloc", buffer, stream, size, "each")         each replay has to find it newly written
    ("kernel", name, stream, view)          a fill by a kernel of `modules`, which dpsim may refuse
    ("put", way)  ("look", way)             writes the number into a module object; reads the object and notes it
    ("start", handle, kind, "float", (op, (value of each member)))      a reduction of floats
    ("spawn", name)  ("ended", name)        starts and joins a thread; its instructions follow ("thread", name)
    ("set", flag)  ("flag", flag)           sets a flag; waits for a flag
    ("append",)  ("show",)                  appends the place to the threads' list; notes the list
    ("odd", instruction)                    only if the number is odd
    ("stop",)  ("raise",)                   the program ends here, or raises

A view is (buffer, first, end). Each buffer, event and handle has a name, which a rank's list uses once. Shapes by op:
all_reduce (size,), broadcast, reduce, gather and scatter (size, root). The size of a scatter is that of one piece.
all_gather and reduce_scatter have (size of each member's piece). The others are all_to_all (row of member 0, row of
member 1, ...), barrier (), send (size, to), recv (size, from).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Instruction: TypeAlias = tuple[Any, ...]
View: TypeAlias = tuple[str, int, int]
Shape: TypeAlias = tuple[Any, ...]

MODULUS = 97

GONE = 1_000

STREAMS = ("s", "t")


def learned(number: int, value: Any) -> int:
    """Returns the rank's number after a call returned `value`: an int, a bool, None, or a tuple of ints."""
    for part in value if isinstance(value, tuple) else (value,):
        number = (5 * number + int(part or 0)) % MODULUS
    return number


@dataclass(frozen=True)
class Script:
    """The program of all ranks. `hosts` and `devices`: members of the communicators by kind. `mortal`: ranks that die
    at some time. `loses_mail`: as in `Kill`, for each of them. `residency`: as in `World`. `delays`: (rank, place, ms).
    `promise`: the program declares that flags order all accesses of its threads to shared objects.
    """

    ranks: tuple[tuple[Instruction, ...], ...]
    hosts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    devices: tuple[tuple[str, tuple[int, ...]], ...] = ()
    mortal: tuple[int, ...] = ()
    residency: int | None = None
    delays: tuple[tuple[int, int, int], ...] = ()
    promise: bool = False
    loses_mail: bool = False

    @property
    def size(self) -> int:
        return len(self.ranks)

    def members(self, kind: str) -> tuple[int, ...]:
        return dict(self.hosts + self.devices)[kind]

    def words(self) -> str:
        """Returns the script as Python code."""
        lists = "".join(f"    {rank!r},\n" for rank in self.ranks)
        rest = [f"{name}={value!r}" for name, value in vars(self).items() if name != "ranks" and value]
        return f"Script(\n  (\n{lists}  ),\n  {', '.join(rest)})"


def unwrapped(instruction: Instruction) -> Instruction:
    """Returns the instruction inside an `odd`, or the instruction itself."""
    inner: Instruction = instruction[1] if instruction[0] == "odd" else instruction
    return inner


def tidy(script: Script) -> Script:
    """Returns the script without communicators that no rank uses."""
    calls = [how for rank in script.ranks for how in map(unwrapped, rank)]
    used = {how[2] for how in calls if how[0] == "start"}
    used |= {how[1] for how in calls if how[0] in ("device", "transfer", "group", "abort")}
    hosts = tuple(spec for spec in script.hosts if spec[0] in used)
    devices = tuple(spec for spec in script.devices if spec[0] in used)
    return replace(script, hosts=hosts, devices=devices)
