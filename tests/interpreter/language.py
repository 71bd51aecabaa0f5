"""Scripts: what each rank does, as plain data, for the interpreter and for dpsim alike.

A rank has a number, at first its rank and one. What it learns goes into the number, and the number into what it sends.
Every awaited call is noted with its place in the list and its result; that, and how the rank ended, is the outcome.

    ("post", to, box)                       a message with the number to a mailbox
    ("watch", peer, box)                    that the peer is gone comes there as a number, GONE and the peer's
    ("poll", box)  ("get", box)  ("idle", box)
    ("start", handle, kind, op, shape)      a host collective or transfer; ("await", handle) is its await
    ("start", handle, kind, "make", ())         makes that communicator, which the world does not have
    ("asks", handle)                            whether it is over; the handle may have been awaited
    ("start", handle, kind, "any", (size,))     a receive from any source; its await gives the source, then the elements
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
    ("alloc", buffer, stream, size, "each")         each replay needs fresh contents of it
    ("kernel", name, stream, view)          a fill, if the kernel is none that is refused
    ("put", way)  ("look", way)             the number goes into a module; what is there is noted
    ("start", handle, kind, "float", (op, (value of each member)))      a reduction of floats
    ("spawn", name)  ("ended", name)        a thread, and its join; its program follows ("thread", name)
    ("set", flag)  ("flag", flag)           `flag` waits for one
    ("append",)  ("show",)                  the threads' list gets the place, and is noted
    ("odd", instruction)                    only if the number is odd
    ("stop",)  ("raise",)                   the program ends here, or raises

A view is (buffer, first, end). Buffers, events and handles have a name each, used once in a rank's list.

Shapes by op: all_reduce (size,), broadcast, reduce, gather and scatter (size, root). The size of a scatter is that of a
piece. all_gather and reduce_scatter have (size of each member's piece). The others are all_to_all (row of member 0, row
of member 1, ...), barrier (), send (size, to), recv (size, from).
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
    """The number after the rank learned a value: an int, a bool, None, or a tuple of ints."""
    for part in value if isinstance(value, tuple) else (value,):
        number = (5 * number + int(part or 0)) % MODULUS
    return number


@dataclass(frozen=True)
class Script:
    """`hosts` and `devices`: members of the communicators by kind. `mortal`: ranks that die at some time. `residency`:
    as in `World`. `delays`: (rank, place, ms). `promise`: the program says that flags order what its threads share.
    """

    ranks: tuple[tuple[Instruction, ...], ...]
    hosts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    devices: tuple[tuple[str, tuple[int, ...]], ...] = ()
    mortal: tuple[int, ...] = ()
    residency: int | None = None
    delays: tuple[tuple[int, int, int], ...] = ()
    promise: bool = False

    @property
    def size(self) -> int:
        return len(self.ranks)

    def members(self, kind: str) -> tuple[int, ...]:
        return dict(self.hosts + self.devices)[kind]

    def words(self) -> str:
        """The script, to be read, and to be pasted."""
        lists = "".join(f"    {rank!r},\n" for rank in self.ranks)
        rest = [f"{name}={value!r}" for name, value in vars(self).items() if name != "ranks" and value]
        return f"Script(\n  (\n{lists}  ),\n  {', '.join(rest)})"


def unwrapped(instruction: Instruction) -> Instruction:
    """What an `odd` does, if it does it."""
    inner: Instruction = instruction[1] if instruction[0] == "odd" else instruction
    return inner


def tidy(script: Script) -> Script:
    """Without communicators that no rank uses."""
    used = {how[2] for rank in script.ranks for how in map(unwrapped, rank) if how[0] == "start"}
    used |= {
        how[1] for rank in script.ranks for how in map(unwrapped, rank) if how[0] in ("device", "transfer", "group")
    }
    hosts = tuple(spec for spec in script.hosts if spec[0] in used)
    devices = tuple(spec for spec in script.devices if spec[0] in used)
    return replace(script, hosts=hosts, devices=devices)
