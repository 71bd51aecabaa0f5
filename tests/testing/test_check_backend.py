"""Tests that the backends keep the contract, and that the conformance suite finds backends that do not.

A *faulty twin* is the simulation with one rule broken, in a few lines of code. Each twin names the case of the suite
that must fail on it. Every case has a twin, because a case that never failed proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpsim.backend.calls import graphs, streams
from dpsim.backend.calls import rank as backend_rank
from dpsim.backend.calls.streams import JournaledStream
from dpsim.backend.graphs import capture, kept, kernel_call
from dpsim.backend.graphs.kernel_call import KernelCall
from dpsim.backend.hosts import work
from dpsim.backend.hosts.aborting import Abortable
from dpsim.backend.journal import plain
from dpsim.backend.journal.fault_injector import FaultInjector
from dpsim.backend.journal.issue import Issue
from dpsim.backend.memory.buffers import untagged
from dpsim.contract.collectives import Role, role
from dpsim.contract.collectives.reductions import REDUCTIONS
from dpsim.contract.interface import HostArray, Stream
from dpsim.contract.ops import KIND, OP, POST_CONTENT, POST_MAILBOX, SITE, RawRecord
from dpsim.contract.rules import store_changes
from dpsim.contract.world import Backend, BackendUnavailable, CommunicatorSpec, End, Progress, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.sim.calls import communicators as sim_communicators
from dpsim.sim.calls import flags as sim_flags
from dpsim.sim.calls import rank as sim_rank
from dpsim.sim.calls import streams as sim_streams
from dpsim.sim.calls import underway as sim_asked
from dpsim.sim.collectives import any_source as sim_any_source
from dpsim.sim.collectives import parts
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.collectives.results import Results
from dpsim.sim.graph import machine as sim_machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.chain import Chain
from dpsim.sim.memory import buffers as sim_buffers
from dpsim.sim.memory.allocator import CachingAllocator
from dpsim.sim.memory.device import Device
from dpsim.sim.services import ports as sim_ports
from dpsim.sim.services import stores as sim_stores
from dpsim.sim.wiring import Wiring
from dpsim.testing import CONFORMANCE, check_backend
from tests.properties import slow_but
from tests.records import changed

# ---- backends that keep the contract


@pytest.mark.parametrize("size", slow_but([2, 3, 5], lambda size: size < 3))
@pytest.mark.parametrize("case", CONFORMANCE)
def test_the_simulation_passes_each_conformance_case(case: str, size: int) -> None:
    check_backend("sim", size=size, only=case)


LONG_ON_GLOO = (
    *(
        "altered_op",
        "altered_root",
        "altered_dtype",
        "repeated",
        "inserted",
        "skipped_captured",
        "skipped_device",
        "skipped_host",
    ),
    *("altered_count", "raises", "dies", "dies_last", "closed", "aborts", "gates", "lines", "mail"),
    *("services", "threads", "footprint"),
)
"""Slow cases: they wait until dpsim detects a hang, start processes, or make thousands of calls. Similar cases stay
quick.
"""


@pytest.mark.xdist_group("gloo")
@pytest.mark.parametrize("case", slow_but(CONFORMANCE, lambda case: case not in LONG_ON_GLOO))
def test_gloo_passes_each_conformance_case(case: str, dpsim_backend: Callable[..., Backend]) -> None:
    check_backend(dpsim_backend("gloo", size=2), size=2, only=case)


@pytest.mark.gpu(2)
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("case", CONFORMANCE)
def test_nccl_passes_each_conformance_case(case: str, dpsim_backend: Callable[..., Backend]) -> None:
    check_backend(dpsim_backend("nccl", size=2), size=2, only=case)


# ---- backends that break the contract


class Twin(SimBackend):
    """The simulation, which a subclass breaks: the world that it gets (`told`), the run that it returns (`said`), or
    the machine (`broken`).
    """

    name = "twin"
    patch: pytest.MonkeyPatch

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        with pytest.MonkeyPatch.context() as self.patch:
            self.broken()
            return self.said(super().run(self.told(world), program, args, progress))

    def broken(self) -> None:
        """Breaks the machine for this run."""

    def told(self, world: World) -> World:
        return world

    def said(self, run: Run) -> Run:
        return run


def edited(run: Run, edit: Callable[[RawRecord], RawRecord]) -> Run:
    """Returns the run with every record of the last rank edited."""
    return replace(run, journals=[*run.journals[:-1], [edit(raw) for raw in run.journals[-1]]])


class DropsADecision(Twin):
    def said(self, run: Run) -> Run:
        journal = run.journals[-1]
        first = next(index for index, raw in enumerate(journal) if raw[KIND] == "decision")
        return replace(run, journals=[*run.journals[:-1], journal[:first] + journal[first + 1 :]])


class ReordersACommunicator(Twin):
    """Faulty: the journal of the last rank has its second collective before its first."""

    def said(self, run: Run) -> Run:
        journal = list(run.journals[-1])
        first, second = [index for index, raw in enumerate(journal) if raw[KIND] == "collective"][:2]
        journal[first], journal[second] = journal[second], journal[first]
        return replace(run, journals=[*run.journals[:-1], journal])


class ChangesAResult(Twin):
    """Faulty: a sum is one too large on the ranks that receive it."""

    def broken(self) -> None:
        receive = Contribution.receive
        self.patch.setattr(Contribution, "receive", lambda own, wire: receive(own, wire + 1))


class Generous(Results):
    """All members get the result of a reduction."""

    def all(self) -> list[HostArray | None]:
        return [self.of(rank) for rank in self.brought]

    def _one(self, rank: int, issue: Issue) -> HostArray | None:
        if issue.op == "reduce":
            return issue.rules.result(issue.call, self.indices[rank], self)
        return super()._one(rank, issue)


class ReducesForAllWithoutTime(Twin):
    """Faulty: only the untimed machine breaks the contract: all members get the result of a reduce."""

    def broken(self) -> None:
        self.patch.setattr(parts, "Results", Generous)
        self.patch.setattr(parts, "role", lambda *how: Role(True, True) if how[0] == "reduce" else role(*how))


class ReducesTooEarlyWithoutTime(Twin):
    """Faulty: only the untimed machine breaks the contract: the root of a reduce waits for no member."""

    def broken(self) -> None:
        wanted = parts._wanted

        def early(issue: Issue, rank: int, members: tuple[int, ...]) -> frozenset[int] | None:
            return frozenset({rank}) if issue.op == "reduce" else wanted(issue, rank, members)

        self.patch.setattr(parts, "_wanted", early)


class GathersTooEarlyWithoutTime(Twin):
    """Faulty: the root of a gather waits for no member."""

    def broken(self) -> None:
        wanted = parts._wanted

        def early(issue: Issue, rank: int, members: tuple[int, ...]) -> frozenset[int] | None:
            return frozenset({rank}) if issue.op == "gather" else wanted(issue, rank, members)

        self.patch.setattr(parts, "_wanted", early)


class AddsWhereItMultiplies(Twin):
    def broken(self) -> None:
        self.patch.setitem(REDUCTIONS, "prod", REDUCTIONS["prod"]._replace(apply=np.add))


class RunsAStreamOutOfOrder(Twin):
    """Faulty: an op does not wait for its predecessor on the stream."""

    def broken(self) -> None:
        def append(chain: Chain, op: Op) -> None:
            chain.tail = op
            chain.machine.submit(op)

        self.patch.setattr(Chain, "append", append)


class SendsLate(Twin):
    """Faulty: a host collective sends the array's contents at its end rather than at its start."""

    def broken(self) -> None:
        self.patch.setattr(sim_communicators, "np", _NoCopy(np))


