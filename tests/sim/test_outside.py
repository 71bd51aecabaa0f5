"""Tests which sources of time, random numbers and the like dpsim notices, and whether it names them or finds them.

Each row of the table is a tiny program. `decides`: what it reads may decide which calls it makes, so dpsim names the
line as of this kind. "harmless": the program learns nothing that differs between two runs. A row with a string of
several kinds may touch each of them.
"""

from __future__ import annotations

import datetime
import glob
import io
import locale
import logging
import multiprocessing
import os
import pathlib
import pickle
import queue
import random
import resource
import sched
import secrets
import select
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime as imported_class
from functools import partial
from os import urandom as imported_entropy
from time import monotonic as imported_clock
from typing import Any

import numpy as np
import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.world import World
from dpsim.diagnose.words import text
from dpsim.scenario import load_scenario
from dpsim.sim.backend import SimBackend, SimRun
from dpsim.sim.hosts.sources import StandIn, StandIns
from tests.programs import Script, Scripted, explored, world_of

pytestmark = pytest.mark.runs_once

HERE = "tests/sim/test_outside.py"


class Timer:
    clock: Any = time.perf_counter

    @classmethod
    def read(cls) -> Any:
        return cls.clock()


class Moment(datetime.datetime):
    """A class of a program that derives from a type of C."""


def by_default(clock: Callable[[], float] = time.monotonic) -> float:
    return clock()


def waits_in_a_queue() -> None:
    with pytest.raises(queue.Empty):
        queue.Queue[int]().get(timeout=0.001)


def joins_a_thread() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def schedules() -> None:
    one = sched.scheduler(time.monotonic, lambda _: None)
    one.enter(0, 1, int)
    one.run(blocking=False)


def logs() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    handler.emit(logging.LogRecord("own", logging.INFO, HERE, 1, "text", None, None))
    assert "text" in stream.getvalue()


def names_a_file() -> None:
    tempfile._get_candidate_names()  # type: ignore[attr-defined]
    next(tempfile._RandomNameSequence())  # type: ignore[attr-defined]


def makes_a_file() -> None:
    with tempfile.TemporaryFile():
        pass


def opens_a_pipe() -> None:
    for end in multiprocessing.Pipe(duplex=False):
        end.close()


def sets_an_alarm() -> None:
    signal.signal(signal.SIGUSR1, signal.getsignal(signal.SIGUSR1))


CLOCKS = (
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"),
    *("process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime", "asctime"),
)


def _calls(name: str) -> Any:
    return getattr(time, name)()


