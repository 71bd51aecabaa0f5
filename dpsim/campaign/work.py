"""A folder with what an exploration has done, from which it goes on after Ctrl-C, a kill or a power cut.

    with WorkFolder.begin(folder, head) as work:          # or .resume(folder, head)
        explore_all(subjects, store=work.of(digests))

The folder has `work.json`, which says what is explored (`dpsim.campaign.sameness`), and in `units` a file for each unit
that was done. A file is named after what the unit is: subject, strategy, seed, schedules, and where DPOR stands. There
is no list of open units. An exploration that goes on makes its plan again from the first unit. It takes the result of a
unit from the folder where the folder has it. So a file that is missing or damaged costs its unit, which is done
again, and nothing is ever proven with fewer.

Only the exploring process writes. A file is on disk, and so is its name in the folder, before its result counts. What
the clock or the machine cut short is not kept, nor is a failure whose evidence is a run: such units are done again.

A file is a pickle of plain data and of the classes in `PLAIN`; reading makes nothing else (SECURITY.md).
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import pickle
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpsim.campaign.units import Unit, UnitResult, bare
from dpsim.contract.words import BadInput
from dpsim.explore import Exploration, Failure, Problem
from dpsim.explore.strategies.frontier import BoundUse, NewPlace, Node, RunRecord, WithinDone, WithinState
from dpsim.explore.strategies.places import DporState, PlaceState, ToTurn
from dpsim.trace.appearing import appearing

HEAD, UNITS, LOCK = "work.json", "units", "lock"

OF_DPOR = (ToTurn, DporState, PlaceState)
OF_BOUNDS = (BoundUse, Node, NewPlace, RunRecord, WithinState, WithinDone)
PLAIN_CLASSES = (Unit, UnitResult, Exploration, Failure, Problem, *OF_DPOR, *OF_BOUNDS)

PLAIN = {
    **{(one.__module__, one.__qualname__): one for one in PLAIN_CLASSES},
    ("collections", "Counter"): Counter,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
}
"""What a file may name."""


class WorkRefused(BadInput):
    """This folder cannot be used so."""


class WorkFolder:
    """A folder, locked by this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = (folder / LOCK).open("w")
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # which a worker does not inherit
        except OSError:
            self._lock.close()
            raise WorkRefused(f"{folder}: another process explores with this folder; wait for its end") from None

    @classmethod
    def begin(cls, folder: Path, head: Mapping[str, Any]) -> WorkFolder:
        """A new folder, or an empty one. Raises WorkRefused for one that has work, and OSError."""
        if (folder / HEAD).exists():
            raise WorkRefused(f"{folder}: has the work of an earlier exploration; --resume goes on with it")
        if folder.is_dir() and not _is_new(folder):
            raise WorkRefused(f"{folder}: is not empty; expected a new folder")
        (folder / UNITS).mkdir(parents=True, exist_ok=True)
        work = cls(folder)
        with appearing(folder / HEAD) as file:
            file.write(json.dumps(dict(head), indent=1, sort_keys=True).encode())
        _sync(folder)
        return work

    @classmethod
    def resume(cls, folder: Path, head: Mapping[str, Any]) -> WorkFolder:
        """A folder that has work. Raises WorkRefused with what differs, if that is the work of something else."""
        try:
            text = (folder / HEAD).read_text()
        except (FileNotFoundError, NotADirectoryError):
            raise WorkRefused(f"{folder}: has no {HEAD}; expected a folder that --work wrote") from None
        try:
            was = json.loads(text)
            told = [(key, was.get(key), value) for key, value in head.items() if was.get(key) != value]
        except (ValueError, AttributeError):
            raise WorkRefused(f"{folder / HEAD}: is no JSON object; expected what --work wrote") from None
        if told:
            key, before, now = told[0]
            raise WorkRefused(f"{folder}: has the work of another {key}: {_short(before)}; this is {_short(now)}")
        (folder / UNITS).mkdir(exist_ok=True)
        work = cls(folder)
        for left in (folder / UNITS).glob(".*.tmp"):  # of a process that was killed
            left.unlink(missing_ok=True)
        return work

    def of(self, digests: Sequence[str]) -> UnitFiles:
        """The results of subjects, each known by a digest of its world."""
        return UnitFiles(self.folder / UNITS, digests)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()


class UnitFiles:
    """A `Keeper` of results (`dpsim.campaign.processes`)."""

    def __init__(self, folder: Path, digests: Sequence[str]) -> None:
        self._folder = folder
        self._digests = digests

    def known(self, unit: Unit) -> UnitResult | None:
        """The result of a unit; None if the folder has none, or a damaged one."""
        key = self._key(unit)
        try:
            result = unpacked((self._folder / key).read_bytes())
        except (OSError, Damaged):
            return None
        result.unit.subject = unit.subject  # its number, where worlds come in parts
        if self._key(result.unit) != key:
            return None
        result.unit = unit
        return result

    def keep(self, result: UnitResult) -> None:
        """When this returns, the file and its name are on disk. Raises OSError that names the file."""
        data = packed(result)
        if data is None:
            return
        path = self._folder / self._key(result.unit)
        try:
            with appearing(path) as file:
                file.write(data)
            _sync(self._folder)
        except OSError as error:
            error.filename = str(path)
            raise

    def _key(self, unit: Unit) -> str:
        said = (unit.strategy, unit.seed, unit.schedules, unit.stop_at_first, unit.in_time, unit.number)
        text = repr((self._digests[unit.subject], said, in_order(bare(unit.state))))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


# ---- files


class Damaged(Exception):
    """What is read is no result as it was written."""


def packed(result: UnitResult) -> bytes | None:
    """A result as a file; None if its evidence is more than plain data."""
    try:
        body = zlib.compress(pickle.dumps(result, protocol=5), 6)
        data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        unpacked(data)
    except (Damaged, pickle.PicklingError, TypeError, AttributeError):
        return None
    return data


def unpacked(data: bytes) -> UnitResult:
    """The result in a file. Raises Damaged."""
    digest, _, body = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise Damaged
    try:
        result = _Plain(io.BytesIO(zlib.decompress(body))).load()
    except Exception as error:  # a pickle that was made by hand raises anything
        raise Damaged from error
    if not isinstance(result, UnitResult):
        raise Damaged
    return result


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = PLAIN.get((module, name))
        if found is None:
            raise Damaged(f"{module}.{name}")
        return found


def in_order(value: Any) -> Any:
    """Plain data whose `repr` is the same in every process: sets are sorted.

    >>> in_order(({"b", "a"}, {"x": frozenset({2, 1})}))
    [['a', 'b'], [('x', [1, 2])]]
    """
    if isinstance(value, (set, frozenset)):
        return sorted((in_order(one) for one in value), key=repr)
    if isinstance(value, dict):
        return [(key, in_order(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [in_order(one) for one in value]
    return value


def _is_new(folder: Path) -> bool:
    """Whether a folder is empty, or was left before its head was written."""
    names = {one.name for one in folder.iterdir() if not one.name.endswith(".tmp")} - {LOCK}
    return not names or (names == {UNITS} and not any((folder / UNITS).iterdir()))


def _sync(folder: Path) -> None:
    """Let the names in a folder be on disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < 80 else f"{text[:77]}..."
