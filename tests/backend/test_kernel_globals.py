"""Tests what a kernel may use beside its arguments. A launch refuses a global that may change before the kernel runs,
and names it. It accepts all other globals.
"""

from __future__ import annotations

import array
import collections
import contextvars
import enum
import functools
import importlib
import logging
import math
import os
import random
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from dpsim.backend.graphs import kernel_call
from dpsim.backend.graphs.kernel_globals import KernelRefused, check_globals
from dpsim.contract.interface import Rank
from dpsim.contract.ops import RAISED_MESSAGE
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from dpsim.contract.rules import kernel_constants
from dpsim.diagnose.words import text
from tests.programs import explored, world_of

STEP, SEEN, TABLE, LOG = [0], [], {"a": 1}, collections.deque[int]()
VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("VARIABLE", default=0)
ARRAY, TYPED, NAMES = np.zeros(1, np.int32), array.array("i", [0]), {1, 2}
COUNT, TOTAL, COUNTED = 3, 4, 5
LIMITS, DTYPE, LOGGER = (1, (2.5, "three"), frozenset({4})), np.dtype("int32"), logging.getLogger(__name__)
MIXED = (1, [2])
BOUND = STEP.append
HALF = functools.partial(max, 1)
HELD = functools.partial(sorted, STEP)
GENERATOR = random.Random(1)
NAMESPACE = types.SimpleNamespace(step=0)


class Mode(enum.Enum):
    FULL = 1


class Span(NamedTuple):
    start: int


@dataclass(frozen=True)
class Frozen:
    width: int
    rows: Any = ()


@dataclass
class Loose:
    width: int


FROZEN, LOOSE, HIDDEN, SPAN = Frozen(2), Loose(2), Frozen(2, [1]), Span(1)


class Config:
    width = 2
    table: ClassVar[dict[str, int]] = {}

    @staticmethod
    def doubled(value: Any) -> Any:
        return 2 * value

    @staticmethod
    def noted(value: Any) -> Any:
        SEEN.append(value)

    def __call__(self, value: Any) -> Any:
        return value


CALLED = Config()


class Counts:
    def __init__(self) -> None:
        SEEN.append(1)


def counted() -> int:
    global TOTAL
    TOTAL += 1
    return TOTAL


def pure(value: Any) -> Any:
    return value + COUNT


def reads(value: Any) -> Any:
    return value + STEP[0]


def through(value: Any) -> Any:
    return reads(value)


def with_memory(value: Any, memory: list[int] = []) -> Any:  # noqa: B006  # the default is the mistake under test
    memory.append(1)
    return value


@functools.cache
def cached(value: int) -> int:
    return value * COUNT


@functools.lru_cache(3)
def cached_badly(value: int) -> int:
    return value * STEP[0]


