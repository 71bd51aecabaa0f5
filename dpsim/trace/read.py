"""Reads a trace and checks every byte of it, one rank at a time.

    trace = read_trace("quickstart.jsonl")          # reads and checks the header
    for journal in trace.journals(): ...            # reads and checks the body, a rank at a time
    judge(world, trace.run())                       # reads all of it, as a run that the checks can judge

If a file is not exactly what `write_trace` wrote, the reader raises a `TraceError` with file, line, what was expected
and what it found. Only one rank's journal has to fit into memory.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from dpsim.contract.chain import Chain
from dpsim.contract.ops import KIND, RAISED_MESSAGE, SITE, WHERE, RawRecord
from dpsim.contract.times import ActorTimes, fits
from dpsim.contract.world import Run
from dpsim.trace.form import FORMAT, UNWRITTEN, VERSION, TraceError, canonical, decode, digest, shown
from dpsim.trace.header import Header, parse
from dpsim.trace.record import messages_of, places_of
from dpsim.trace.schedule import Schedule
from dpsim.trace.strict_json import MOST_VALUES, loads_once
from dpsim.trace.times import are_times, times_of

_LONGEST = 1 << 26
"""The most bytes of a line of the body."""

_LONGEST_HEADER = 1 << 23
"""The most bytes of the header, which contains a scenario: 100,000 values, with their defaults."""

_SECTION = b'{"section":'


class Trace:
    """A recorded run, called `name` in errors. Some fields are complete only when `journals` has ended. `places`: by
    kind and site. `messages`: of exceptions, by rank. `chains`: by place, the calls that led there. `steps_set`,
    `times`: as in `Run`. `schedule`: None for a timed run. `counts`: of records, by kind.
    """

    def __init__(
        self,
        name: str,
        header: Header,
        source: Callable[[Trace], Iterator[list[RawRecord]]],
        check: Callable[[Trace], None],
    ) -> None:
        self.name = name
        self.header = header
        self.places: Mapping[str, Mapping[str, list[str]]] = {}
        self.messages: Mapping[str, str] = {}
        self.chains: Mapping[str, Chain] = {}
        self.steps_set: tuple[int, ...] = ()
        self.times: tuple[ActorTimes, ...] = ()
        self.schedule: Schedule | None = None
        self.counts: Counter[str] = Counter()
        self._source = source
        self._check = check

    @staticmethod
    def of(run: Run, name: str = "") -> Trace:
        """Returns a run in memory as a trace. Its header lacks scenario and verdict."""
        header = Header.of(run, digest=digest(run.journals))

        def source(trace: Trace) -> Iterator[list[RawRecord]]:
            for journal in run.journals:
                yield [canonical(raw) for raw in journal if raw[KIND] != UNWRITTEN]
            trace.places, trace.messages = places_of(run.journals), messages_of(run.journals)

        return Trace(name or run.backend, header, source, lambda trace: None)

    def journals(self) -> Iterator[list[RawRecord]]:
        """Yields each rank's journal in canonical form. Raises TraceError; the digest is checked only at the end."""
        self.counts = Counter()
        for journal in self._source(self):
            self.counts.update([raw[KIND] for raw in journal])
            yield journal

    def check(self) -> None:
        """Raises TraceError if the body does not have its digest. Decodes no records, so it is fast."""
        self._check(self)

    def place(self, kind: str, site: str) -> str:
        """Returns the place of a site in the source, such as "app/step.py:114", or an empty text."""
        return " or ".join(self.places.get(kind, {}).get(site, ()))

    def run(self) -> Run:
        """Returns the trace as a run for checks and reports, with places and messages, without injected faults."""
        header = self.header
        journals = list(self.journals())
        for rank, journal in enumerate(journals):
            for at, raw in enumerate(journal):
                fields = list(raw)
                fields[WHERE] = self.place(raw[KIND], raw[SITE])
                if raw[KIND] == "raised":
                    fields[RAISED_MESSAGE] = self.messages.get(str(rank), "")
                journal[at] = tuple(fields)
        return Run(
            backend=header.backend,
            journals=journals,
            ends=list(header.ends),
            waited_ns=list(header.waited_ns),
            elapsed_ns=header.elapsed_ns,
            observed=header.observed,
            versions=dict(header.versions),
            chains=self.chains,
            steps_set=self.steps_set,
            times=self.times if fits(self.times, journals) else (),
        )


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Opens a trace and checks its header; `Trace.journals` checks the body. Raises TraceError, and OSError."""
    name = os.fspath(path)
    if not name:
        raise TraceError("'': no name of a file; expected a trace")
    if Path(path).exists() and not Path(path).is_file():
        what = "a folder" if Path(path).is_dir() else "not a regular file"
        raise TraceError(f"{name}: {what}; expected a trace, which is read more than once")
    with Path(path).open("rb") as file:
        header = _header(_Lines(name, file))
    return Trace(name, header, lambda trace: _journals(trace, Path(path)), lambda trace: _check(trace, Path(path)))


class _Lines:
    """The lines of a file. Its errors name the line that it read last."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self.file = file
        self.number = 0

    def next(self, longest: int = _LONGEST) -> bytes:
        """Returns the next line with its newline, at most `longest` bytes; empty at the end of the file."""
        self.number += 1
        return self.file.readline(longest)

    def error(self, message: str) -> TraceError:
        return TraceError(f"{self.name}:{self.number}: {message}")


