"""The cases of the conformance suite: a function each, whose docstring is the rule that the backend must follow.

CONFORMANCE["skipped_host"](Bench(backend, 2, ...))
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import entry_points

from dpsim.campaign.gates import gates_of
from dpsim.contract.kinds import ADDED, ENDS
from dpsim.contract.ops import DECISION_VALUE, KIND, ORDINAL, SITE, STEP, WHERE
from dpsim.contract.world import At, Delay
from dpsim.sim.backend import SimBackend
from dpsim.testing.bench import Bench
from dpsim.testing.conformance.mail import SLEEP_NS
from dpsim.testing.conformance.services import SERVICES
from dpsim.testing.programs import ODD
from dpsim.testing.written_by import calls_of, line_of

Case = Callable[[Bench], None]

CONFORMANCE: dict[str, Case] = {}
"""The cases by name, in the order in which they run."""

LATE_NS = 40_000_000

PARTS = (
    *("basics", "collectives", "dtypes", "streams", "events", "stream_flags", "transfers", "made_groups", "graphs"),
    *("mail", "stores"),
)
"""The parts of the conformance program in which each run does the same, except for sleep and threads."""


def case(check: Case) -> Case:
    """Registers a case under the name of its function."""
    CONFORMANCE[check.__name__] = check
    return check


# ---- nothing is planted


@case
def basics(bench: Bench) -> None:
    """Memory, kernels and reads have the results of their docstrings, and a backend refuses what the contract
    refuses.
    """
    bench.conforms("basics")


@case
def collectives(bench: Bench) -> None:
    """Every collective has the result of its docstring, on the host and on the device, in all forms. Its members may
    complete together or one by one.
    """
    bench.conforms("collectives")
    bench.conforms_without_time("collectives")


@case
def dtypes(bench: Bench) -> None:
    """Elements of every type arrive unchanged. Types that both gloo and NCCL reduce are reduced."""
    bench.conforms("dtypes")
    bench.conforms_without_time("dtypes")


@case
def streams(bench: Bench) -> None:
    """Streams run concurrently, events order them, views share memory, and `record_stream` delays the reuse of memory.

    A backend that never reuses freed memory, such as gloo, follows the last rule without any work.
    """
    bench.conforms("streams")


@case
def events(bench: Bench) -> None:
    """An event has passed when the host has waited for it, or for work behind it."""
    bench.conforms("events")
    bench.conforms_without_time("events")


@case
def queries(bench: Bench) -> None:
    """Before a wait, a query of an event may return True or False. Once True, it stays True, and it is True after
    synchronize.

    The results depend on time, so the bench does not compare the runs.
    """
    bench.conforms("queries", same=False)
    bench.conforms_without_time("queries", same=False)


@case
def stream_flags(bench: Bench) -> None:
    """A stream that waits for a flag blocks until the host sets it, and blocks no other stream. A replay does the
    same.
    """
    bench.conforms("stream_flags")


@case
def transfers(bench: Bench) -> None:
    """Sent data arrives in order, whether it is large or small, alone or in a coalesced group."""
    bench.conforms("transfers")


@case
def any_source(bench: Bench) -> None:
    """A receive from any source takes the next message of one member, and returns the sender. Any member may be first.

    The results depend on time, so the bench does not compare the runs.
    """
    bench.conforms("any_source", same=False)
    bench.conforms_without_time("any_source", same=False)


@case
def looks(bench: Bench) -> None:
    """A query of a host collective or transfer returns False until the members for which it waits have called, and True
    after an await. Between, it may return either, and after True it always returns True.

    The results depend on time, so the bench does not compare the runs.
    """
    bench.conforms("looks", same=False)
    bench.conforms_without_time("looks", same=False)


@case
def made_groups(bench: Bench) -> None:
    """A group that ranks make during a run works like any other group, for its members only."""
    bench.conforms("made_groups")
    bench.conforms_without_time("made_groups")


@case
def graphs(bench: Bench) -> None:
    """A capture records the work on its streams and does not run it. A replay runs it in the order of the capture, on
    the same buffers with their current contents. A capture refuses calls that return a result.
    """
    bench.conforms("graphs")


@case
def mail(bench: Bench) -> None:
    """Messages of one sender arrive in order. A rank that waits in an idle get when the run ends counts as finished.
    The next run receives no message of this run.
    """
    for _ in range(2):
        bench.conforms("mail")


@case
def polling(bench: Bench) -> None:
    """A host that only polls receives a message. The number of polls depends on time, so the bench does not
    compare it.
    """
    bench.conforms("polling", same=False)


@case
def sleep(bench: Bench) -> None:
    """A host that sleeps continues when the time of its sleep is over, and not before."""
    run = bench.conforms("sleep")
    bench.require(run.elapsed_ns >= 3 * SLEEP_NS, f"sleeps of 3 x {SLEEP_NS} ns took {run.elapsed_ns} ns in all")


@case
def threads(bench: Bench) -> None:
    """Host threads of a rank share its objects, flags order them, and a join returns the exception of the thread. All
    other parts have the same results in a program with threads.
    """
    bench.conforms("threads")
    for part in PARTS:
        bench.healthy("conformance_threads", {"parts": (part,), "rounds": 1}, bench.world())


@case
def stores(bench: Bench) -> None:
    """A rank can join a store while an actor listens at its port. A get returns the last value of a key, and None
    if its time-out passes or the listener closes the store.
    """
    bench.conforms("stores")


@case
def changes(bench: Bench) -> None:
    """A store adds, compares and deletes atomically. Any member may be first, so the bench does not compare the
    runs.
    """
    bench.conforms("changes", same=False)
    bench.conforms_without_time("changes", same=False)


@case
def services(bench: Bench) -> None:
    """Services are actors after the ranks. They have mailboxes and stores, but no device and no communicators."""
    for nodes in ((), (*[0] * bench.size, 1, 2)):
        bench.healthy("conformance_services", {}, bench.world(services=SERVICES, nodes=nodes))


@case
def gates(bench: Bench) -> None:
    """A poll with a gate returns what the gate names: one message, whatever arrived earlier, or None."""
    world = bench.world(services=("desk",))
    for pick in (0, -1):  # deliver messages as early as possible, and as late as possible
        early = SimBackend(choose=lambda _, options, pick=pick: range(len(options))[pick])  # type: ignore[misc]
        simulated = early.run(world, "conformance_gates", {})
        run = bench.backend.run(replace(world, gates=gates_of(simulated)), "conformance_gates", {})
        bench.same(run, simulated)


@case
def aborts(bench: Bench) -> None:
    """After a rank aborts a communicator, each look and call of this rank on it raises Aborted. Calls of peers that end
    without this rank are over. The rank's other streams continue, and the backend can run the next world.
    """
    bench.healthy("conformance_aborts", {}, bench.world())
    bench.healthy("conformance_aborts_beside", {}, bench.world())
    bench.conforms("collectives")


@case
def lazy(bench: Bench) -> None:
    """Communicators that are created at their first use work like others. A capture refuses a first use."""
    world = bench.world(lazy=True)
    bench.healthy("conformance_lazy", {"rounds": 1}, world)
    bench.healthy("conformance", {"parts": ("transfers",)}, world)


@case
def lines(bench: Bench) -> None:
    """Every record names the line of the program that made the call. Both records of `wait_stream` name its line."""
    for part in (*PARTS, "queries", "any_source", "looks", "changes", "sleep", "threads"):
        run = bench.conforms(part, same=False)
        for raw in [raw for journal in run.journals for raw in journal if raw[KIND] not in ADDED | ENDS]:
            line, calls = line_of(raw), calls_of(raw)
            named = f"{raw[SITE]}[{raw[ORDINAL]}] ({raw[KIND]}) names {raw[WHERE]!r}: {line or 'no line'}"
            own = raw[WHERE].startswith("dpsim/testing/conformance/") and re.search(rf"\b({calls})\(", line)
            bench.require(bool(own), f"{named}; expected a line of the program that calls {calls}")


for point in entry_points(group="dpsim.cases"):  # cases of other packages, which run their own programs
    with suppress(ImportError):
        case(point.load())


@case
def order(bench: Bench) -> None:
    """The ops of a communicator and of a stream run in the order of issue. It does not matter what a host awaits first,
    or how far it runs ahead.
    """
    bench.passes("ahead", "device", "host")


@case
def groups(bench: Bench) -> None:
    """A rank uses the communicator of its group of a kind, and groups of one kind do not affect each other."""
    bench.passes("device", world=bench.world(alone=True))


@case
def delays(bench: Bench) -> None:
    """A delay changes only time: before the program, before a site, before a collective, on host and device."""
    host = [At(), At("check.sum", ODD), At(communicator="dp_cpu", seq=1)]
    device = [At("check.fill", 0), At("check.read", 2), At(communicator="dp", seq=1)]
    places = host + device
    delayed = bench.world(delays=[Delay(bench.last, at, LATE_NS) for at in places])
    late = bench.passes("host", "device", world=delayed)
    bench.same(late, bench.passes("host", "device"))
    # The rank waits for each delay before the next. The bound is half, because the clock of a device varies.
    least = len(places) * LATE_NS // 2
    bench.require(late.elapsed_ns >= least, f"delays of {len(places)} x {LATE_NS} ns took {late.elapsed_ns} ns in all")


@case
def awaited_twice(bench: Bench) -> None:
    """A host awaits a result exactly once. A second await raises RuntimeError."""
    run = bench.passes("twice")
    for rank, journal in enumerate(run.journals):
        for raw in journal:
            if raw[KIND] == "decision":
                where = f"rank {rank}, step {raw[STEP]}, {raw[SITE]}: {raw[DECISION_VALUE]}"
                bench.require(raw[DECISION_VALUE] == "RuntimeError", where)


@case
def closed(bench: Bench) -> None:
    """A backend that was closed can be used again."""
    bench.passes("host", "device")
    bench.backend.close()
    bench.backend.close()
    bench.passes("host", "device")
