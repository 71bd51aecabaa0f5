"""Sources: the functions by which a program learns or changes something outside of the contract, and their stand-ins.

    with StandIns():                       # the whole search; a run within it costs nothing more
        ...                                 # time.monotonic() calls `listener.reads("clock", ...)` first

While the block lasts, each module that binds one of these functions has a stand-in for it. The module may have imported
it before, under any name (`from time import monotonic as now`). In modules that are no library, classes and defaults of
functions have stand-ins too. So dpsim sees what Python's library reads, for example in `queue.get(timeout=1)`. A
stand-in is no function: as the attribute of a class it binds no object, like a builtin.

`datetime.now` and `utcnow` belong to a type of C, whose table of attributes changes for the block.

XX: a function of this table that C code calls directly is not seen, for example by `ctypes` or `np.datetime64("now")`.
The same is true for one that only a container, an object or a closure has had since before the block.

Prior art: freezegun replaces bound names, time-machine the functions of C.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import random
import socket
import sys
from collections.abc import Callable
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, Protocol

import numpy as np

from dpsim.backend.journal.call_site import is_library_file

CLOCK, SLEEP, ENTROPY, FILE, PROCESS = "clock", "sleep", "entropy", "file", "process"
THREAD, NETWORK, SETTING, STATE = "thread", "network", "setting", "state"
"""What a source touches. A `STATE` is kept by rank (`dpsim.sim.hosts.own_state`), and all others are named."""

NAMES: dict[str, str] = {
    CLOCK: "time.time time.time_ns time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns "
    "time.process_time time.process_time_ns time.thread_time time.thread_time_ns time.clock_gettime "
    "time.clock_gettime_ns time.localtime time.gmtime time.ctime time.asctime time.strftime os.times "
    "os.getloadavg resource.getrusage",
    SLEEP: "time.sleep",
    ENTROPY: "os.urandom os.getrandom _ssl.RAND_bytes os.getpid _uuid.generate_time_safe",
    FILE: "_io.open os.open os.stat os.lstat os.access os.listdir os.scandir os.mkdir "
    "os.remove os.unlink os.rename os.replace os.rmdir os.readlink os.symlink os.link "
    "os.utime os.truncate os.statvfs os.chmod os.chown os.mkfifo _sqlite3.connect builtins.input",
    PROCESS: "os.fork os.forkpty os.posix_spawn os.posix_spawnp os.system _posixsubprocess.fork_exec",
    THREAD: "_thread.start_new_thread _thread.start_joinable_thread threading.active_count threading.enumerate",
    NETWORK: "socket.getaddrinfo _socket.getaddrinfo _socket.gethostbyname _socket.gethostbyname_ex "
    "_socket.gethostbyaddr",
    SETTING: "signal.signal signal.pthread_sigmask os.sched_setaffinity _signal.setitimer _signal.alarm "
    "locale.setlocale _locale.setlocale resource.setrlimit os.nice os.setpriority gc.disable gc.enable gc.freeze "
    "_socket.setdefaulttimeout sys.setswitchinterval",
    STATE: "os.chdir os.fchdir os.umask sys.setrecursionlimit decimal.getcontext decimal.setcontext "
    "decimal.localcontext numpy.seterr numpy.set_printoptions numpy.random.seed numpy.random.set_state",
}
"""The sources, each with the module that defines it."""

GIVEN = {"localtime": 1, "gmtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}
"""The number of arguments with which these functions read no clock."""


class SourceListener(Protocol):
    """Hears of each call of a source before it happens. `frame`: the caller."""

    def touches(self, kind: str, source: StandIn, args: tuple[Any, ...], frame: FrameType) -> None: ...

    def shifted(self, source: StandIn, value: Any) -> Any:
        """Returns what a clock shows to the program."""

    def made(self, generator: Any, state: Callable[[], Any], seeded: bool, frame: FrameType) -> None:
        """A generator of random numbers was made or seeded."""


listener: list[SourceListener] = []
"""The listener of the present run; empty between runs."""


class StandIn:
    """Stands for a function: tells the listener, and calls it. Equal to the function, also in a set."""

    def __init__(self, kind: str, function: Any) -> None:
        self.kind = kind
        self.function = function
        self.name: str = function.__name__
        self._given = GIVEN.get(self.name, sys.maxsize) if kind == CLOCK else sys.maxsize

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if not listener or len(args) >= self._given:
            return self.function(*args, **named)
        listener[0].touches(self.kind, self, args, sys._getframe(1))
        value = self.function(*args, **named)
        return listener[0].shifted(self, value) if self.kind == CLOCK and listener else value

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:  # isinstance asks it
        return type(self.function)

    @property
    def stands_for(self) -> Any:
        """The function, for checks of what a kernel reads."""
        return self.function

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def __eq__(self, other: object) -> bool:
        return self.function is (other.function if isinstance(other, StandIn) else other)

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)

    def __reduce__(self) -> Any:
        module = self.function.__module__
        if hasattr(sys.modules.get(module), self.name):
            return _attribute, (module, self.name)
        return _itself, (self.function,)


class GeneratorMaker(StandIn):
    """Stands for `default_rng`: notes a generator without a seed."""

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        one = self.function(*args, **named)
        if listener and all(seed is None for seed in (*args, *named.values())):
            listener[0].made(one, lambda: one.bit_generator.state, False, sys._getframe(1))
        return one


def _attribute(module: str, name: str) -> Any:
    return getattr(sys.modules[module], name)


def _itself(function: Any) -> Any:
    return function


class Binding:
    """The stand-ins of one module: the names that it binds to sources."""

    def __init__(self, names: dict[str, Any], stand_ins: dict[str, StandIn]) -> None:
        self.names = names
        self.stand_ins = stand_ins
        self.functions = {name: names[name] for name in stand_ins}


class _Table:
    """All stand-ins of the process, and where they belong. It looks at each module once."""

    def __init__(self) -> None:
        self.depth = 0
        self.bindings: dict[int, Binding] = {}
        self.attributes: dict[tuple[int, str], tuple[Any, str, Any, Any]] = {}
        self._set(random.Random, "seed", _seeds)
        self._set(random.Random, "setstate", _sets_state)
        self._set(socket.socket, "__init__", _connects)
        make = np.random.default_rng
        self._by_id: dict[int, StandIn] = {id(make): GeneratorMaker(ENTROPY, make)}
        self._seen: dict[str, Any] = {}

    def look(self) -> None:
        """Finds the sources and their names in modules that were imported since the last look."""
        if self._seen == sys.modules:
            return
        known = len(self._by_id)
        for kind, names in NAMES.items():
            for name in names.split():
                module, _, attribute = name.rpartition(".")
                self._add(kind, getattr(sys.modules.get(module), attribute, None))
        for one in vars(random).values():
            if getattr(one, "__self__", None) is random._inst and one.__name__ != "getstate":
                self._add(STATE, one)
        for one in vars(np.random).values():
            if getattr(one, "__self__", None) is np.random.mtrand._rand and one.__name__ != "get_state":
                self._add(STATE, one)
        before, self._seen = self._seen, dict(sys.modules)
        for name, module in self._seen.items():
            if isinstance(module, ModuleType) and (len(self._by_id) > known or before.get(name) is not module):
                self._look_at(module)

    def _set(self, owner: Any, name: str, other: Any) -> None:
        self.attributes[id(owner), name] = owner, name, other, getattr(owner, name)

    def _add(self, kind: str, function: Any) -> None:
        if function is not None and id(function) not in self._by_id and not isinstance(function, StandIn):
            self._by_id[id(function)] = StandIn(kind, function)

    def _look_at(self, module: ModuleType) -> None:
        names, by_id = vars(module), self._by_id
        found = {name: by_id[id(value)] for name, value in names.items() if id(value) in by_id}
        if found:
            self.bindings[id(names)] = Binding(names, found)
        file = getattr(module, "__file__", None)
        if file is None or is_library_file(file):
            return
        for value in [*names.values()]:
            if getattr(value, "__module__", None) != module.__name__:
                continue
            for name, held in [*vars(value).items()] if isinstance(value, type) else ():
                if id(held) in by_id:
                    self._set(value, name, by_id[id(held)])
            usual = value.__defaults__ or () if isinstance(value, FunctionType) else ()
            if any(id(one) in by_id for one in usual):
                self._set(value, "__defaults__", tuple(by_id.get(id(one), one) for one in usual))


def _seeds(self: random.Random, a: Any = None, version: int = 2) -> None:
    _SEED(self, a, version)
    if listener:
        listener[0].made(self, self.getstate, a is not None, sys._getframe(1))


def _sets_state(self: random.Random, state: Any) -> None:
    _SETSTATE(self, state)
    if listener:
        listener[0].made(self, self.getstate, True, sys._getframe(1))


def _connects(self: socket.socket, *args: Any, **named: Any) -> None:
    if listener:
        listener[0].touches(NETWORK, _SOCKET, args, sys._getframe(1))
    _INIT(self, *args, **named)


_SEED, _SETSTATE, _INIT = random.Random.seed, random.Random.setstate, socket.socket.__init__
_SOCKET = StandIn(NETWORK, _INIT)
_NOW = {name: StandIn(CLOCK, getattr(datetime.datetime, name)) for name in ("now", "utcnow")}
_METHODS: dict[str, Any] = {}


def _now(cls: type[datetime.datetime], *args: Any, **named: Any) -> datetime.datetime:
    return _reads_now("now", cls, args, named)


def _utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
    return _reads_now("utcnow", cls, (), {})


def _reads_now(name: str, cls: type[datetime.datetime], args: Any, named: Any) -> datetime.datetime:
    if listener:
        listener[0].touches(CLOCK, _NOW[name], args, sys._getframe(2))
    value: datetime.datetime = _METHODS[name].__get__(None, cls)(*args, **named)
    return listener[0].shifted(_NOW[name], value) if listener else value


def _set_methods(**methods: Any) -> None:
    """Sets attributes of `datetime.datetime`, whose type is one of C."""
    for table in gc.get_referents(datetime.datetime.__dict__):
        if type(table) is dict:
            table.update(methods)
            ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))


_table = _Table()


class StandIns:
    """A context manager that puts the stand-ins in place. Blocks may be nested: only the outermost one does it."""

    def __enter__(self) -> None:
        _table.depth += 1
        if _table.depth == 1:
            _put()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _table.depth -= 1
        if _table.depth == 0:
            _remove()


def _put() -> None:
    _table.look()
    for one in _table.bindings.values():
        one.names.update(one.stand_ins)
    for owner, name, other, _ in _table.attributes.values():
        setattr(owner, name, other)
    _METHODS.update({name: vars(datetime.datetime)[name] for name in _NOW})
    _set_methods(now=classmethod(_now), utcnow=classmethod(_utcnow))


def _remove() -> None:
    _set_methods(**_METHODS)
    for owner, name, _, usual in _table.attributes.values():
        setattr(owner, name, usual)
    for one in _table.bindings.values():
        one.names.update(one.functions)
