"""The worker: one process per rank or service, which runs one job after the other until its parent ends.

A control thread reads the parent's messages and passes them to the main thread, which runs programs. On `AbortJob` it
sets a flag that every wait of the main thread checks. If the main thread does not leave its job within a second, it is
blocked inside a call of CUDA or NCCL. Then the control thread aborts the communicators. `Dismiss` arrives when all
other ranks are done and the main thread waits in an idle get for a next request. It sets another flag, which only idle
gets check. A program never suspends: every call of the contract blocks, so one `send(None)` runs it, or one of its host
threads, to the end. If a host thread remains when the job has ended, the process is spoiled, and the pool replaces it.

No worker outlives its parent, however the parent ends. The control thread exits when the socket closes. If it cannot
run, because some call holds Python's lock, the kernel ends the worker. Only the parent has the write end of a pipe, and
the kernel sends SIGKILL to the reader when that end closes. Prior art: the pipe of `multiprocessing.resource_tracker`.
PR_SET_PDEATHSIG would kill the worker when the *thread* that started it ends.

    python -P -m real.worker '{"rank": 0, "device": "cpu", "recovery": "kill", "port": 29500, "socket": 5, ...}'
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from dpsim.backend.journal.injection import RankDied, RankHung
from dpsim.backend.journal.trouble import trouble
from dpsim.contract import registry
from dpsim.contract.program import Program
from dpsim.contract.rules.shared_state import SharedState, refuse_changes, state_of
from dpsim.contract.world import End
from real.belongings import Belongings, lone_rank
from real.communicators import TIMEOUT, Communicators, Group
from real.gloo_calls import connect_gloo
from real.jobs import die_with_parent, refused, resolve
from real.journal_file import JournalFile, NoJournal
from real.mail import Mail
from real.messages import (
    AbortJob,
    Alone,
    AskThreadStates,
    Dismiss,
    Go,
    Job,
    JobEnded,
    Leave,
    Prepared,
    Ready,
    Recovered,
    ThreadStates,
    Troubled,
    worker_of,
)
from real.rank import RealDevice
from real.stores import Stores
from real.threads import drive, thread_states, threaded_rank
from real.waiting import Dismissed, Unfinished

LEAVE_SECONDS = 1.0
"""The main thread has this time to leave its job, before the control thread aborts the communicators."""

STOP_SECONDS = 2.0
"""Other host threads have this time to leave a finished job. It is longer, since one may be stuck, too."""

IDLE_SECONDS = 5.0
"""The time in which the device has to become idle after an abort."""


class Worker:
    """The process of one rank or service."""

    def __init__(self, rank: int, device: str, recovery: str, port: int, folder: str, link: Connection) -> None:
        self.rank = rank
        self._device_name = device
        self._polls = recovery == "abort"
        self._port = port
        self._link = link
        self._sending = threading.Lock()
        self._mail = Mail(folder, rank)
        os.register_at_fork(after_in_child=link.close)  # a forked child must not keep it open
        self._dismissed = threading.Event()
        self._running = 0
        self._spoiled = False
        self._left = Stores()  # stores of the program that finished last, open until all ranks have ended
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._give_up = threading.Event()
        self._at_rest = threading.Event()
        self._at_rest.set()
        self._device: RealDevice
        self._communicators: Communicators

    # ---- control thread
    def listen(self) -> None:
        """Reads messages until the parent has ended; then ends the process."""
        parent = os.getppid()
        try:
            while True:
                # A process that the parent forked may keep the socket open: check the parent's pid, too.
                while not self._link.poll(1.0):
                    if os.getppid() != parent:
                        return
                message = self._link.recv()
                if isinstance(message, Dismiss):
                    if message.number == self._running:
                        self._dismissed.set()
                    continue
                if isinstance(message, AskThreadStates):
                    self._send(ThreadStates(message.number, tuple(thread_states(registry.packages()))))
                    continue
                if isinstance(message, AbortJob):
                    self._give_up.set()
                self._messages.put(message)
                if isinstance(message, AbortJob) and not self._at_rest.wait(LEAVE_SECONDS):
                    self._device.abort(self._communicators.in_use("device"))
        except (EOFError, OSError):
            pass
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    # ---- main thread
    def serve(self) -> None:
        """Starts up, then carries out what the parent sends."""
        try:
            versions = self._start()
        except Exception as error:
            self._send(refused(0, "machine", error))
            return
        gc.freeze()  # torch's objects stay: the garbage collector need not scan them during a step
        self._send(Ready(0, versions))
        while True:
            message = self._messages.get()
            if isinstance(message, Job):
                self._at_rest.clear()
                self._run(message)
                self._at_rest.set()
            elif isinstance(message, AbortJob):
                self._recover(message)
            elif isinstance(message, Leave):
                self._left.close()
                self._send(Recovered(message.number, True))

    def _start(self) -> dict[str, str]:
        from torch.distributed import TCPStore

        store = TCPStore("127.0.0.1", self._port, is_master=False, wait_for_workers=False, timeout=TIMEOUT)
        if self._device_name == "cuda":
            from real.cuda import CudaDevice

            self._device = CudaDevice(self.rank, self._give_up)
        elif self._device_name == "none":
            from real.no_device import NoDevice

            self._device = NoDevice()
        else:
            from real.cpu import CpuDevice

            self._device = CpuDevice()
        self._communicators = Communicators(self.rank, store, {"host": connect_gloo, "device": self._device.connect})
        return self._device.versions()

    def _run(self, job: Job) -> None:
        try:
            program, prepared = resolve(job)
            before = state_of(program, prepared)
        except Exception as error:
            self._send(refused(job.number, "program", error))
            return
        try:
            lazy = f"job {job.number}" if job.world.lazy else ""
            groups = self._communicators.of(job.generation, job.world.communicators, job.world.size, lazy)
            self._device.prepare(job.world)
            self._mail.begin(job.number, job.world.size, bool(job.world.gates), job.secret)
        except Exception as error:
            self._send(refused(job.number, "machine", error))
            return
        self._dismissed.clear()
        self._running = job.number
        self._send(Prepared(job.number))
        while (message := self._messages.get()) != Go(job.number):
            if isinstance(message, AbortJob):
                self._recover(message)
                return
        ended = self._perform(job, program, prepared, groups)
        if ended.end == "finished":  # all work of the streams has ended
            self._device.clear()
        if isinstance(ended, JobEnded) and ended.end != "blocked":  # then the parent waits for this worker
            try:
                refuse_changes(program, prepared, before)
            except SharedState as error:
                ended = ended._replace(changed=str(error))
            ended = ended._replace(spoiled=self._spoiled or self._device.spoiled)
        self._send(ended)

    def _perform(self, job: Job, program: Program[Any], prepared: Any, groups: list[Group]) -> JobEnded | Troubled:
        try:
            file = JournalFile(job.journal)
        except OSError as error:
            return Troubled(job.number, "blocked", f"the journal could not be written: {error.strerror}")
        of = Belongings(self._device, groups, self._mail, self._give_up, self._dismissed, self._polls, program.aborts)
        number = worker_of(self.rank, job.world.size)
        rank = (threaded_rank if program.threaded else lone_rank)(number, job.world, file.write, of)
        rank.maker = self._communicators.of_job(job)
        rank.reach, started, lacked = file.reach, time.monotonic_ns(), ""
        rank.stores.failed = lambda what: self._send(Troubled(job.number, "blocked", what))
        end: End = "finished"
        try:
            rank.patience.sleep(rank.journal.start_delay())
            try:
                drive(program.serve(rank, prepared) if rank.name else program.run(rank, prepared))
                self._send(Alone(job.number))
                rank.all_over()
            except Dismissed:  # the program waits without end; its earlier work still has to end
                rank._drain()
            else:
                rank._drain()
                rank.journal.finished()
                self._mail.end()
        except RankDied:
            os.kill(os.getpid(), signal.SIGKILL)
        except (Unfinished, RankHung):  # a rank that hangs reports nothing; this one reports its planned hang
            end = "blocked"
        except BaseException as error:
            # An exception because of aborted communicators is no error of the program.
            end = "blocked" if self._give_up.is_set() or file.failed else "raised"
            if end == "raised":
                rank.cut()
                lacked = trouble(error)
                with contextlib.suppress(NoJournal):
                    rank.journal_of(error).raised(error, registry.packages())
                self._mail.end()
        self._spoiled |= not rank.stop(STOP_SECONDS)
        rank.close()
        listens = end == "finished" and not file.failed and bool(rank.stores)
        if listens:
            self._left = rank.stores
        else:
            rank.stores.close()
        file.close()
        if file.failed:
            return Troubled(job.number, "blocked", file.failed)
        if lacked or rank.lacked:
            return Troubled(job.number, end, lacked or rank.lacked)
        times = rank.patience.waited_ns, started, time.monotonic_ns()
        return JobEnded(job.number, end, *times, "", False, listens, rank.aborted, (*rank.journal.shared.undefined,))

    def _recover(self, message: AbortJob) -> None:
        """Called when no thread waits any more."""
        self._device.abort(self._communicators.in_use("device"))
        clean = self._device.is_idle(IDLE_SECONDS) and not self._spoiled
        self._communicators.abandon()
        self._give_up.clear()
        self._send(Recovered(message.number, clean))

    def _send(self, message: Any) -> None:
        try:
            with self._sending:  # the control thread may do so, too
                self._link.send(message)
        except OSError:  # the parent has ended
            os._exit(0)


def main() -> None:
    work(json.loads(sys.argv[1]))


def work(settings: dict[str, Any]) -> None:
    """Runs a worker until its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    die_with_parent(settings.pop("lifeline"))
    link = Connection(settings.pop("socket"))
    try:
        try:
            worker = Worker(link=link, **settings)
            threading.Thread(target=worker.listen, name="control", daemon=True).start()
        except Exception as error:
            link.send(refused(0, "machine", error))
            return
        worker.serve()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)  # without destructors, since that of a stuck process group would never return


if __name__ == "__main__":
    # Under its own name: a program's place of an error omits frames of this package.
    from real.worker import main as run

    run()
