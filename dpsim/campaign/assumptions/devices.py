"""Rows: host and device, and the threads of a host."""

from __future__ import annotations

from dpsim.campaign.assumptions.row import OTHERWISE, Assumption, Says, Section

LAUNCH_QUEUE = Says(
    "unlimited launch queue",
    lambda on: (on.did("launch", "read", "replay") or on.meets_on_devices) and on.world.launch_queue is None,
)

DEVICES = Section(
    "Host and device",
    (
        Assumption(
            "hold a host up in a launch, as its queue is full (CUDA: after about 1024)",
            "option, for each stream, counting kernels, reads, collectives and transfers (on CUDA events and waits "
            "take room as well); else an unlimited launch queue",
            "`limits.launch_queue`, `World.launch_queue`",
            (LAUNCH_QUEUE,),
        ),
        Assumption(
            "hold a host up in an allocation that takes new memory from the device (`cudaMalloc`) until all is done",
            "option: allocations wait where this layout takes new memory, and with other blocks about others may; "
            "else no allocation waits",
            "`limits.alloc_synchronises`, `World.alloc_synchronises`",
            (
                Says("no allocation waits", lambda on: on.did("alloc") and not on.world.alloc_synchronises),
                Says(
                    "allocations wait where this layout takes new memory",
                    lambda on: on.did("alloc") and on.world.alloc_synchronises,
                ),
            ),
        ),
        Assumption(
            "give out any freed block of a stream, whole or split or merged",
            "always: no program may count on a certain block, so checks judge reuse without regard to it",
        ),
        Assumption(
            "run out of memory, and free cached blocks to go on",
            "no",
            "",
            (Says(OTHERWISE, lambda on: on.did("alloc")),),
        ),
        Assumption(
            "synchronise at a free, at an event's first use, at a module's first load",
            "no",
            "",
            (Says(OTHERWISE, lambda on: on.did("launch")),),
        ),
        Assumption(
            "run a kernel's code in torch, where `x[0]` is a view of `x` and `x.sort()` returns another array",
            "no: the simulation runs it in numpy",
            "`--backend gloo` runs it in torch",
            (Says(OTHERWISE, lambda on: on.did("launch")),),
        ),
        Assumption("run kernels of two streams at once, in either order", "always"),
        Assumption(
            "run kernels of two streams one after the other, because there is no room for both",
            "always, where there is no time; a kernel waits for no other, so this hangs nothing",
        ),
        Assumption(
            "let streams share a hardware queue (`CUDA_DEVICE_MAX_CONNECTIONS`), so that a kernel waits for a "
            "collective of another stream",
            "no: streams hold up one another in slots alone",
            "",
            (Says(OTHERWISE, lambda on: len(on.streams) > 1),),
        ),
        Assumption(
            "answer no to a query of an event when the work before it is done (its record is work too)",
            "always both ways, where there is no time, until the host knows. It knows when it has waited for the "
            "event, found it passed, or waited for something behind it. A time-out passes behind all that could pass, "
            "so it counts. With time the answer is yes as soon as that work is done",
        ),
        Assumption(
            "see a flag late that a host sets or clears for a stream, or miss one that was cleared soon after",
            "always, where there is no time; with time a stream sees it at once",
            "`Stream.wait_flag`",
        ),
        Assumption(
            "reorder a device's writes as other devices see them",
            "no: what an op wrote is there when it has ended",
            "",
            (Says(OTHERWISE, lambda on: on.meets_on_devices),),
        ),
        Assumption(
            "fail a kernel: the host sees the error where it next waits, and what other streams had under "
            "way ends or does not",
            "always, for a kernel that raises",
        ),
        Assumption(
            "hold a host thread up before each of its calls, while other threads of its rank go on",
            "always, where there is no time and the program has threads; with time a thread goes on until it waits",
        ),
        Assumption(
            "take any order of the calls of two host threads where what they share in Python depends on it",
            "always; but a program may promise that flags order what host threads share, and then orders of calls on "
            "different things are not tried",
            "`Program.ordered_by_flags`, `Program.ordered_by_objects`",
            (Says("flags order what host threads share", lambda on: on.by_flags),),
        ),
        Assumption(
            "switch host threads between two calls, in the midst of Python code",
            "option, at a call of `turn`; else Python between two calls is one step. A race on a Python variable "
            "within it is not seen",
            "`Rank.turn`",
            (Says("Python between two calls is one step", lambda on: on.did("thread")),),
        ),
        Assumption(
            "give each host thread a thread of the system (`threading.local`, `get_ident`, the owner of an `RLock`)",
            "no: the threads of a rank run in one thread of Python",
            "",
            (Says("host threads share one thread of Python", lambda on: on.did("thread") and not on.apart),),
        ),
    ),
)
