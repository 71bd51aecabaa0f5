"""The cases of the conformance suite, one function each; its docstring is the rule that it holds a backend to.

    CONFORMANCE["skipped_host"](Bench(backend, 2, ...))

Faults are planted in the last rank, in the middle of the program. Such a case is slow on a backend with real processes,
which has to see a hang and to recover from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import entry_points

from dpsim.campaign.gates import gates_of
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
"""The cases by name, in the order in which they are run."""

LATE_NS = 40_000_000

PARTS = (
    *("basics", "collectives", "dtypes", "streams", "events", "stream_flags", "transfers", "made_groups", "graphs"),
    *("mail", "stores"),
)
"""Those of the conformance program in which the same happens in each run, but for sleep and threads."""

NOT_CALLED = "learned", "finished", "ended"
"""Kinds of records that no call of a program writes."""


def case(check: Case) -> Case:
    """A case more, by its function's name."""
    CONFORMANCE[check.__name__] = check
    return check


# ---- nothing is planted


@case
def basics(bench: Bench) -> None:
    """Memory, kernels and reads give what their docstrings say, and what the contract refuses is refused."""
    bench.conforms("basics")


@case
def collectives(bench: Bench) -> None:
    """Every collective gives what its docstring says, on the host and on the device, in all its forms. Its members may
    end together or one by one.
    """
    bench.conforms("collectives")
    bench.conforms_without_time("collectives")


@case
def dtypes(bench: Bench) -> None:
    """Elements of every type arrive as they were, and those that gloo and NCCL both reduce are reduced."""
    bench.conforms("dtypes")
    bench.conforms_without_time("dtypes")


@case
def streams(bench: Bench) -> None:
    """Streams run side by side; events order them; views share memory; `record_stream` keeps it.

    A backend that never reuses freed memory, as gloo, keeps the last rule without doing anything.
    """
    bench.conforms("streams")


@case
def events(bench: Bench) -> None:
    """An event has passed when the host has waited for it or for something behind it."""
    bench.conforms("events")
    bench.conforms_without_time("events")


@case
def queries(bench: Bench) -> None:
    """Until then a query may answer either way. No may become yes, yes stays yes, and is the answer after synchronize.

    So runs are not compared.
    """
    bench.conforms("queries", same=False)
    bench.conforms_without_time("queries", same=False)


@case
def stream_flags(bench: Bench) -> None:
    """A stream that waits for a flag stands until the host sets it, and holds no other stream; so does each replay."""
    bench.conforms("stream_flags")


@case
def transfers(bench: Bench) -> None:
    """What is sent arrives, in order, whether it is large or small, alone or in a group."""
    bench.conforms("transfers")


@case
def any_source(bench: Bench) -> None:
    """A receive from any source takes the next message of one member, and says which; any may be first.

    So runs are not compared.
    """
    bench.conforms("any_source", same=False)
    bench.conforms_without_time("any_source", same=False)


@case
def looks(bench: Bench) -> None:
    """A look at a host's collective or transfer says no while it cannot be over, and yes once it was awaited. In
    between it may answer either way, and yes stays yes.

    So runs are not compared.
    """
    bench.conforms("looks", same=False)
    bench.conforms_without_time("looks", same=False)


@case
def made_groups(bench: Bench) -> None:
    """A group that ranks make during a run has what other groups have, for its members alone."""
    bench.conforms("made_groups")
    bench.conforms_without_time("made_groups")


@case
def graphs(bench: Bench) -> None:
    """A capture keeps what is put on its streams and does not run it. A replay runs it in the order of the capture, on
    the buffers of the capture and their present contents. A capture refuses calls that learn.
    """
    bench.conforms("graphs")


@case
def mail(bench: Bench) -> None:
    """Messages arrive in order; to stand in an idle get is to have ended well; nothing is left for the next run."""
    for _ in range(2):
        bench.conforms("mail")


@case
def polling(bench: Bench) -> None:
    """A message is found by a host that only polls. How often it has to is a matter of time, and is not compared."""
    bench.conforms("polling", same=False)


@case
def sleep(bench: Bench) -> None:
    """A host that sleeps stands still for at least that time."""
    run = bench.conforms("sleep")
    bench.require(run.elapsed_ns >= 3 * SLEEP_NS, f"sleeps of 3 x {SLEEP_NS} ns took {run.elapsed_ns} ns in all")


@case
def threads(bench: Bench) -> None:
    """Host threads of a rank share all that it has; flags order them; a join of a thread learns what it raised. All
    other parts give in a program with threads what they give in one without.
    """
    bench.conforms("threads")
    for part in PARTS:
        bench.healthy("conformance_threads", {"parts": (part,), "rounds": 1}, bench.world())