def decorated(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def around(value: Any) -> Any:
        return function(value)

    return around


wrapped, wrapped_badly = decorated(pure), decorated(reads)


def nested(x: Any) -> None:
    def inner(value: Any) -> Any:
        return value + STEP[0]

    x[:] = inner(x)


def set_global(x: Any) -> None:
    global COUNTED
    COUNTED = 1


def set_attribute(x: Any) -> None:
    Config.width = 3


def set_own(x: Any) -> None:
    pure.seen = x  # type: ignore[attr-defined]


def alias(x: Any) -> None:
    module = os
    x[:] = int(module.environ.get("STEP", "0"))


def alias_at_once(x: Any) -> None:
    module = os
    found = module.environ
    x[:] = len(found)


def imports(x: Any) -> None:
    from os import environ

    x[:] = len(environ)


def imports_math(x: Any) -> None:
    import math

    x[:] = math.pi


def comprehends(x: Any) -> None:
    x[:] = sum([one * COUNT for one in LIMITS[:1]])


def defines(x: Any) -> None:
    add = 3

    def inner(value: Any) -> Any:
        return value + add

    x[:] = inner(x)


REFUSED: dict[str, tuple[Any, str]] = {
    "list": (lambda x: x.fill(STEP[0]), "STEP"),
    "list written": (lambda x: SEEN.append(int(x[0])), "SEEN"),
    "dict": (lambda x: x.fill(TABLE["a"]), "TABLE"),
    "set": (lambda x: x.fill(len(NAMES)), "NAMES"),
    "deque": (lambda x: LOG.append(1), "LOG"),
    "numpy array": (lambda x: x.fill(ARRAY[0]), "ARRAY"),
    "array": (lambda x: x.fill(TYPED[0]), "TYPED"),
    "ContextVar": (lambda x: x.fill(VARIABLE.get()), "VARIABLE"),
    "list in a tuple": (lambda x: x.fill(MIXED[0]), "MIXED"),
    "namespace": (lambda x: x.fill(NAMESPACE.step), "NAMESPACE"),
    "object": (lambda x: x.fill(LOOSE.width), "LOOSE"),
    "list in a frozen dataclass": (lambda x: x.fill(HIDDEN.width), "HIDDEN"),
    "callable object": (lambda x: CALLED(x), "CALLED"),
    "bound method": (lambda x: BOUND(1), "BOUND"),
    "partial around a list": (lambda x: HELD(), "HELD"),
    "generator": (lambda x: x.fill(GENERATOR.random()), "GENERATOR"),
    "random.random": (lambda x: x.fill(random.random()), "random.random"),
    "os.environ": (lambda x: x.fill(len(os.environ)), "os.environ"),
    "os.getenv": (lambda x: x.fill(int(os.getenv("STEP", "0"))), "os.getenv"),
    "sys.modules": (lambda x: x.fill(len(sys.modules)), "sys.modules"),
    "environ by another name": (alias, "os.environ"),
    "environ by a name in the next instruction": (alias_at_once, "os.environ"),
    "environ imported": (imports, "environ"),
    "globals": (lambda x: globals().update(COUNT=1), "globals"),
    "setattr": (lambda x: setattr(Config, "width", 3), "setattr"),
    "exec": (lambda x: exec("COUNT = 1"), "exec"),
    "class attribute": (lambda x: Config.table.update(a=1), "Config.table"),
    "static method": (lambda x: Config.noted(1), "SEEN"),
    "constructor": (lambda x: x.fill(Counts() is None), "SEEN"),
    "set global": (set_global, "COUNTED"),
    "set class attribute": (set_attribute, "Config.width"),
    "set function attribute": (set_own, "pure.seen"),
    "global that the module sets": (lambda x: x.fill(TOTAL), "counted"),
    "function": (lambda x: x.fill(reads(1)), "calls reads"),
    "function of a function": (lambda x: x.fill(through(1)), "calls reads"),
    "function that sets": (lambda x: x.fill(counted()), "TOTAL"),
    "function with memory": (lambda x: x.fill(with_memory(1)), "memory"),
    "cache": (lambda x: x.fill(cached_badly(1)), "STEP"),
    "decorated function": (lambda x: x.fill(wrapped_badly(1)), "calls reads"),
    "function within": (nested, "STEP"),
    "lambda within": (lambda x: (lambda: x.fill(STEP[0]))(), "STEP"),
    "comprehension": (lambda x: x.fill(sum([one + STEP[0] for one in range(2)])), "STEP"),
}

ALLOWED: dict[str, Any] = {
    "number": lambda x: x.fill(COUNT),
    "tuple": lambda x: x.fill(LIMITS[0]),
    "named tuple": lambda x: x.fill(SPAN.start),
    "dtype": lambda x: x.fill(DTYPE.itemsize),
    "enum": lambda x: x.fill(Mode.FULL.value),
    "frozen dataclass": lambda x: x.fill(FROZEN.width),
    "class attribute": lambda x: x.fill(Config.width),
    "static method": lambda x: x.fill(Config.doubled(1)),
    "logger": lambda x: LOGGER.debug("x"),
    "module": lambda x: x.fill(math.pi * np.pi),
    "ufunc": lambda x: np.add(x, 1, out=x) is None,
    "function of a library": lambda x: x.fill(np.sum(x)),
    "imported module": imports_math,
    "builtin": lambda x: x.fill(max(len(LIMITS), int("3"))),
    "partial": lambda x: x.fill(HALF(2)),
    "instance made within": lambda x: x.fill(Frozen(2).width + Span(3).start),
    "function": lambda x: x.fill(pure(1)),
    "cache": lambda x: x.fill(cached(1)),
    "decorated function": lambda x: x.fill(wrapped(1)),
    "comprehension": comprehends,
    "function within": defines,
    "new list": lambda x: [x.fill(1)].clear(),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_check_globals_refuses_a_kernel_and_names_the_global(kind: str) -> None:
    kernel, name = REFUSED[kind]
    with pytest.raises(KernelRefused, match=r"test_kernel_globals\.py:\d") as refused:
        check_globals(kernel)
    assert name in str(refused.value)


@pytest.mark.parametrize("kind", ALLOWED)
def test_check_globals_allows_constants_and_library_functions(kind: str) -> None:
    check_globals(ALLOWED[kind])
    x = np.zeros(1)
    ALLOWED[kind](x)


# ---- the launch in a run refuses such a kernel


def stamp(x: Any) -> None:
    x[:] = STEP[0]


async def stamps(rank: Rank) -> None:
    rank.step = 0
    stream = rank.stream("main")
    buffer = stream.alloc(1, "int32", "buffer")
    STEP[0] = 1
    stream.launch("stamp", stamp, writes=[buffer])
    STEP[0] = 2
    rank.decide("stamped", int((await buffer.read("read"))[0]), "h")


@register_protocol("stamps")
class Stamps(Program[Any]):
    async def run(self, rank: Rank, prepared: Any) -> None:
        await stamps(rank)


def test_the_launch_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = explored(world_of(2, ["h"]), stamps).findings[0]
    assert finding.klass == "CRASH:TYPEERROR"
    assert "stamp: the kernel stamp uses STEP (tests/backend/test_kernel_globals.py:" in text(finding.message)
    monkeypatch.setattr(kernel_call, "check_globals", lambda kernel: None)  # a launch without the check
    assert explored(world_of(2, ["h"]), stamps).verdict == "proven", "without the check, exploring proves the program"


@pytest.mark.slow
def test_gloo_refuses_it(dpsim_backend: Any) -> None:
    run = dpsim_backend("gloo", size=2).run(world_of(2, ["h"]), "stamps", {})
    assert run.ends == ["raised", "raised"]
    assert "the kernel stamp uses STEP" in run.journals[1][-1][RAISED_MESSAGE]


# ---- a global number that another function changes during a run

WIDTH = 1


def widen(x: Any) -> None:
    x[:] = WIDTH


async def sets_it_from_elsewhere(rank: Rank) -> None:
    rank.step = 0
    stream, module = rank.stream("main"), sys.modules[__name__]
    buffer = stream.alloc(1, "int32", "buffer")
    stream.launch("widen", widen, writes=[buffer])
    if rank.rank:
        module.WIDTH += 1  # type: ignore[attr-defined]


async def leaves_it(rank: Rank) -> None:
    rank.step = 0
    stream = rank.stream("main")
    stream.launch("widen", widen, writes=[stream.alloc(1, "int32", "buffer")])


@register_protocol("sets_it_from_elsewhere")
class SetsIt(Program[Any]):
    async def run(self, rank: Rank, prepared: Any) -> None:
        await sets_it_from_elsewhere(rank)


def test_a_number_that_changes_while_programs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "WIDTH", 1)
    assert explored(world_of(2, ["h"]), leaves_it).verdict == "proven"
    with pytest.raises(Exception, match=r"changed WIDTH of .*test_kernel_globals, which was 1 and is \d"):
        explored(world_of(2, ["h"]), sets_it_from_elsewhere)
    assert explored(world_of(2, ["h"]), leaves_it).verdict == "proven", (
        "a change between two explorations does not count"
    )


@pytest.mark.slow
def test_gloo_sees_that_it_changes(dpsim_backend: Any) -> None:
    with pytest.raises(Exception, match="changed WIDTH of"):
        dpsim_backend("gloo", size=2).run(world_of(2, ["h"]), "sets_it_from_elsewhere", {})


def test_equal_values_are_no_change() -> None:
    module = types.ModuleType("module")
    module.value = (1, 2)  # type: ignore[attr-defined]
    kernel_constants.watch(module, "value")
    kernel_constants.begin()
    module.value = tuple(range(1, 3))  # type: ignore[attr-defined]
    assert kernel_constants.changed() == ""
    module.value = (1, 2.0)  # type: ignore[attr-defined]
    assert kernel_constants.changed() == ""
    module.value = (1, 3)  # type: ignore[attr-defined]
    assert kernel_constants.changed() == "value of module, which was (1, 2) and is (1, 3)"
    kernel_constants.begin()
    assert kernel_constants.changed() == ""
    del module.value
    assert "is gone" in kernel_constants.changed()
    kernel_constants.begin()


# ---- arrays that a kernel keeps


class Keeper:
    """A library that keeps what it receives. Its module belongs to no program."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def __call__(self, value: Any) -> None:
        self.held.append(value)


def keeps(part: Any) -> Callable[..., None]:
    keep = Keeper()

    def kernel(x: Any) -> None:
        keep(part(x))

    return kernel


@pytest.mark.parametrize("part", [lambda x: x, lambda x: x[1:], lambda x: x.T])
def test_a_kept_array_is_seen(part: Any) -> None:
    with pytest.raises(kernel_call.KeptArray):
        kernel_call.OnTrial(keeps(part))(np.zeros((2, 2))[:])
    kernel_call.OnTrial(keeps(lambda x: x + 1))(np.zeros((2, 2)))
    kernel_call.OnTrial(keeps(lambda x: x.copy()))(np.zeros((2, 2))[:])


def test_a_cycle_is_no_keeper() -> None:
    def cycles(x: Any) -> None:
        held: list[Any] = [x]
        held.append(held)

    kernel_call.OnTrial(cycles)(np.zeros(2)[:])


HISTORY = Keeper()
HISTORY.__class__.__module__ = "logging"


def logs(x: Any) -> None:
    HISTORY(x)


async def looks_behind(rank: Rank) -> None:
    rank.step = 0
    stream = rank.stream("main")
    stream.launch("logs", logs, writes=[stream.alloc(1, "int32", "buffer")])


def test_the_run_names_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    [finding] = explored(world_of(1, ["h"]), looks_behind).findings
    assert finding.klass == "CRASH:KERNELERROR"
    assert "kernel logs of rank 0 logs[0]: it keeps an array that it was given" in text(finding.message)
    monkeypatch.setattr(kernel_call, "_references", lambda value: 0)  # a check that counts no references
    assert explored(world_of(1, ["h"]), looks_behind).verdict == "proven"


def test_a_kernel_without_a_finding_is_not_checked_again() -> None:
    """After its first calls without a finding, a kernel is in `KNOWN`, and its launches are no longer checked."""
    for _ in range(kernel_call.TRIALS):
        explored(world_of(1, ["h"]), leaves_it)
    assert widen in kernel_call.KNOWN


def test_a_library_in_a_folder_of_any_name_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the metadata of an installed package, as `pip install --target` creates it, contains a library, so
    dpsim does not check its functions. Without metadata the folder contains a program's own module, which dpsim checks.
    """
    for name, dist in (("a_library", True), ("a_program", False)):
        folder = tmp_path / name / "any"
        (folder / f"{name}_t").mkdir(parents=True)
        (folder / f"{name}_t" / "__init__.py").write_text("import sys\n\ndef helper():\n    return sys.modules\n")
        if dist:
            (folder / "a_library-1.0.dist-info").mkdir()
        monkeypatch.syspath_prepend(str(folder))
    library, program = importlib.import_module("a_library_t"), importlib.import_module("a_program_t")

    kernels: list[Any] = [lambda: library.helper(), lambda: program.helper()]
    check_globals(kernels[0])
    with pytest.raises(KernelRefused, match=r"calls helper, which uses sys\.modules"):
        check_globals(kernels[1])