class _NoCopy:
    """numpy whose `array` does not copy."""

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def __getattr__(self, name: str) -> Any:
        return self._numpy.asarray if name == "array" else getattr(self._numpy, name)


class ForgetsRecordStream(Twin):
    def broken(self) -> None:
        self.patch.setattr(sim_buffers.SimBuffer, "_hold", lambda buffer, stream: None)


class HasOneStream(Twin):
    """Faulty: all streams of a rank are one queue."""

    def broken(self) -> None:
        chain = Device.chain
        self.patch.setattr(Device, "chain", lambda device, name: chain(device, "the only one"))


class NeverSeesAnEvent(Twin):
    """Faulty: a query of an event always returns False, even if the host has waited for the event."""

    def broken(self) -> None:
        self.patch.setattr(sim_streams.SimEvent, "_passed", lambda _: False)


class ForgetsAnEvent(Twin):
    """Faulty: a query of an event returns False after a query that returned True."""

    def broken(self) -> None:
        answers = cycle([True, False])
        self.patch.setattr(sim_streams.SimEvent, "_passed", lambda _: next(answers))


class NamesNoSender(Twin):
    """Faulty: a receive from any source always names rank 0 as the sender."""

    def broken(self) -> None:
        self.patch.setattr(sim_any_source, "_same", lambda source: 0)


