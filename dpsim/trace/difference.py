"""Compares two traces: equal, or the first difference and what it probably means.

Two runs of one scenario are equal under two conditions. Every rank decided and learned the same. The ops on each
communicator and stream are the same, in the same order. Ignored are backend, times, source lines, ports that the system
chose, and the order in which host threads use objects that only they share. Later differences mostly follow from the
*first* one:

    first difference: rank 1, communicator dp_cpu, op 5, in step 5
      A  step 5  dp.agree  all_reduce int32[16] on dp_cpu #5
      B  step 6  dp.agree  all_reduce int32[16] on dp_cpu #5
      B's rank 1 has one all_reduce fewer on dp_cpu from step 5 on

Prior art: strict replay in record-and-replay debuggers (rr), which stops at the first divergence and names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpsim.contract.ops import KIND, LEARNED_OUTCOME, MAIN, OP, ORDINAL, RECORDS, SITE, STEP, RawRecord, as_record
from dpsim.contract.words import printable, ranks_text, step_words
from dpsim.trace import fold
from dpsim.trace.given_ports import Names, given_ports, named
from dpsim.trace.read import Trace


@dataclass(frozen=True)
class Difference:
    """The first place at which trace B differs from trace A. `rank`: None if it is in no single rank. `actor`: whose
    sequence differs, such as "communicator dp_cpu", at which `index`. `step`: the earlier one of the two ops `a` and
    `b`. `meaning`: what it probably means. `ends`: the traces whose ranks did not finish.
    """

    rank: int | None
    actor: str
    index: int
    step: int
    a: str
    b: str
    meaning: str
    ends: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = "" if self.rank is None else f"rank {self.rank}, "
        number = "" if self.rank is None else f", op {self.index}, in step {self.step}"
        lines = [
            f"first difference: {place}{self.actor}{number}",
            f"  A  {self.a}",
            f"  B  {self.b}",
            f"  {self.meaning}",
        ]
        return step_words("\n".join(map(printable, [*lines, *self.ends])))


def compare(a: Trace, b: Trace) -> Difference | None:
    """Returns the first difference of two traces, or None. Reads and checks both to their end. Raises TraceError."""
    sizes = len(a.header.ends), len(b.header.ends)
    if sizes[0] != sizes[1]:
        meaning = "the two ran on worlds of different size"
        return Difference(None, "the number of ranks", 0, 0, f"{sizes[0]} ranks", f"{sizes[1]} ranks", meaning)
    if a.header.digest == b.header.digest:
        for _ in a.journals():
            pass
        b.check()
        return None
    partings, has_stores, reordered = _all_partings(a, b, {}, {})
    if has_stores:
        partings, _, _ = _all_partings(a, b, given_ports(a.journals()), given_ports(b.journals()))
    if not partings and (has_stores or reordered):
        return None
    if not partings:
        meaning = "all values are equal, but not of the same type: true is not 1, nor is 1.0"
        return Difference(None, "the type of a decision", 0, 0, a.header.digest, b.header.digest, meaning)
    parting = min(partings, key=lambda one: one.order)
    return Difference(
        parting.rank,
        parting.actor,
        parting.at,
        parting.order[0],
        _summary(a, parting.rank, parting.a),
        _summary(b, parting.rank, parting.b),
        _meaning(parting, a, b),
        (*_unfinished("A", a), *_unfinished("B", b)),
    )


def scenario_changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Returns the keys in which two scenarios differ, in words: "config.enable_dbo: A has False, B has True"."""
    return [f"{key}: A has {old}, B has {new}" for key, old, new in _changes(a, b, "")]


# ---- where they part


class _Parting(NamedTuple):
    """The first place at which the sequences of one actor of one rank differ.

    `a`, `b`: the records there, None if a sequence ended before. `mine`, `theirs`: the sequences of A and B.
    `continues`: for A and B, whether the rank issues further ops there.
    """

    order: tuple[int, int, int, int, int]  # step, op within the step, kind of actor, number of the actor, rank
    rank: int
    kind: str
    actor: str
    at: int
    a: RawRecord | None
    b: RawRecord | None
    mine: Sequence[RawRecord]
    theirs: Sequence[RawRecord]
    continues: tuple[bool, bool]