def _header(lines: _Lines) -> Header:
    line = lines.next(_LONGEST_HEADER)
    if not line:
        raise lines.error("the file is empty; expected a trace, as `dpsim run --trace` writes it")
    if not line.startswith(b'{"format":'):
        raise lines.error(f'not a trace: expected {{"format":"{FORMAT}","version":{VERSION},..., got {shown(line, 60)}')
    if not line.endswith(b"\n"):
        raise lines.error("cut off: the header has no end")
    try:
        return parse(line)
    except ValueError as error:
        raise lines.error(str(error)) from None


def _journals(trace: Trace, path: Path) -> Iterator[list[RawRecord]]:
    """Yields the journals of a file, rank by rank. It yields the last one only after all checks of the file."""
    ranks = len(trace.header.ends)
    rank, journal = 0, list[RawRecord]()
    with path.open("rb") as file:
        lines = _Lines(trace.name, file)
        for line in _body(lines, trace):
            try:
                of, raw = decode(line)
            except ValueError as error:
                raise lines.error(str(error)) from None
            while rank < of < ranks:
                yield journal
                rank, journal = rank + 1, []
            if of != rank:
                message = f"a record of rank {of} after those of rank {rank}; expected ranks 0 to {ranks - 1} in order"
                raise lines.error(message)
            journal.append(raw)
    yield journal
    for _ in range(rank + 1, ranks):
        yield []


def _check(trace: Trace, path: Path) -> None:
    with path.open("rb") as file:
        for _ in _body(_Lines(trace.name, file), trace):
            pass


def _body(lines: _Lines, trace: Trace) -> Iterator[bytes]:
    header, total = trace.header, hashlib.sha256()
    if _header(lines) != header:
        raise lines.error("the header was changed after the trace was opened")
    for number in range(header.records):
        line = lines.next()
        if line.startswith(_SECTION) or not line:
            raise lines.error(f"cut off: the header says {header.records} records, but the body ends after {number}")
        if not line.endswith(b"\n"):
            raise lines.error(f"cut off in the middle of a record: {shown(line)}")
        total.update(line)
        yield line
    trace.places = _section(lines, "places", _are_places)
    trace.messages = _section(lines, "messages", _are_messages)
    surplus = lines.next()
    if surplus.startswith(b'{"section":"chains"'):
        trace.chains = _chains(lines, surplus)
        surplus = lines.next()
    if surplus.startswith(b'{"section":"steps"'):
        steps = _section(lines, "steps", lambda value: _are_steps(value, len(header.ends)), surplus)
        trace.steps_set = tuple(steps[str(rank)] for rank in range(len(header.ends)))
        surplus = lines.next()
    if surplus.startswith(b'{"section":"times"'):
        most = MOST_VALUES + 3 * header.records  # of a record the begin, and of an op its number and its end
        times = _section(lines, "times", lambda value: are_times(value, len(header.ends)), surplus, most)
        trace.times = times_of(times)
        surplus = lines.next()
    if surplus.startswith(b'{"section":"schedule"'):
        try:
            trace.schedule = Schedule.parse(surplus)
        except ValueError as error:
            raise lines.error(str(error)) from None
        surplus = lines.next()
    if surplus:
        raise lines.error(f"expected the end of the file, got {shown(surplus, 60)}")
    if total.hexdigest() != header.digest:
        differ = f"its SHA-256 is {total.hexdigest()[:16]}..., but the header says {header.digest[:16]}..."
        raise TraceError(f"{trace.name}: the body was changed after it was written: {differ}")


def _section(
    lines: _Lines, section: str, fits: Callable[[Any], bool], line: bytes | None = None, most: int = MOST_VALUES
) -> dict[str, Any]:
    line = lines.next() if line is None else line
    if not line.endswith(b"\n"):
        raise lines.error(f"cut off: expected the section {section!r}" + (f", got {shown(line, 60)}" if line else ""))
    try:
        row = loads_once(line, most)
    except ValueError:
        row = None
    if not isinstance(row, dict) or set(row) != {"section", section} or row["section"] != section:
        raise lines.error(f'expected {{"section":"{section}",..., got {shown(line, 60)}')
    if not fits(row[section]):
        raise lines.error(f"the section {section!r} has a form that `dpsim run --trace` does not write")
    content: dict[str, Any] = row[section]
    return content


def _chains(lines: _Lines, line: bytes) -> dict[str, Chain]:
    found = _section(lines, "chains", _are_chains, line)
    return {place: tuple((function, where) for function, where in chain) for place, chain in found.items()}


def _are_chains(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(chain, list)
        and all(isinstance(call, list) and len(call) == 2 and _are_texts(call) for call in chain)
        for chain in value.values()
    )


def _are_steps(value: Any, actors: int) -> bool:
    known = isinstance(value, dict) and value.keys() == {str(rank) for rank in range(actors)}
    return known and all(type(step) is int and -1 <= step < 1 << 63 for step in value.values())


def _are_places(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(sites, dict) and all(isinstance(wheres, list) and _are_texts(wheres) for wheres in sites.values())
        for sites in value.values()
    )


def _are_messages(value: Any) -> bool:
    return isinstance(value, dict) and _are_texts(value.values())


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(text, str) for text in values)