class ForgetsAnEnd(Twin):
    """Faulty: a query of a call returns False after a query that returned True."""

    def broken(self) -> None:
        answers = cycle([True, False])

        def outcome() -> Any:
            return next(answers)
            yield

        self.patch.setattr(sim_asked.QueriedCall, "query", lambda _: outcome)


class AnswersTooEarly(Twin):
    """Faulty: a query of a call returns True as soon as the rank has made the call."""

    def broken(self) -> None:
        self.patch.setattr(sim_asked.QueriedCall, "_is_seen", lambda _: True)


class MakesOneGroup(Twin):
    """Faulty: all groups that ranks make are the first one."""

    def broken(self) -> None:
        make = Wiring._make_during_run
        first: dict[str, CommunicatorSpec] = {}

        def make_first(wiring: Wiring, number: int, spec: CommunicatorSpec) -> Any:
            same = first.setdefault(spec.domain, spec)
            return make(wiring, number, same)

        self.patch.setattr(Wiring, "_make_during_run", make_first)


class HoldsAllStreams(Twin):
    """Faulty: if one stream waits for a flag, all streams do."""

    def broken(self) -> None:
        def hold(stream: sim_streams.SimStream, flag: Any) -> None:
            for chain in stream.device.chains.values():
                flag.hold(chain)

        self.patch.setattr(sim_streams.SimStream, "_wait_flag", hold)


class CoalescesNothing(Twin):
    """Faulty: the transfers of a coalesced group start one after the other."""

    def broken(self) -> None:
        self.patch.setattr(sim_communicators.SimDeviceCommunicator, "coalesced", lambda group, stream: nullcontext())


class RunsWhatItCaptures(Twin):
    """Faulty: a capture records its calls, and also runs them at once."""

    def broken(self) -> None:
        launch = capture.GraphCapture.launch

        def runs(own: Any, stream: Any, site: str, kernel: Any, reads: Any, writes: Any, *more: Any) -> None:
            launch(own, stream, site, kernel, reads, writes, *more)
            stream._launch(KernelCall((own.journal.rank, site, 0), kernel, reads, writes, *more))

        self.patch.setattr(capture.GraphCapture, "launch", runs)


class ReplaysOnlyJournals(Twin):
    """Faulty: a replay writes its records, but runs nothing."""

    def broken(self) -> None:
        self.patch.setattr(
            graphs.GraphReplay, "issues", property(lambda own: False, lambda own, issues: None), raising=False
        )


class ForgetsThatStreamsJoin(Twin):
    """Faulty: the branches of a replay ignore their events."""

    def broken(self) -> None:
        self.patch.setattr(kept.KeptWait, "again", forgetful(kept.KeptWait.again))


def forgetful(again: Any) -> Any:
    """Returns a function that repeats a wait of a graph without its event, so that the wait has no effect."""

    def journals(own: Any, replay: Any) -> None:
        issues, replay.marks[own.mark] = replay.marks[own.mark], (replay.marks[own.mark][0], None)
        again(own, replay)
        replay.marks[own.mark] = issues

    return journals


class GivesGraphsTheMemoryOfStreams(Twin):
    """Faulty: a graph allocates from the pool of the streams instead of a separate pool."""

    def broken(self) -> None:
        alloc = CachingAllocator.alloc
        self.patch.setattr(CachingAllocator, "alloc", lambda own, pool, size: alloc(own, pool.partition("@")[0], size))


class HangsInAnIdleGet(Twin):
    """Faulty: a rank that waits in an idle get ends as blocked."""

    def said(self, run: Run) -> Run:
        idle = [journal[-1][KIND] == "take" for journal in run.journals]
        ends: list[End] = ["blocked" if stands else "finished" for stands in idle]
        return replace(run, ends=ends, observed="somebody stood still") if any(idle) else run


