"""Deadlock: who waits for whom when a run did not come to its end.

Starts from collectives that not every member joined, not from hosts: a host that ran ahead has ended while its
device hangs. A rank that joined such a collective waits for the members that did not. A missing member that has
itself joined one waits in turn; if all do, they form a cycle, else the member that waits for nobody is the one to
look at: it ended, died, or stands still somewhere else.

A run that stopped without any such collective is reported as undecided; a poller is never called a deadlock.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.checks.evidence import Entry, Evidence, call, ranks_text
from dpsim.checks.finding import Culprit, Finding


@dataclass(frozen=True)
class Stuck:
    """A collective that not all members joined."""

    communicator: str
    seq: int
    joined: dict[int, Entry]
    missing: tuple[int, ...]


def check(evidence: Evidence) -> list[Finding]:
    """One finding, or none if the run finished or the stop is explained by a rank that raised."""
    if evidence.run.finished:
        return []
    stuck = find_stuck(evidence)
    waits = {rank: one for one in stuck for rank in one.joined}
    roots = sorted({rank for one in stuck for rank in one.missing if rank not in waits})
    dead = [rank for rank, end in enumerate(evidence.run.ends) if end == "died"]
    if any(evidence.end(rank) == "raised" for rank in roots) or (not stuck and "raised" in evidence.run.ends):
        return []
    details = tuple(line for one in stuck for line in describe(evidence, one))
    if roots:
        return [_missing(evidence, stuck, roots[0], details)]
    if stuck:
        return [_cycle(evidence, waits, details)]
    blocked = [rank for rank, end in enumerate(evidence.run.ends) if end == "blocked"]
    if not blocked:
        return []
    entry = evidence.last(blocked[0])
    if dead:
        return [_left_by_the_dead(evidence, dead[0], blocked)]
    return [
        Finding(
            check="deadlock",
            klass="HANG:UNDECIDED",
            message=f"{ranks_text(blocked)} did not end, and every collective was joined by all its members",
            culprit=None,
            position=evidence.position(entry) if entry else (0, 0),
        )
    ]


def find_stuck(evidence: Evidence) -> list[Stuck]:
    """The first collective of each communicator that not all members joined, in order of the step in which they
    were called.
    """
    stuck = []
    for communicator, members in evidence.collectives.items():
        seq = min(len(entries) for entries in members.values())
        joined = {rank: entries[seq] for rank, entries in members.items() if len(entries) > seq}
        if joined:
            missing = tuple(rank for rank in members if rank not in joined)
            stuck.append(Stuck(communicator, seq, joined, missing))
    return sorted(stuck, key=lambda one: min(evidence.position(entry) for entry in one.joined.values()))


def describe(evidence: Evidence, stuck: Stuck) -> list[str]:
    """Who waits and where the missing ones are."""
    some = call(next(iter(stuck.joined.values())))
    lines = [
        f"{stuck.communicator} #{stuck.seq}: {ranks_text(stuck.joined)} of "
        f"{len(stuck.joined) + len(stuck.missing)} joined "
        f"({some.op} at {some.site}, {some.where}, step {some.step})"
    ]
    where: dict[str, list[int]] = {}
    for rank in stuck.missing:
        last = evidence.last(rank)
        did = (
            f"; last op {last.record.site}: {last.record.describe()}, step {last.step}, {last.record.where}"
            if last
            else ""
        )
        where.setdefault(f"{WORDS[evidence.end(rank)]}{did}", []).append(rank)
    lines += [f"  missing {ranks_text(ranks)}: {text}" for text, ranks in where.items()]
    return lines


WORDS = {"finished": "ended", "blocked": "blocked", "raised": "raised", "died": "died"}


def _missing(evidence: Evidence, stuck: list[Stuck], rank: int, details: tuple[str, ...]) -> Finding:
    one = next(one for one in stuck if rank in one.missing)
    entry = min(one.joined.values(), key=evidence.position)
    wanted = call(entry)
    died = evidence.end(rank) == "died"
    return Finding(
        check="deadlock",
        klass="HANG:COLLECTIVE:DEAD_RANK" if died else "HANG:COLLECTIVE:MISSING_RANK",
        message=f"{ranks_text(one.joined)} wait{'s' if len(one.joined) == 1 else ''} in {wanted.site} "
        f"({wanted.op} on {one.communicator} #{one.seq}, "
        f"step {wanted.step}) for rank {rank}, which never joins ({WORDS[evidence.end(rank)]})",
        culprit=Culprit(rank, wanted.step, wanted.site, wanted.where),
        position=evidence.position(entry),
        details=details,
    )


def _left_by_the_dead(evidence: Evidence, rank: int, blocked: list[int]) -> Finding:
    """A rank died with work outstanding that it had issued: all had joined, and it never ends."""
    entry = evidence.last(rank)
    site, step, where = (entry.record.site, entry.step, entry.record.where) if entry else ("start", -1, "")
    return Finding(
        check="deadlock",
        klass="HANG:COLLECTIVE:DEAD_RANK",
        message=f"{ranks_text(blocked)} wait for work of rank {rank}, which died after {site} in step {step}",
        culprit=Culprit(rank, step, site, where),
        position=evidence.position(entry) if entry else (0, 0),
    )


def _cycle(evidence: Evidence, waits: dict[int, Stuck], details: tuple[str, ...]) -> Finding:
    path = [min(waits)]
    while True:
        following = waits[path[-1]].missing[0]
        if following in path:
            path = [*path[path.index(following) :], following]
            break
        path.append(following)
    entry = min((waits[rank].joined[rank] for rank in path), key=evidence.position)
    chain = " -> ".join(f"rank {rank} ({waits[rank].communicator} #{waits[rank].seq})" for rank in path)
    return Finding(
        check="deadlock",
        klass="HANG:COLLECTIVE:ORDER_ACROSS_GROUPS",
        message=f"ranks wait for each other in different groups: {chain}",
        culprit=None,
        position=evidence.position(entry),
        details=details,
    )
