"""Reads the messages of one thread of a rank's process, and makes a call of dpsim's interface for each of them.

    await Conversation(rank, RankProcess(rank, job, "gloo", silence=60), loops=True).hold()

The process of the rank sends messages and continues until it needs an answer, for example the result of a collective.
The conversation awaits the call, then it sends the answer. When the run ends or a fault kills the rank, the
conversation ends the process. If the process starts a thread, that thread has its own conversation, which runs in a
host thread of the rank (`dpsim.torch.threads`). An early end of the process is a finding:

    raised in its program       CRASH with the name and the place of the exception
    sys.exit(3), os._exit(3)    CRASH:EXITED, with the code
    a signal                    CRASH:KILLED, with its name
    nothing for too long        CRASH:SILENT: it computes, or waits for what is not simulated

A signal from outside, as when memory runs out, says nothing about the program, so the run is lost (`Lost`).
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, cast

from dpsim.backend.journal.call_site import forget_places, placed_as
from dpsim.backend.journal.elsewhere import Elsewhere, raised_elsewhere, set_place
from dpsim.backend.journal.trouble import FAULTS
from dpsim.contract.chain import Chain
from dpsim.contract.interface import Aborted, Rank, Store
from dpsim.contract.ops import DTYPES, MAIN
from dpsim.contract.world import Lost
from dpsim.torch import wire
from dpsim.torch.device_calls import DeviceCalls
from dpsim.torch.found import ABORTS, NewGroup, not_covered
from dpsim.torch.host_calls import HostCalls, name_of
from dpsim.torch.lowered import TorchCall
from dpsim.torch.messages import ABOUT, FORMS, PLAIN_CALLS
from dpsim.torch.monitored import MonitoredBarriers
from dpsim.torch.nursery import HowEnded, RanksJob, nursery
from dpsim.torch.store_calls import StoreMessages
from dpsim.torch.threads import HeldThreads, ThreadMessages
from dpsim.torch.times import RankTimes

if TYPE_CHECKING:
    from dpsim.sim.calls.rank import SimRank


FILE = "file:"
"""The prefix of a probe that names a file which a rank wrote. A probe is a record that the rank writes."""
POLL = "is_completed"
"""The probe that the rank writes when the program calls `Work.is_completed`."""
ASYNCHRONOUS = "asynchronous_call"
"""The probe that a rank writes once, if its program waits for a Work."""
PARTS = ("", ".alloc", ".fill", ".join", ".left", ".members")
"""The suffixes of sites. One call of torch becomes several calls of dpsim, which share its place in the source."""


class RankProcess:
    """The process of a rank, shared by the conversations of its threads. `over`: the user's program has ended."""

    def __init__(self, rank: Rank, job: RanksJob, order: str, silence: float, aborts: bool = False) -> None:
        self.job = job
        self.aborts = aborts
        self.silence = silence
        self.calls: HostCalls | DeviceCalls = HostCalls(rank) if order == "gloo" else DeviceCalls(rank)
        self.stores: dict[int, Store] = {}
        self.threads = HeldThreads(rank)
        self.monitored = MonitoredBarriers(rank)
        self.over = False

    def begin(self, rank: int) -> None:
        """Takes a child for a global rank from the warm parent. Its pipe has a time-out of `silence` seconds."""
        self.seat = nursery().seat(self.job, rank)
        self.seat.pipe.end.settimeout(self.silence)

    def leave(self) -> None:
        self.over = True
        self.seat.leave()