class LeavesMessages(Twin):
    """Faulty: the next program receives a message that the last one has not taken."""

    letters: tuple[Any, ...] = ()

    def broken(self) -> None:
        take = sim_rank.SimRank._take

        def given() -> Any:
            return self.letters[0]
            yield

        def old(rank: sim_rank.SimRank, mailbox: str, *how: Any) -> Any:
            found = mailbox == "left-over" and self.letters
            return given if found else take(rank, mailbox, *how)

        self.patch.setattr(sim_rank.SimRank, "_take", old)

    def said(self, run: Run) -> Run:
        self.letters = tuple(
            raw[POST_CONTENT] for raw in run.journals[0] if raw[KIND] == "post" and raw[POST_MAILBOX] == "left-over"
        )
        return run


class PollsInVain(Twin):
    def broken(self) -> None:
        take = sim_rank.SimRank._take
        self.patch.setattr(
            sim_rank.SimRank,
            "_take",
            lambda rank, box, how, *more: rank._sleep(0) if how == "poll" else take(rank, box, how, *more),
        )


class IgnoresGates(Twin):
    def broken(self) -> None:
        self.patch.setattr(FaultInjector, "gate", lambda journal: None)


class TakesCallsOnWhatWasAborted(Twin):
    def broken(self) -> None:
        self.patch.setattr(Abortable, "refuse_aborted", lambda communicator, site: None)


class LetsFlagsGo(Twin):
    """Faulty: a wait for a flag returns at once."""

    def broken(self) -> None:
        def passes() -> Any:
            return
            yield

        self.patch.setattr(sim_flags.SimFlag, "_wait", lambda flag, late_ns: passes)


class NeverSleeps(Twin):
    def broken(self) -> None:
        sleep = sim_rank.SimRank._sleep
        self.patch.setattr(sim_rank.SimRank, "_sleep", lambda rank, ns: sleep(rank, 0))


class NamesTheContract(Twin):
    def broken(self) -> None:
        def wait_stream(stream: JournaledStream, other: Stream) -> None:
            stream.wait(other.record())

        self.patch.setattr(JournaledStream, "wait_stream", wait_stream)


class NamesNoLine(Twin):
    def said(self, run: Run) -> Run:
        return replace(run, journals=[[changed(raw, where="") for raw in journal] for journal in run.journals])


class MixesGroups(Twin):
    """Faulty: all groups of a kind are one group."""

    def told(self, world: World) -> World:
        kinds: dict[str, CommunicatorSpec] = {}
        for spec in world.communicators:
            first = kinds.setdefault(spec.kind, spec)
            kinds[spec.kind] = first._replace(ranks=tuple(sorted({*first.ranks, *spec.ranks})))
        return replace(world, communicators=tuple(kinds.values()))


class ForgetsDelays(Twin):
    def told(self, world: World) -> World:
        return replace(world, delays=())


class DelaysBySkipping(Twin):
    """Faulty: a rank with a delay makes none of its calls."""

    def said(self, run: Run) -> Run:
        late = any(raw[KIND] == "injected" for raw in run.journals[-1])
        return replace(run, ends=[*run.ends[:-1], "blocked"], observed="stood still") if late else run


class AwaitsTwice(Twin):
    def broken(self) -> None:
        once = work.Work.__await__
        outcomes: dict[work.Work, Any] = {}

        def again(awaited: work.Work) -> Any:
            awaited._outcome = outcomes[awaited] = awaited._outcome or outcomes[awaited]
            return once(awaited)

        self.patch.setattr(work.Work, "__await__", again)


class EndsWithItsProcesses(Twin):
    """Faulty: after `close` the backend has no processes, and returns no journals of most ranks."""

    over = False

    def close(self) -> None:
        self.over = True

    def said(self, run: Run) -> Run:
        return replace(run, journals=run.journals[:1]) if self.over else run


class ForgetsFaults(Twin):
    def told(self, world: World) -> World:
        return replace(world, faults=())


class CallsAHangFinished(Twin):
    def said(self, run: Run) -> Run:
        return replace(run, ends=["finished" for _ in run.ends], observed="")


class DoesNotRecover(Twin):
    """Faulty: after a run that did not finish, the next run hangs."""

    stuck = False

    def said(self, run: Run) -> Run:
        stuck, self.stuck = self.stuck, not run.finished
        cut = [journal[:-1] for journal in run.journals]
        return replace(run, journals=cut, ends=["blocked" for _ in run.ends], observed="stuck") if stuck else run