def _all_partings(a: Trace, b: Trace, given: Names, also_given: Names) -> tuple[list[_Parting], bool, bool]:
    """Returns the first differences of all actors of all ranks. `given`, `also_given`: names of the ports that the
    system chose in A and in B. Also returns whether a rank that differs uses stores, and whether all such ranks differ
    only in the order of their host threads. It reads one rank at a time.
    """
    partings, has_stores, reordered = list[_Parting](), False, list[bool]()
    for rank, both in enumerate(zip(a.journals(), b.journals(), strict=True)):
        mine, theirs = named(both[0], given), named(both[1], also_given)
        if mine != theirs:
            partings += _partings(rank, mine, theirs)
            has_stores = has_stores or any(raw[KIND] == "store" for raw in mine)
            reordered.append(len(fold.threads(mine)) > 1 and sorted(map(repr, mine)) == sorted(map(repr, theirs)))
    return partings, has_stores, bool(reordered) and all(reordered)


_KINDS = ("decisions", "communicator", "stream", "outcomes", "thread")


def _partings(rank: int, a: list[RawRecord], b: list[RawRecord]) -> Iterator[_Parting]:
    """Yields the first difference of each actor of a rank. That of the host thread, which has all ops, comes last."""
    thread = _first(a, b)
    continues = len(a) > thread and a[thread][KIND] != "raised", len(b) > thread and b[thread][KIND] != "raised"
    for number, (kind, actor, mine, theirs) in enumerate(_actors(a, b)):
        if mine != theirs:
            index = _first(mine, theirs)
            old, new = (sequence[index] if index < len(sequence) else None for sequence in (mine, theirs))
            places = [_position(journal, raw) for journal, raw in ((a, old), (b, new)) if raw is not None]
            order = (*min(places), _KINDS.index(kind), number, rank)
            yield _Parting(order, rank, kind, actor, index, old, new, mine, theirs, continues)


def _first(a: Sequence[RawRecord], b: Sequence[RawRecord]) -> int:
    return next((at for at, (old, new) in enumerate(zip(a, b, strict=False)) if old != new), min(len(a), len(b)))


def _actors(
    a: list[RawRecord], b: list[RawRecord]
) -> Iterator[tuple[str, str, Sequence[RawRecord], Sequence[RawRecord]]]:
    for kind, split in (("decisions", fold.decisions), ("communicator", fold.communicators), ("stream", fold.streams)):
        mine, theirs = split(a), split(b)
        for name in dict.fromkeys([*mine, *theirs]):
            yield kind, f"{kind} {name}", mine.get(name, []), theirs.get(name, [])
    mine, theirs = fold.threads(a), fold.threads(b)
    names = dict.fromkeys([*mine, *theirs]) or {MAIN: None}
    for name in names:
        which = "outcomes" if len(names) == 1 else f"outcomes of thread {name}"
        yield "outcomes", which, fold.outcomes(mine.get(name, [])), fold.outcomes(theirs.get(name, []))
    for name in names:
        yield "thread", f"thread {name}", mine.get(name, []), theirs.get(name, [])


def _position(journal: list[RawRecord], raw: RawRecord) -> tuple[int, int]:
    at = first = journal.index(raw)
    while first and journal[first - 1][STEP] == raw[STEP]:
        first -= 1
    return raw[STEP], at - first


# ---- in words


def _learned(value: Any) -> str:
    return f"result {value:08x}" if type(value) is int else f"learned {value}"


def _summary(trace: Trace, rank: int, raw: RawRecord | None) -> str:
    if raw is None:
        return f"nothing; rank {rank} {_end(trace, rank)}"
    where = trace.place(raw[KIND], raw[SITE])
    what = _learned(raw[LEARNED_OUTCOME]) if raw[KIND] == "learned" else as_record(raw).describe()
    if raw[KIND] == "raised":
        what = f"raised: {trace.messages.get(str(rank), '')}"
    return f"step {raw[STEP]}  {raw[SITE]}[{raw[ORDINAL]}]  {what}" + (f"  at {where}" if where else "")