class Conversation(ThreadMessages, StoreMessages):
    """The conversation with one thread of a rank's process. Each method `on_NAME` handles the message NAME."""

    def __init__(self, rank: Rank, process: RankProcess, loops: bool, name: str = MAIN) -> None:
        self.rank = rank
        self.process = process
        self.loops = loops
        self.name = name
        self.over = False
        self.calls, self.stores, self.threads = process.calls, process.stores, process.threads

    async def hold(self) -> None:
        """Runs until the user's program has ended. Raises the error that ended the program or its process."""
        self.rank.step = 0
        self.process.begin(self.rank.rank)
        self.times = RankTimes(self.rank.rank, self.process.seat.times)
        try:
            await self.go_on()
        finally:
            self.process.leave()

    async def go_on(self) -> None:
        """Handles the messages of this thread until the thread or the program has ended."""
        while not (self.over or self.process.over):
            message, blocks = self._receive()
            if self.over:
                return
            name, *values = wire.checked(message, FORMS)
            self.calls_beside(name)
            try:
                await getattr(self, f"on_{name}")(*values, *([blocks] if name == "start" else []))
            except Aborted:
                self._answer_error("the process group was aborted")
                continue
            if name in PLAIN_CALLS and self.process.job.threads:
                self._answer(True)

    def _receive(self) -> tuple[Any, list[bytes]]:
        rank, process = self.rank.rank, self.process
        try:
            return process.seat.pipe.receive()
        except wire.Closed:
            error = _of_process(rank, process.seat.how_ended())
            if error is not None:
                raise error from None
            self.over = True
            return [], []
        except TimeoutError:
            raise _silent(rank, process.silence) from None

    def _answer(self, value: Any, blocks: list[bytes] | None = None) -> None:
        self._send(["value", self.name, value], blocks or [])

    def _answer_error(self, text: str) -> None:
        self._send(["error", self.name, "RuntimeError", text], [])

    def _send(self, message: list[Any], blocks: list[bytes]) -> None:
        if self.process.over:
            return
        try:
            pipe = self.process.seat.pipe
            ns = self.times.unsaid()
            if ns is not None:
                pipe.send(["clock", ns])
            pipe.send(message, blocks)
            pipe.flush()
        except wire.Closed:
            pass  # the next read finds out how the process ended

    # ---- messages

    async def on_place(self, site: str, chain: list[Any]) -> None:
        for part in PARTS:
            if chain and set_place(site + part, _chain(chain)):
                forget_places(site + part)

    async def on_step(self, number: int) -> None:
        self.rank.step = number

    async def on_loop(self, number: int) -> None:
        if self.loops:
            self.rank.step = number

    async def on_decide(self, label: str, value: Any, group: str, site: str) -> None:
        with placed_as(label, site):
            self.rank.decide(label, _frozen(value), name_of(group))

    async def on_start(self, number: int, group: str, name: str, about: dict[str, Any], blocks: list[bytes]) -> None:
        call = _call(name, about)
        self.times.starts(number, group, call)
        self.calls.start(number, group, call, blocks[0])

    async def on_wait(self, number: int, site: str) -> None:
        value, blocks = await self.calls.wait(number, site)
        self.times.ends(number, value)
        self._answer(value, blocks)

    async def on_clock(self, ns: int) -> None:
        self.times.told(ns)

    async def on_outside(self, kind: str, place: str) -> None:
        job = self.process.job
        if kind != "thread" or job.ordered or not job.threads:
            simulated = cast("SimRank", self.rank)
            simulated.host_thread.machine.touched[kind, place, self.rank.rank] = None

    async def on_asynchronous(self) -> None:
        self.rank.probe(ASYNCHRONOUS)

    async def on_query(self, number: int, site: str) -> None:
        self.rank.probe(POLL)
        try:
            over = await self.calls.query(number, site)
        except Aborted:
            over = True  # the wait raises the error
        if over:
            self.times.ends(number)
        self._answer(over)

    async def on_within(self, number: int, ns: int, site: str) -> None:
        over = await self.calls.within(number, ns, site)
        if over:
            self.times.ends(number)
        self._answer(over)

    async def on_batch(self, group: str) -> None:
        self.calls.batch(group)

    async def on_group(self, kind: str, ranks: list[int], site: str) -> None:
        self.times.comes(kind)
        await self.calls.make(kind, tuple(ranks), site)
        self.times.meets(kind)
        self._answer(True)

    async def on_monitored(self, group: str, ranks: list[int], ns: int, every: bool, site: str) -> None:
        self.times.comes("monitored", group)
        error = await self.process.monitored.meet(group, ranks, ns, every, site)
        self.times.meets("monitored", group)
        if error:
            self._answer_error(error)
        else:
            self._answer(True)

    async def on_abort(self, group: str, site: str) -> None:
        if not self.process.aborts:
            raise NewGroup(ABORTS, ())
        self.calls.abort(group, site)

    async def on_sleep(self, ns: int, site: str) -> None:
        await self.rank.sleep(ns, site)
        self._answer(True)

    async def on_imported(self, modules: list[str]) -> None:
        nursery().warm(modules)

    async def on_done(self, files: list[str]) -> None:
        self.process.over = True
        self.threads.let_all()
        for name in files:
            self.rank.probe(f"{FILE}{'_'.join(name.replace(str(nursery().folder), '$TMPDIR').split())}")
        await self.end_daemons()
        self.over = True

    async def on_exited(self, code: int, chain: list[Any]) -> None:
        raise _exited(self.rank.rank, code, _chain(chain))

    async def on_raised(self, name: str, text: str, chain: list[Any]) -> None:
        raise raised_elsewhere(name, text, _chain(chain))

    async def on_uncovered(self, text: str, chain: list[Any]) -> None:
        raise not_covered(text, _chain(chain))

    async def beside(self, name: str) -> None:
        """Runs the conversation with the new thread `name`. Its first answer lets the thread begin."""
        other = Conversation(self.rank, self.process, self.loops, name)
        other.times = self.times.beside()
        other._answer(True)
        await other.go_on()


def _chain(sent: list[Any]) -> Chain:
    try:
        return tuple([(str(function), str(place)) for function, place in sent])
    except (TypeError, ValueError):
        raise wire.Garbled(f"the calls {str(sent)[:200]} have another form") from None


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _call(name: str, about: dict[str, Any]) -> TorchCall:
    if "site" not in about or not all(isinstance(one, ABOUT.get(key, ())) for key, one in about.items()):
        raise wire.Garbled(f"the call {name} with {str(about)[:200]} has another form")
    items: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in about.items()}
    call = TorchCall(name, **items)
    if call.dtype not in DTYPES:
        raise raised_elsewhere("NotCovered", f"{name} of {call.dtype}: dpsim does not simulate it", ())
    return call


def _of_process(rank: int, how: HowEnded) -> Elsewhere | None:
    """Returns the error for a process that closed its pipe, or None if it ended with code 0. Raises Lost."""
    name = signal.Signals(how.signal).name if how.signal else ""
    if name and name not in FAULTS:
        raise Lost(f"the process of rank {rank} was ended from outside ({name}); is there memory for all ranks?")
    if name:
        return raised_elsewhere("Killed", f"{name} killed the process of rank {rank}", ())
    return _exited(rank, how.code, ()) if how.code else None


def _exited(rank: int, code: int, calls: Chain) -> Elsewhere:
    return raised_elsewhere("Exited", f"rank {rank} exited with code {code}", calls)


def _silent(rank: int, seconds: float) -> Elsewhere:
    message = f"rank {rank} made no call for {seconds:g} s: it computes, or waits for what dpsim does not simulate"
    return raised_elsewhere("Silent", message, ())