class JournalsWhatWasMeant(Twin):
    """Faulty: a fault alters the collective, but its record is that of the program."""

    def said(self, run: Run) -> Run:
        meant = {raw[SITE]: raw for raw in run.journals[0] if raw[KIND] == "collective"}
        return edited(run, lambda raw: (*raw[:OP], *meant[raw[SITE]][OP:]) if raw[KIND] == "collective" else raw)


class DeathIsContagious(Twin):
    """Faulty: the peers of a rank that died are killed too."""

    def said(self, run: Run) -> Run:
        return replace(run, ends=["died" for _ in run.ends]) if "died" in run.ends else run


class LetsKernelsWriteWhatTheyRead(Twin):
    def broken(self) -> None:
        self.patch.setattr(sim_streams, "readable_of", sim_buffers.array_of)


class LetsKernelsReturn(Twin):
    def broken(self) -> None:
        self.patch.setattr(sim_machine, "refuse_result", lambda result: None)


class RefusesToWriteWhatIsReadAsWell(Twin):
    """Faulty: a buffer that a launch names twice is read-only."""

    def broken(self) -> None:
        launch = sim_streams.SimStream._launch

        def frozen(stream: sim_streams.SimStream, call: KernelCall) -> None:
            if set(call.reads) & set(call.writes):
                call.writes = [SimpleNamespace(array=sim_buffers.readable_of(call.reads[0]))]  # type: ignore[list-item]
            launch(stream, call)

        self.patch.setattr(sim_streams.SimStream, "_launch", frozen)


class TakesNan(Twin):
    def broken(self) -> None:
        check = plain.check_plain
        self.patch.setattr(
            backend_rank, "check_plain", lambda *given, **more: check(*given, **{**more, "compared": False})
        )


class TakesNoKernel(Twin):
    def broken(self) -> None:
        check = kernel_call.check_kernel
        self.patch.setattr(streams, "check_kernel", lambda kernel, site: kernel is None or check(kernel, site))


class TakesAttributes(Twin):
    def broken(self) -> None:
        def assign(rank: sim_rank.SimRank, name: str, value: Any) -> None:
            if name != "own":
                object.__setattr__(rank, name, value)

        self.patch.setattr(sim_rank.SimRank, "__setattr__", assign)


class SwallowsExceptions(Twin):
    """Faulty: a rank whose program raised ends as blocked."""

    def said(self, run: Run) -> Run:
        journals = [[raw for raw in journal if raw[KIND] != "raised"] for journal in run.journals]
        return replace(run, journals=journals, ends=["blocked" if end == "raised" else end for end in run.ends])


class ForgetsTags(Twin):
    """Faulty: the journal omits the tags of tagged buffers."""

    def said(self, run: Run) -> Run:
        return edited(run, lambda raw: tuple(untagged(field) if is_refs(field) else field for field in raw))


def is_refs(field: Any) -> bool:
    return type(field) is tuple and bool(field) and all(type(ref) is tuple for ref in field)


class GivesLists(Twin):
    def said(self, run: Run) -> Run:
        return edited(run, list)  # type: ignore[arg-type]


class CountsBackwards(Twin):
    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        assert progress is not None
        progress(2)
        progress(1)
        return super().run(world, program, args)


class KeepsNoEnd(Twin):
    def said(self, run: Run) -> Run:
        return replace(run, journals=[[raw for raw in own if raw[KIND] != "finished"] for own in run.journals])


class KeepsPorts(Twin):
    """Faulty: the port of a store stays in use after its owner has left."""

    def broken(self) -> None:
        self.patch.setattr(sim_stores.SimStore, "_close", lambda store: None)


class ForgetsWhatWasThere(Twin):
    """Faulty: a compare that fails keeps the value, but returns the caller's own."""

    def broken(self) -> None:
        def change(how: str, value: Any, operands: Sequence[Any]) -> store_changes.Changed:
            after = store_changes.changed(how, value, operands)
            return after._replace(answer=operands[1]) if how == "compare_set" else after

        self.patch.setattr(sim_ports, "changed", change)


class ForgetsServices(Twin):
    def told(self, world: World) -> World:
        return replace(world, services=(), nodes=())


class GivesServicesADevice(Twin):
    def broken(self) -> None:
        self.patch.setattr(sim_rank.SimRank, "stream", lambda rank, name: rank._stream(name))


class MakesCommunicatorsBeforehand(Twin):
    def told(self, world: World) -> World:
        return replace(world, lazy=False)


