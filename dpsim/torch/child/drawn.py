"""Replaces entropy: each rank draws other numbers, as its process would, and the same ones in each run.

    install()       # once, in the warm parent, before any module imports the functions
    begin(rank)     # in the child

`random`, `numpy.random`, torch's generator and `os.urandom` begin with a seed of the rank. All other entropy of
Python's library and numpy comes from the last: `secrets`, `uuid`, a `Random()` without a seed, names of temporary
files. A proof names the lines that draw without a seed, because dpsim tries one seed a rank. torch's generator has no
Python function for each draw, so dpsim names the line of the next call.

The process id is fixed. A hash seed is the same in all children of one warm parent (`dpsim.torch.nursery`). Two seeds
often agree in the last bit of a hash. So one more run inverts all bits of the hashes of odd ranks.
"""

from __future__ import annotations

import builtins
import os
import random
import sys
import tempfile
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from dpsim.torch.child.frames import is_standard, is_users
from dpsim.torch.child.outside import touched, touched_through
from dpsim.torch.child.unbound import Unbound

FIRST_PROCESS = 70_000
"""The process id that rank 0 reads from `os.getpid`. Rank r reads this number plus r."""
ASK_THE_SYSTEM = ("psutil",)
STATES = {"seed": True, "setstate": True, "set_state": True, "getstate": False, "get_state": False}
"""The functions of a shared generator that draw nothing. True: the generator has a seed of the program after it."""

_system: list[random.Random] = []
"""The generator behind `os.urandom`. Empty in the warm parent."""
_torchs: list[Any] = []
"""The first state of torch's generator, until the program has drawn from it without a seed."""


def install() -> None:
    """Replaces the functions that return entropy in this process and its forks. They ask the system until `begin`."""
    true = os.urandom

    def urandom(size: int, /) -> bytes:
        if not _system:
            return true(size)
        touched("entropy")
        return _system[0].randbytes(size)

    os.urandom = random._urandom = Unbound(urandom, true)  # type: ignore[attr-defined]
    os.getrandom = Unbound(lambda size, flags=0: urandom(size), os.getrandom)
    uuid.uuid1 = lambda *_, **__: uuid.UUID(bytes=urandom(16), version=1)  # its C code reads clock and address
    seed = random.Random.seed

    def seeds(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, int.from_bytes(urandom(32)) if a is None and _system else a, version)

    random.Random.seed = seeds  # type: ignore[method-assign]
    random.seed = random._inst.seed  # bound to the new one
    for module, owner in ((random, random._inst), (np.random, np.random.mtrand._rand)):
        _watch(module, owner)
    torch.seed = torch.random.seed = lambda: torch.manual_seed(int.from_bytes(urandom(8)) >> 1).initial_seed()


def begin(rank: int) -> None:
    """Seeds all generators of this process for global rank `rank`."""
    _system.append(random.Random(rank))
    random._inst.seed(rank)
    np.random.mtrand._rand.seed(rank)
    torch.default_generator.manual_seed(rank)
    _torchs.append(torch.default_generator.get_state())
    tempfile._name_sequence = None  # type: ignore[attr-defined]
    _fix_process(rank)


def look(rank: int) -> None:
    """Notes that the program has drawn from torch's generator without a seed. Call it at a call of the rank."""
    if _torchs and torch.default_generator.initial_seed() != rank:
        _torchs.clear()
    elif _torchs and not torch.equal(_torchs[0], torch.default_generator.get_state()):
        _torchs.clear()
        touched_through("entropy")


def _watch(module: Any, owner: Any) -> None:
    """Notes each line that draws from a generator that all lines of a process share, until the program seeds it."""
    seeded: list[bool] = []

    def noting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **more: Any) -> Any:
            if STATES.get(name) and (args or more):
                seeded.append(True)
            elif not seeded and _system and name not in STATES:
                touched("entropy")
            return original(*args, **more)

        return Unbound(called, original)

    for name in dir(module):
        original = getattr(module, name)
        if name in STATES or getattr(original, "__self__", None) is owner:
            setattr(module, name, noting(name, original))


def invert_hashes() -> None:
    """Inverts what the program's calls of `hash` return for text."""
    true = builtins.hash

    def inverted(value: Any, /) -> int:
        found = true(value)
        users = is_users(sys._getframe(2).f_code)
        return ~found if users and isinstance(value, str | bytes) else found

    builtins.hash = Unbound(inverted, true)


def _fix_process(rank: int) -> None:
    true, kill, fixed = os.getpid, os.kill, FIRST_PROCESS + rank
    own = true()

    def getpid() -> int:
        caller: Any = sys._getframe(2)
        systems = is_standard(caller.f_code) or caller.f_globals.get("__name__", "").startswith(ASK_THE_SYSTEM)
        found = true()
        return found if systems or found != own else fixed

    def kill_process(pid: int, signal: int, /) -> None:
        kill(own if pid == fixed else pid, signal)

    os.getpid, os.kill = Unbound(getpid, true), Unbound(kill_process, kill)
