"""Tests that the simulation and the checks contain no banned use, and that each rule finds its faulty twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.determinism.ban_list import SET_ORDER, violations

FOLDERS = ("dpsim/backend", "dpsim/sim", "dpsim/checks")

ACCEPTED = {
    "dpsim/backend/graphs/kernel_globals.py": {"os.getenv": "a kernel that names it is refused; no call is made"},
    "dpsim/sim/hosts/exits.py": {"os.getpid": "a child that the program forked may end its own process"},
    "dpsim/sim/hosts/shared.py": {"id": "tells objects of one run apart; no order and no text shows it"},
    "dpsim/sim/hosts/recurrence.py": {
        "id": "tells objects of one run apart; no order and no text shows it",
        "np.random.get_state": "compares the state of a generator, and draws nothing",
        "random.getstate": "compares the state of a generator, and draws nothing",
    },
    "dpsim/sim/hosts/outside.py": {
        "id": "tells generators of one run apart; no order and no text shows it",
        "datetime": "its types alone, to shift what a program reads",
    },
    "dpsim/sim/hosts/own_state.py": dict.fromkeys(
        ("np.random.mtrand", "np.random.RandomState", "random.getstate", "random.setstate", "random._inst"),
        "keeps the shared generators by rank; a run sees only its rank's own",
    )
    | {"os.environ": "puts back what a run changed; a run sees nothing of it"},
    "dpsim/sim/hosts/sources.py": {
        "id": "tells functions of the process apart; no order and no text shows it",
        "hash": "of a stand-in, which equals that of its function",
        **dict.fromkeys(("datetime", "random._inst", "np.random.mtrand"), "is replaced, and not called"),
    },
}
"""Banned uses that do not affect any result, by file, with the reason."""

FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_banned_is_used(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    found = violations(path.read_text(), name)
    accepted = ACCEPTED.get(name, {})
    left = [one for one in found if one.message.partition(":")[0] not in accepted]
    assert not left, "\n" + "\n".join(map(str, left))
    assert {one.message.partition(":")[0] for one in found} == accepted.keys(), "an exception that no file needs"


def test_the_files_are_found() -> None:
    names = {str(path.relative_to(ROOT)) for path in FILES}
    assert {
        "dpsim/backend/journal/journal.py",
        "dpsim/backend/calls/rank.py",
        "dpsim/sim/graph/machine.py",
        "dpsim/checks/ledger.py",
    } <= names


NAMES = {
    "x = id(op)": "id: the address of an object",
    "rows.sort(key=id)": "id: the address of an object",
    "x = hash(site) % 7": "hash: depends on PYTHONHASHSEED",
    "import time": "time: a wall clock; the simulation has its own",
    "from time import monotonic": "time.monotonic: a wall clock; the simulation has its own",
    "import datetime as d": "datetime: a wall clock; the simulation has its own",
    "from datetime import datetime": "datetime.datetime: a wall clock; the simulation has its own",
    "import uuid": "uuid: never the same twice",
    "from secrets import token_hex": "secrets.token_hex: never the same twice",
    "import random\nx = random.random()": "random.random: random without its own seed",
    "import random\nrandom.shuffle(ops)": "random.shuffle: random without its own seed",
    "import random\nx = random.Random()": "random.Random: random without its own seed",
    "import random\nx = random.SystemRandom(3)": "random.SystemRandom: random without its own seed",
    "from random import choice": "random.choice: random without its own seed",
    "from random import Random\nx = Random()": "Random: random without its own seed",
    "import numpy as np\nx = np.random.rand(3)": "np.random.rand: random without its own seed",
    "import numpy as np\nx = np.random.default_rng()": "np.random.default_rng: random without its own seed",
    "import os\nx = os.environ['X']": "os.environ: not the same on every machine",
    "import os\nx = os.getenv('X')": "os.getenv: not the same on every machine",
    "from os import environ": "os.environ: not the same on every machine",
}

ORDERS = [
    "for x in {1, 2}: pass",
    "for x in set(ops): pass",
    "for x in frozenset(ops): pass",
    "for x in {op.site for op in ops}: pass",
    "for x in set(a) | set(b): pass",
    "for x in set(a) - b: pass",
    "for x in a.keys() & b: pass",
    "for x in set(a).union(b): pass",
    "for x in set(a) if a else (): pass",
    "for x in set(a) or (): pass",
    "x = [op for op in set(ops)]",
    "x = {op: 1 for op in set(ops)}",
    "x = next(op for op in set(ops))",
    "x = ', '.join(str(op) for op in set(ops))",
    "x = [op for group in groups for op in set(group)]",
    "x = list(set(ops))",
    "x = tuple({1, 2})",
    "x = next(iter(set(ops)))",
    "x = iter(frozenset(ops))",
    "x = dict.fromkeys(set(ops))",
    "x = ', '.join(set(names))",
    "x = list(map(str, set(ops)))",
    "x = dict(zip(set(ops), range(3)))",
    "for i, x in enumerate(set(ops)): pass",
    "rows.extend(set(ops))",
    "x = [*set(ops)]",
    "f(*set(ops))",
    "a, b = set(ops)",
    "x = set(ops).pop()",
    "x = str(set(ops))",
    "x = f'{set(ops)}'",
    "x = sorted(set(ops), key=len)",
    "x = min(set(ops), key=len)",
    "def f(ops):\n    yield from set(ops)",
    "def f(ops):\n    own = set(ops)\n    return list(own)",
    "def f(ops: set[int]):\n    return [op for op in ops]",
    "def f(ops: 'frozenset[int]'):\n    for op in ops: pass",
    "def f(ops):\n    own: set[int] = g(ops)\n    return tuple(own)",
    "def f(ops):\n    own = set(ops)\n    def g():\n        return list(own)\n    return g",
    "ALL = frozenset(MODES)\ndef f():\n    return [mode for mode in ALL]",
    "class A:\n    def __init__(self):\n        self.own = set()\n    def f(self):\n        return list(self.own)",
    "class A:\n    own: frozenset[int]\n    def f(self):\n        for x in self.own: pass",
]

ALLOWED = [
    "x = sorted(set(ops))",
    "x = sorted(op.at for op in set(ops))",
    "x = len(set(ops)) > 1 and max(set(ops))",
    "x = any(op.done for op in {1, 2})",
    "x = sum(op.cost for op in set(ops))",
    "x = {op.site for op in set(ops)}",
    "x = frozenset(op.site for op in set(ops))",
    "x = {*set(a), *set(b)}",
    "x = 3 in {1, 2} and set(a) <= set(b)",
    "x = set(); x.add(3); x.update(ops); x.discard(4)",
    "for x in [op for op in ops if op in {1, 2}]: pass",
    "for x in dict.fromkeys(ops): pass",
    "for x in ops.keys(): pass",
    "def f(ops):\n    own = set(ops)\ndef g(own):\n    return list(own)",
    "def f():\n    own = set()\n    def g(own):\n        return list(own)",
    "x = ops.pop()",
    "import random\nx = random.Random(7).random()",
    "from random import Random\nx = Random(7)",
    "def f(rng: random.Random): pass",
    "import numpy as np\nx = np.random.default_rng(7)",
    "import os\nx = os.path.join('a', 'b')",
    "x = op.id + op.hash() + op.time",
    "x = node(id=3, hash=4)",
    "class A:\n    def __hash__(self): return 3",
]


@pytest.mark.parametrize("source", NAMES)
def test_a_banned_name_is_caught(source: str) -> None:
    assert [message for _, _, message in violations(source)] == [NAMES[source]]


@pytest.mark.parametrize("source", ORDERS)
def test_the_order_of_a_set_is_caught(source: str) -> None:
    assert {message for _, _, message in violations(source)} == {SET_ORDER}


@pytest.mark.parametrize("source", ALLOWED)
def test_use_of_a_set_that_shows_no_order_is_allowed(source: str) -> None:
    assert violations(source) == []


def test_file_and_line_are_named() -> None:
    (found,) = violations("a = 1\n\nfor x in set(ops): pass\n", "dpsim/sim/x.py")
    assert str(found) == f"dpsim/sim/x.py:3: {SET_ORDER}"