@case
def stores(bench: Bench) -> None:
    """A listener is found on its port until it leaves; keys hold what was set last; time-outs strike."""
    bench.conforms("stores")


@case
def changes(bench: Bench) -> None:
    """A store adds, compares and deletes in one step, whichever member is first. So runs are not compared."""
    bench.conforms("changes", same=False)
    bench.conforms_without_time("changes", same=False)


@case
def services(bench: Bench) -> None:
    """Services are actors behind the ranks, with mailboxes and stores and without a device or communicator."""
    for nodes in ((), (*[0] * bench.size, 1, 2)):
        bench.healthy("conformance_services", {}, bench.world(services=SERVICES, nodes=nodes))


@case
def gates(bench: Bench) -> None:
    """A look into a mailbox that has a gate finds what the gate says: one message, whatever came before, or nothing."""
    world = bench.world(services=("desk",))
    for pick in (0, -1):  # messages as early as can be, and as late
        early = SimBackend(choose=lambda _, options, pick=pick: range(len(options))[pick])  # type: ignore[misc]
        simulated = early.run(world, "conformance_gates", {})
        run = bench.backend.run(replace(world, gates=gates_of(simulated)), "conformance_gates", {})
        bench.same(run, simulated)


@case
def aborts(bench: Bench) -> None:
    """What a rank has aborted raises wherever it waits or calls; its streams go on, and so does the next world."""
    bench.healthy("conformance_aborts", {}, bench.world())
    bench.conforms("collectives")


@case
def lazy(bench: Bench) -> None:
    """Communicators that are made at their first use give what others give; a capture refuses to make one."""
    world = bench.world(lazy=True)
    bench.healthy("conformance_lazy", {"rounds": 1}, world)
    bench.healthy("conformance", {"parts": ("transfers",)}, world)


@case
def lines(bench: Bench) -> None:
    """Every record names the program's line that made the call, `wait_stream` as well, whose two records it shares."""
    for part in (*PARTS, "queries", "any_source", "looks", "changes", "sleep", "threads"):
        run = bench.conforms(part, same=False)
        for raw in [raw for journal in run.journals for raw in journal if raw[KIND] not in NOT_CALLED]:
            line, calls = line_of(raw), calls_of(raw)
            named = f"{raw[SITE]}[{raw[ORDINAL]}] ({raw[KIND]}) names {raw[WHERE]!r}: {line or 'no line'}"
            own = raw[WHERE].startswith("dpsim/testing/conformance/") and re.search(rf"\b({calls})\(", line)
            bench.require(bool(own), f"{named}; expected a line of the program that calls {calls}")


for point in entry_points(group="dpsim.cases"):  # of other packages: each runs a program of theirs
    with suppress(ImportError):
        case(point.load())


@case
def order(bench: Bench) -> None:
    """The ops of a communicator and of a stream run in the order of their issue. It makes no difference what a host
    awaits first and how far it runs ahead.
    """
    bench.passes("ahead", "device", "host")


@case
def groups(bench: Bench) -> None:
    """A rank finds its own communicator by kind; groups of one kind have nothing to do with one another."""
    bench.passes("device", world=bench.world(alone=True))


@case
def delays(bench: Bench) -> None:
    """A delay changes nothing but time: before the program, before a site, before a collective, on host and device."""
    host = [At(), At("check.sum", ODD), At(communicator="dp_cpu", seq=1)]
    device = [At("check.fill", 0), At("check.read", 2), At(communicator="dp", seq=1)]
    places = host + device
    told = bench.world(delays=[Delay(bench.last, at, LATE_NS) for at in places])
    late = bench.passes("host", "device", world=told)
    bench.same(late, bench.passes("host", "device"))
    # Each is waited for before the next one begins. Half of it, because a device spins by its clock and that varies.
    least = len(places) * LATE_NS // 2
    bench.require(late.elapsed_ns >= least, f"delays of {len(places)} x {LATE_NS} ns took {late.elapsed_ns} ns in all")


@case
def awaited_twice(bench: Bench) -> None:
    """What a host awaits is awaited exactly once; a second await is a RuntimeError."""
    run = bench.passes("twice")
    for rank, journal in enumerate(run.journals):
        for raw in journal:
            if raw[KIND] == "decision":
                said = f"rank {rank}, step {raw[STEP]}, {raw[SITE]}: {raw[DECISION_VALUE]}"
                bench.require(raw[DECISION_VALUE] == "RuntimeError", said)


@case
def closed(bench: Bench) -> None:
    """A backend that was closed may be used again."""
    bench.passes("host", "device")
    bench.backend.close()
    bench.backend.close()
    bench.passes("host", "device")