TWINS: list[tuple[type[Twin], str, str]] = [
    (
        ChangesAResult,
        "collectives",
        r"rank 0: expected dp_cpu.all_reduce\[\d\].*rank 0 raised AssertionError: host all_reduce",
    ),
    (
        ReducesForAllWithoutTime,
        "collectives",
        r"raised AssertionError: \w+ reduce of int32: .*the other members keep",
    ),
    (ReducesTooEarlyWithoutTime, "collectives", "raised AssertionError: host reduce of int32"),
    (GathersTooEarlyWithoutTime, "collectives", "raised AssertionError: host gather of int32"),
    (AddsWhereItMultiplies, "dtypes", "raised AssertionError: host all_reduce of .*the prod over the group"),
    (ForgetsRecordStream, "streams", "a copy of a freed buffer: .*after record_stream, memory that the program frees"),
    (HasOneStream, "streams", r"rank 0: expected conformance.read.*got nothing more"),
    (NeverSeesAnEvent, "events", "Event.query after synchronize: expected True, got False"),
    (ForgetsAnEvent, "queries", "queries of an event on a stream that may be idle: .*each later query"),
    (HoldsAllStreams, "stream_flags", r"rank 0: expected conformance.read.*got nothing more"),
    (NamesNoSender, "any_source", "messages of rank 1: expected 2, got 0.*also returns its sender"),
    (ForgetsAnEnd, "looks", "queries of an? .*each later query of the call returns True"),
    (AnswersTooEarly, "looks", "a barrier that the last member has not called: expected False, got True"),
    (MakesOneGroup, "made_groups", r"expected pair.1\[0,1\].*got|rank 0: expected"),
    (CoalescesNothing, "transfers", "of rank 0: expected dp.send"),
    (RunsWhatItCaptures, "graphs", "a buffer of a capture: .*a capture records work and does not run it"),
    (ReplaysOnlyJournals, "graphs", "the sum of replay 0: .*a replay runs the recorded work on the contents"),
    (ForgetsThatStreamsJoin, "graphs", "a copy on the other stream: .*a stream that waits for an event"),
    (GivesGraphsTheMemoryOfStreams, "graphs", "memory of the program: .*a graph allocates from its own pool"),
    (HangsInAnIdleGet, "mail", "expected the ends"),
    (LeavesMessages, "mail", r"rank 0 raised AssertionError: a poll of mailbox left-over"),
    (PollsInVain, "polling", "rank 0 ended as raised.*a poll: expected .*, got None"),
    (LetsFlagsGo, "threads", "rank 0/even: expected nothing more|a total of all turns"),
    (KeepsPorts, "stores", "expected conformance.(get.left|open.again)|closes its store frees the port"),
    (ForgetsWhatWasThere, "changes", "compare_set with another expected value: expected 0, got 99"),
    (ForgetsServices, "services", "Run.journals has 2 entries for 4 ranks and services"),
    (GivesServicesADevice, "services", "accepted a stream of a service"),
    (MakesCommunicatorsBeforehand, "lazy", "a first use in a capture: expected 900, got None"),
    (NeverSleeps, "sleep", "sleeps of 3 x 20000000 ns took 0 ns in all"),
    (SendsLate, "basics", "a host collective sends the content that the array has at the call"),
    (TakesNan, "basics", "accepted NaN for a message"),
    (TakesNoKernel, "basics", "accepted None for a kernel"),
    (TakesAttributes, "basics", "accepted a new attribute that the program sets on an object of dpsim"),
    (GivesLists, "basics", "record 0 of rank 1 is none of dpsim.contract.ops"),
    (CountsBackwards, "basics", "progress went backwards"),
    (DropsADecision, "groups", r"of rank 1: expected combined\[0\].*got check.buffer\[1\]"),
    (KeepsNoEnd, "basics", "rank 0 ended as finished, but its journal records no end"),
    (ReordersACommunicator, "order", r"of rank 1: expected check.first\[0\].*got check.second\[0\]"),
    (RunsAStreamOutOfOrder, "order", "record .* of rank 0: expected check"),
    (
        NamesTheContract,
        "lines",
        r"record\[\d+\] \((mark|wait)\) names .tests/testing/test_check_backend.py",
    ),
    (NamesNoLine, "lines", r"conformance.put\[0\] \(alloc\) names '': no line"),
    (MixesGroups, "groups", r"expected check.share\[0\].*ep1.*got"),
    (ForgetsDelays, "delays", "took .* ns in all"),
    (DelaysBySkipping, "delays", "rank 1 ended as blocked, but its journal records"),
    (TakesCallsOnWhatWasAborted, "aborts", "accepted a barrier"),
    (IgnoresGates, "gates", r"rank 0: expected conformance.*got"),
    (AwaitsTwice, "awaited_twice", r"rank 0: expected awaited.again.*decided RuntimeError.*got check.once\[0\]"),
    (EndsWithItsProcesses, "closed", "Run.journals has 1 entries for 2 ranks"),
    (CallsAHangFinished, "skipped_host", "rank 0 ended as finished, but its journal records no end"),
    (DoesNotRecover, "skipped_device", r"rank 0: expected end\[0\].*got nothing more"),
    (ForgetsFaults, "skipped_host", r"rank 0: expected check.sum\[3\].*returned"),
    (ForgetsFaults, "skipped_device", r"rank 0: expected nothing more, got check.read\[3\]"),
    (ForgetsFaults, "skipped_captured", r"rank 0: expected check.read\[3\].*returned"),
    (ForgetsFaults, "repeated", r"rank 0: expected check.sum\[4\].*returned"),
    (ForgetsFaults, "inserted", r"rank 0: expected check.sum\[3\].*returned"),
    (JournalsWhatWasMeant, "altered_count", "expected a finding of class MISMATCH:COLLECTIVE:COUNT"),
    (JournalsWhatWasMeant, "altered_dtype", "expected a finding of class MISMATCH:COLLECTIVE:DTYPE"),
    (JournalsWhatWasMeant, "altered_op", "expected a finding of class MISMATCH:COLLECTIVE:OP"),
    (JournalsWhatWasMeant, "altered_root", "expected a finding of class MISMATCH:COLLECTIVE:ROOT"),
    (DeathIsContagious, "dies", "expected the ends"),
    (DeathIsContagious, "dies_last", "rank 0 ended as died, but its journal records"),
    (SwallowsExceptions, "raises", "rank 1: expected ValueError"),
    (
        LetsKernelsWriteWhatTheyRead,
        "footprint",
        "expected a finding of class CRASH:KERNELERROR, the checks find nothing",
    ),
    (LetsKernelsReturn, "footprint", "expected a finding of class CRASH:KERNELERROR, the checks find nothing"),
    (
        RefusesToWriteWhatIsReadAsWell,
        "footprint",
        "expected as culprit rank 1, step 3, KernelError; got every rank, step 0",
    ),
    (ForgetsTags, "overwritten", r"rank 1: expected check.fill\[0\]"),
]


