"""Work: a folder with the results of an exploration, so that it can resume after Ctrl-C, a kill or a power cut.

    with WorkFolder.begin(folder, head) as work:          # or .resume(folder, head)
        explore_all(subjects, store=work.of(digests))

`work.json` identifies what is explored (`dpsim.campaign.sameness`), and `units` has a file for each finished unit. Its
name is a digest of program, strategy, seed, schedules, and the state of DPOR. There is no list of open units: a resumed
exploration makes the same plan again, and repeats a unit whose file is missing or damaged.

Only the exploring process writes, and it syncs file and name before the result counts. It saves no unit that the clock
or the machine cut short, and no failure whose evidence is a run. A file is a pickle of plain data and of the classes in
`PLAIN`, and reading it creates nothing else (SECURITY.md).
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


class WorkRefused(BadInput):
    """This folder cannot be used in this way."""


class WorkFolder:
    """A folder that this process has locked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = (folder / LOCK).open("w")
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # worker processes do not inherit this lock
        except OSError:
            self._lock.close()
            raise WorkRefused(f"{folder}: another process explores with this folder; wait for its end") from None

    @classmethod
    def begin(cls, folder: Path, head: Mapping[str, Any]) -> WorkFolder:
        """Creates a folder, or uses an empty one. Raises OSError, and WorkRefused for a folder that has work."""
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
        """Opens a folder that has work. Raises WorkRefused with the difference if it is of another exploration."""
        try:
            was = json.loads((folder / HEAD).read_bytes())
            changed = [(key, was.get(key), value) for key, value in head.items() if was.get(key) != value]
        except (FileNotFoundError, NotADirectoryError):
            raise WorkRefused(f"{folder}: has no {HEAD}; expected a folder that --work wrote") from None
        except (ValueError, AttributeError, RecursionError):
            raise WorkRefused(f"{folder / HEAD}: is no JSON object; expected what --work wrote") from None
        if changed:
            key, before, now = changed[0]
            raise WorkRefused(f"{folder}: has the work of another {key}: {_short(before)}; this is {_short(now)}")
        (folder / UNITS).mkdir(exist_ok=True)
        work = cls(folder)
        for left in (folder / UNITS).glob(".*.tmp"):  # a killed process left it
            left.unlink(missing_ok=True)
        return work

    def of(self, digests: Sequence[str]) -> UnitFiles:
        """Returns the files of the results of programs, each identified by a digest."""
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
        """Returns the result of a unit; None if the folder has none or a damaged one."""
        key = self._key(unit)
        try:
            result = unpacked((self._folder / key).read_bytes())
        except (OSError, Damaged):
            return None
        result.unit.subject = unit.subject  # its number differs if programs are explored in parts
        if self._key(result.unit) != key:
            return None
        result.unit = unit
        return result

    def keep(self, result: UnitResult) -> None:
        """Writes a result. File and name are on disk when this returns. Raises an OSError that names the file."""
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
        settings = (unit.strategy, unit.seed, unit.schedules, unit.stop_at_first, unit.in_time, unit.number)
        text = repr((self._digests[unit.subject], settings, in_order(bare(unit.state))))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


# ---- files


class Damaged(Exception):
    """The content of a file is no result."""


def packed(result: UnitResult) -> bytes | None:
    """Returns a result as the content of a file; None if its evidence is more than plain data."""
    try:
        body = zlib.compress(pickle.dumps(result, protocol=5), 6)
        data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        unpacked(data)
    except (Damaged, pickle.PicklingError, TypeError, AttributeError):
        return None
    return data


def unpacked(data: bytes) -> UnitResult:
    """Returns the result in a file. Raises Damaged."""
    digest, _, body = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise Damaged
    try:
        result = _Plain(io.BytesIO(zlib.decompress(body))).load()
    except Exception as error:  # a forged pickle may raise any exception
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
    """Returns plain data whose `repr` is equal in every process: sets are sorted.

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
    """Returns whether a folder is empty, or was left before its `work.json` was written."""
    names = {one.name for one in folder.iterdir() if not one.name.endswith(".tmp")} - {LOCK}
    return not names or (names == {UNITS} and not any((folder / UNITS).iterdir()))


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < 80 else f"{text[:77]}..."