SOURCES: dict[str, tuple[str, Callable[[], Any]]] = {
    **{f"time.{name}": ("clock", partial(_calls, name)) for name in CLOCKS},
    "time.strftime": ("clock", lambda: time.strftime("%H")),
    "time.clock_gettime": ("clock", lambda: time.clock_gettime(time.CLOCK_MONOTONIC)),
    "time.gmtime of a time": ("harmless", lambda: (time.gmtime(0), time.strftime("%H", time.gmtime(0)))),
    "time.sleep": ("sleep", lambda: time.sleep(0)),
    "a clock under another name": ("clock", lambda: imported_clock()),
    "a clock of a class": ("clock", Timer.read),
    "a clock as a default": ("clock", by_default),
    "datetime.now": ("clock", lambda: datetime.datetime.now()),
    "datetime.now of a zone": ("clock", lambda: datetime.datetime.now(datetime.UTC)),
    "datetime.utcnow": ("clock", lambda: datetime.datetime.utcnow()),
    "datetime.today": ("clock", lambda: datetime.datetime.today()),
    "datetime imported": ("clock", lambda: imported_class.now()),
    "datetime derived": ("clock", lambda: Moment.now()),
    "date.today": ("clock", lambda: datetime.date.today()),
    "datetime of a time": ("harmless", lambda: datetime.datetime.fromtimestamp(0, datetime.UTC)),
    "os.times": ("clock", lambda: os.times()),
    "resource.getrusage": ("clock", lambda: resource.getrusage(resource.RUSAGE_SELF)),
    "os.getloadavg": ("clock", lambda: os.getloadavg()),
    "queue.get with a time-out": ("clock", waits_in_a_queue),
    "sched": ("clock", schedules),
    "Event.wait": ("harmless", lambda: threading.Event().wait(0.001)),
    "select": ("harmless", lambda: select.select([], [], [], 0)),
    "poll": ("harmless", lambda: select.poll().poll(0)),
    "logging": ("harmless", logs),
    "os.urandom": ("entropy", lambda: os.urandom(4)),
    "urandom imported": ("entropy", lambda: imported_entropy(4)),
    "os.getrandom": ("entropy", lambda: os.getrandom(4)),
    "ssl": ("entropy", lambda: ssl.RAND_bytes(4)),
    "secrets": ("entropy", lambda: secrets.token_hex(4)),
    "SystemRandom": ("entropy", lambda: random.SystemRandom().random()),
    "uuid4": ("entropy", lambda: uuid.uuid4()),
    "uuid1": ("entropy clock", lambda: uuid.uuid1()),
    "uuid5": ("harmless", lambda: uuid.uuid5(uuid.NAMESPACE_DNS, "x")),
    "RandomState": ("entropy", lambda: np.random.RandomState().rand()),
    "PCG64": ("entropy", lambda: np.random.PCG64()),
    "SeedSequence": ("entropy", lambda: np.random.SeedSequence()),
    "default_rng": ("entropy", lambda: np.random.default_rng()),
    "a seed": ("harmless", lambda: (random.Random(3).random(), np.random.default_rng(3).random())),
    "names of tempfile": ("harmless", names_a_file),
    "tempfile": ("file", makes_a_file),
    "open": ("file", lambda: open(__file__).close()),
    "Path.read_text": ("file", lambda: pathlib.Path(__file__).read_text()),
    "Path.exists": ("file", lambda: pathlib.Path("/none").exists()),
    "os.path.exists": ("file", lambda: os.path.exists("/none")),
    "os.listdir": ("file", lambda: os.listdir("/")),
    "glob": ("file", lambda: glob.glob("/none*")),
    "os.walk": ("file", lambda: list(os.walk("/none"))),
    "numpy.fromfile": ("file", lambda: np.fromfile(__file__, np.uint8, 1)),
    "disk_usage": ("file", lambda: shutil.disk_usage("/")),
    "a child": ("process", lambda: subprocess.run(["true"], check=True)),
    "os.system": ("process", lambda: os.system("true")),
    "a thread": ("thread", joins_a_thread),
    "the number of threads": ("thread", lambda: threading.active_count()),
    "a list of threads": ("thread", lambda: threading.enumerate()),
    "a socket": ("network", lambda: socket.socket().close()),
    "a name of a host": ("network", lambda: socket.getaddrinfo("127.0.0.1", 1)),
    "a pipe": ("harmless", opens_a_pipe),
    "a handler of a signal": ("setting", sets_an_alarm),
    "a mask of signals": ("setting", lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "the processors": ("setting", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))),
    "the locale": ("setting", lambda: locale.setlocale(locale.LC_NUMERIC, "C")),
    "the process id": ("entropy", lambda: os.getpid()),
    "the number of processors": ("harmless", lambda: os.cpu_count()),
    "the environment": ("harmless", lambda: os.environ.get("HOME")),
    "an import": ("harmless", lambda: __import__("colorsys")),
}


def touched(read: Callable[[], Any], world: World | None = None) -> SimRun:
    """Returns a run in which rank 1 touches something outside of the contract."""

    async def script(rank: Rank) -> None:
        await rank.host("h").barrier(site="meet")
        if rank.rank == 1:
            read()

    return SimBackend().run_program(world or world_of(2, hosts=["h"]), Scripted(script), None)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_named_with_its_line_or_is_harmless(name: str) -> None:
    kinds, read = SOURCES[name]
    found = touched(read).touched
    assert {one.what for one in found} <= set(kinds.split())
    assert bool(found) == (kinds != "harmless")
    assert {one.rank for one in found} <= {1}
    assert {one.where.split(":")[0] for one in found} <= {HERE}