@pytest.mark.parametrize(("twin", "case", "message"), TWINS, ids=[f"{twin.__name__}-{case}" for twin, case, _ in TWINS])
def test_a_faulty_twin_is_caught(twin: type[Twin], case: str, message: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s)^backend twin, case {case}: .*{message}.*the rule: "):
        check_backend(twin(), only=case)


@pytest.mark.parametrize("case", ["basics", "collectives", "transfers", "skipped_host"])
def test_the_twin_passes_some_cases_in_which_nothing_is_broken(case: str) -> None:
    check_backend(Twin(), only=case)


def test_every_case_has_a_faulty_twin() -> None:
    """Checks that each case of `dpsim.testing` has a faulty twin. Cases of other packages have theirs elsewhere."""
    own = {name for name, check in CONFORMANCE.items() if check.__module__.startswith("dpsim.testing.")}
    assert {case for _, case, _ in TWINS} == own


@pytest.mark.slow
def test_the_twin_in_which_nothing_is_broken_passes() -> None:
    check_backend(Twin(), size=3)


# ---- calls of the suite


def test_an_error_quotes_the_rule() -> None:
    with pytest.raises(AssertionError, match="the rule: A delay changes only time"):
        check_backend(ForgetsDelays(), only=["groups", "delays"])


def test_check_backend_refuses_a_world_of_one_rank() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        check_backend("sim", size=1)


def test_a_backend_that_cannot_run_here() -> None:
    class Absent(Twin):
        def unavailable(self, size: int) -> str | None:
            return f"needs {size} GPUs, found 0"

    with pytest.raises(BackendUnavailable, match="needs 2 GPUs, found 0"):
        check_backend(Absent())