def _end(trace: Trace, rank: int) -> str:
    end = trace.header.ends[rank]
    if end == "raised":
        return f"raised: {trace.messages.get(str(rank), 'no message')}"
    return {"finished": "finished", "blocked": "is blocked at its end", "died": "died"}[end]


def _unfinished(name: str, trace: Trace) -> list[str]:
    words = []
    for end, word in (("raised", "raised"), ("died", "died"), ("blocked", "blocked")):
        ranks = [rank for rank, other in enumerate(trace.header.ends) if other == end]
        if ranks:
            words.append(f"{ranks_text(ranks)} {word}")
    observed = f" ({trace.header.observed})" if trace.header.observed else ""
    return [f"{name} did not finish: {'; '.join(words)}{observed}"] if words else []


def _meaning(parting: _Parting, a: Trace, b: Trace) -> str:
    rank, step = parting.rank, parting.order[0]
    for name, other, trace, raw, continues in (
        ("B", "A", b, parting.b, parting.continues[1]),
        ("A", "B", a, parting.a, parting.continues[0]),
    ):
        if raw is None and not continues and trace.header.ends[rank] != "finished":
            return f"{name} ends earlier than {other}: there, rank {rank} {_end(trace, rank)}, in step {step}"
    if parting.kind == "outcomes":
        return _outcome(parting)
    here = [sum(raw[STEP] == step for raw in sequence) for sequence in (parting.mine, parting.theirs)]
    if here[0] != here[1] and parting.kind != "thread":
        return _count(parting, here[1] - here[0])
    if parting.a is None or parting.b is None or parting.a[KIND] != parting.b[KIND]:
        return f"rank {rank} does something else in step {step}"
    if parting.a[SITE] != parting.b[SITE] and _sites(parting.mine, step) == _sites(parting.theirs, step):
        return f"rank {rank} makes the same ops in step {step}, in another order"
    if parting.kind == "decisions":
        return f"rank {rank} learned the same before but decided otherwise: another configuration, form or variant?"
    return f"rank {rank} makes the op with another {', '.join(_fields(parting.a, parting.b))}"


def _count(parting: _Parting, more: int) -> str:
    raw = parting.a or parting.b
    assert raw is not None
    actor = parting.actor.partition(" ")[2]
    what, where = {
        "communicator": (_op(raw), f"on {actor}"),
        "decisions": ("decision", f"of {actor!r}"),
        "stream": ("op", f"on stream {actor}"),
    }[parting.kind]
    number = "one" if abs(more) == 1 else str(abs(more))
    what += "s" * (abs(more) > 1) + (" more" if more > 0 else " fewer")
    return f"B's rank {parting.rank} has {number} {what} {where} from step {parting.order[0]} on"


def _op(raw: RawRecord) -> str:
    return str(raw[OP]) if raw[KIND] == "collective" else "op"


def _outcome(parting: _Parting) -> str:
    if parting.a is None or parting.b is None or parting.a[SITE] != parting.b[SITE]:
        return f"rank {parting.rank} awaits its ops in another order"
    why = "some rank brought other data to it, or it came at another time than what others did (a store, an event)"
    return f"rank {parting.rank} made the same op but learned something else: {why}"


def _sites(sequence: Sequence[RawRecord], step: int) -> list[tuple[str, str]]:
    return sorted((raw[SITE], raw[KIND]) for raw in sequence if raw[STEP] == step)


def _fields(a: RawRecord, b: RawRecord) -> list[str]:
    names = zip(RECORDS[a[KIND]]._fields, a, b, strict=True)
    return [f"{name} (A: {_shown(old)}, B: {_shown(new)})" for name, old, new in names if old != new]


# ---- scenarios


def _changes(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            yield from _changes(a.get(key, _ABSENT), b.get(key, _ABSENT), f"{path}.{key}" if path else key)
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        for index, (old, new) in enumerate(zip(a, b, strict=True)):
            yield from _changes(old, new, f"{path}[{index}]")
    elif a != b:
        yield path, _shown(a), _shown(b)


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
