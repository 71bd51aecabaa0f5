"""Devices: rows of the table of assumptions about host and device, and about host threads."""

from __future__ import annotations

from dpsim.campaign.assumptions.row import OTHERWISE, Assumption, Section, Statement

LAUNCH_QUEUE = Statement(
    "unlimited launch queue",
    lambda on: (on.did("launch", "read", "replay") or on.meets_on_devices) and on.world.launch_queue is None,
)

DEVICES = Section(
    "Host and device",
    (
        Assumption(
            "hold a host up in a launch, because the launch queue is full (CUDA: after about 1024 ops)",
            "option, for each stream. It counts kernels, reads, collectives and transfers (CUDA also counts events and "
            "waits). Without it, an unlimited launch queue",
            "`limits.launch_queue`, `World.launch_queue`",
            (LAUNCH_QUEUE,),
        ),
        Assumption(
            "hold a host up in an allocation that takes new memory (`cudaMalloc`) until the device has no work left",
            "option: those allocations wait that take new memory in the simulated layout of blocks. In another layout, "
            "other allocations may wait. Without the option, no allocation waits",
            "`limits.alloc_synchronises`, `World.alloc_synchronises`",
            (
                Statement("no allocation waits", lambda on: on.did("alloc") and not on.world.alloc_synchronises),
                Statement(
                    "allocations wait where this layout takes new memory",
                    lambda on: on.did("alloc") and on.world.alloc_synchronises,
                ),
            ),
        ),
        Assumption(
            "reuse any freed block of a stream, whole or split or merged",
            "always: the checks of reused memory cover every possible choice of a block",
        ),
        Assumption(
            "run out of memory, and free cached blocks to continue",
            "no",
            "",
            (Statement(OTHERWISE, lambda on: on.did("alloc")),),
        ),
        Assumption(
            "synchronise at a free, at an event's first use, at a module's first load",
            "no",
            "",
            (Statement(OTHERWISE, lambda on: on.did("launch")),),
        ),
        Assumption(
            "run a kernel's code in torch, where `x[0]` is a view of `x` and `x.sort()` returns another array",
            "no: the simulation runs it in numpy",
            "`--backend gloo` runs it in torch",
            (Statement(OTHERWISE, lambda on: on.did("launch")),),
        ),
        Assumption("run kernels of two streams at once, in either order", "always"),
        Assumption(
            "run kernels of two streams one after the other, because the device cannot run both at once",
            "always, in untimed runs; a kernel never waits for another one, so this cannot cause a hang",
        ),
        Assumption(
            "let streams share a hardware queue (`CUDA_DEVICE_MAX_CONNECTIONS`), so that a kernel waits for a "
            "collective of another stream",
            "no: streams delay each other only by `limits.residency`",
            "",
            (Statement(OTHERWISE, lambda on: len(on.streams) > 1),),
        ),
        Assumption(
            "answer no to a query of an event although all work before it is done (its record is work too)",
            "always both ways, in untimed runs, until the host has certain knowledge. The host has it after it waited "
            "for the event, found it completed, waited for later work on the stream, or had a time-out. In a timed run "
            "the answer is yes as soon as the work is done",
        ),
        Assumption(
            "let a stream read a flag late after a host set or cleared it, or miss a flag that was cleared soon",
            "always, in untimed runs; in a timed run a stream reads it at once",
            "`Stream.wait_flag`",
        ),
        Assumption(
            "reorder a device's writes as other devices see them",
            "no: all writes of an op are visible when the op has completed",
            "",
            (Statement(OTHERWISE, lambda on: on.meets_on_devices),),
        ),
        Assumption(
            "fail a kernel. The host receives the error in its next wait, and the unfinished ops of other streams "
            "complete or not",
            "always, for a kernel that raises",
        ),
        Assumption(
            "preempt a host thread before each of its calls, while other threads of its rank continue",
            "always, in untimed runs of a program with threads; in a timed run a thread continues until it waits",
        ),
        Assumption(
            "take any order of the calls of two host threads, if Python objects that they share depend on the order",
            "always. But a program may promise that flags order all uses of shared objects. Then exploring does not "
            "try other orders of calls that concern different objects",
            "`Program.ordered_by_flags`, `Program.ordered_by_objects`",
            (Statement("flags order all uses of objects that host threads share", lambda on: on.by_flags),),
        ),
        Assumption(
            "switch host threads between two calls, in the middle of Python code",
            "option, at a call of `turn`; without it, the Python code between two calls is one step. Then dpsim does "
            "not find a race on a Python variable within this code",
            "`Rank.turn`",
            (Statement("Python between two calls is one step", lambda on: on.did("thread")),),
        ),
        Assumption(
            "give each host thread a thread of the system (`threading.local`, `get_ident`, the owner of an `RLock`)",
            "no: all host threads of a rank run in one thread of Python",
            "",
            (
                Statement(
                    "the host threads of a rank run in one Python thread", lambda on: on.did("thread") and not on.apart
                ),
            ),
        ),
    ),
)