def test_without_stand_ins_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: a run that only hears."""
    monkeypatch.setattr(StandIns, "__enter__", lambda self: None)
    monkeypatch.setattr(StandIns, "__exit__", lambda self, *error: None)
    assert touched(time.monotonic).touched == ()


def test_names_are_as_before_after_a_run() -> None:
    def bound() -> list[Any]:
        seeds = random.Random.seed, random.Random.setstate, socket.socket.__init__, vars(datetime.datetime)["now"]
        return [time.monotonic, imported_clock, Timer.clock, by_default.__defaults__, open, os.stat, *seeds]

    before = bound()
    during: list[Any] = []
    touched(lambda: during.extend(bound()))
    assert all(one is other for one, other in zip(before, bound(), strict=True))
    assert not any(one is other for one, other in zip(before, during, strict=True))


def test_a_stand_in_is_like_its_function() -> None:
    """A program may compare it, ask for its class and its name, pickle it, and have it on a class."""
    with StandIns():
        one: Any = time.monotonic
        assert type(one) is StandIn
        assert one is imported_clock
        assert isinstance(one, type(len))
        assert one.__name__ == "monotonic"
        assert getattr(one, "__self__", None) is time
        assert one in {imported_clock}
        assert os.stat in os.supports_follow_symlinks
        assert Timer().clock() <= time.perf_counter()
        saved = pickle.dumps(one)
        assert pickle.loads(saved) is one
    back = pickle.loads(saved)
    assert back is time.monotonic
    assert back == one
    assert one == back


@pytest.mark.parametrize(
    "read", [lambda: time.monotonic(), lambda: time.time_ns(), lambda: imported_class.now().timestamp()]
)
def test_a_clock_that_decides_is_found_with_its_line(read: Callable[[], float]) -> None:
    async def script(rank: Rank) -> None:
        start = read()
        unit = 10**9 if isinstance(start, int) else 1
        await rank.host("h").barrier(site="meet")
        if read() - start < 60 * unit:
            await rank.host("h").barrier(site="in_time")

    (finding,) = explored(world_of(2, hosts=["h"]), script).findings
    assert finding.klass == "NONDETERMINISM:REPEAT"
    assert finding.culprit is not None
    assert finding.culprit.site == "in_time"
    assert any(f"a clock at {HERE}:" in line for line in map(text, finding.details))


def test_a_clock_that_decides_nothing_is_an_assumption() -> None:
    async def script(rank: Rank) -> None:
        time.monotonic()
        await rank.host("h").barrier(site="meet")

    line = script.__code__.co_firstlineno + 1
    found = explored(world_of(2, hosts=["h"]), script)
    assert found.verdict == "proven"
    assert f"no clock decides what a rank does (read at {HERE}:{line})" in found.assumes
    [place] = found.facts.outside
    assert place.as_json() == {"what": "clock", "file": HERE, "line": line, "ranks": [0, 1]}


class Clocked(Scripted):
    """A program that keeps clocks."""

    at_start: Any = time.perf_counter

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.own = time.monotonic


def test_a_program_that_keeps_a_clock_has_not_changed_it() -> None:
    """Every run compares the program before and after it. A stand-in is no change."""
    program = Clocked(touch_nothing)
    found = explore_subject(Subject(world_of(2, hosts=["h"]), program))
    assert found.verdict == "proven"
    assert program.own is time.monotonic
    assert SimBackend().run_program(world_of(2, hosts=["h"]), program, None).finished


def test_a_clock_that_each_new_program_keeps_is_named() -> None:
    """Its first object has the function, from before the search. The objects of a repeated run have stand-ins."""

    class Reads(Clocked):
        async def run(self, rank: Rank, prepared: Any) -> None:
            await super().run(rank, prepared)
            self.own()

    def make() -> tuple[Reads, None]:
        return Reads(touch_nothing), None

    found = explore_subject(Subject(world_of(2, hosts=["h"]), make()[0], make=make))
    assert found.verdict == "proven"
    assert [one.what for one in found.facts.outside] == ["clock"]


async def touch_nothing(rank: Rank) -> None:
    await rank.host("h").barrier(site="meet")


def test_a_read_in_one_schedule_of_many_is_named() -> None:
    """Each run of a search hears, not only those that are repeated."""

    async def script(rank: Rank) -> None:
        if rank.rank:
            rank.send(0, "box", rank.rank, f"post{rank.rank}")
        elif [await rank.mailbox("box").get(f"get{at}") for at in range(3)] == [3, 2, 1]:
            imported_class.now()

    found = explored(world_of(4), script)
    assert found.verdict == "proven"
    assert found.exploration.runs == 6
    assert [one.what for one in found.facts.outside] == ["clock"]


FEW = ("scenarios/startup_hash.yaml", "scenarios/eplb_small.yaml")


def of_scenario(path: pathlib.Path) -> SimRun:
    subject = Subject.of(load_scenario(path), path.parent)
    return SimBackend().run_program(subject.world, subject.program, subject.prepared)


@pytest.mark.parametrize("path", FEW)
def test_a_shipped_scenario_touches_nothing(path: str) -> None:
    """No scenario that dpsim ships gains an assumption."""
    run = of_scenario(pathlib.Path(path))
    assert (run.touched, run.drawn) == ((), ())


@pytest.mark.nightly
def test_no_shipped_scenario_touches_anything() -> None:
    for path in sorted(pathlib.Path("scenarios").glob("*.yaml")):
        run = of_scenario(path)
        assert (path, run.touched, run.drawn) == (path, (), ())
