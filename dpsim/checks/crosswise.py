"""Crosswise: finds members that make the same collectives in a step, but in different orders.

If these calls agree in op, size and type, no other check finds the mistake. Each call pairs up with a different call of
the peer, and exchanges wrong data:

    step         4
    rank 0   all_reduce at sizes    all_reduce at flags
    rank 1   all_reduce at flags    all_reduce at sizes       ->   MISMATCH:COLLECTIVE:SITES

The check compares the lists of sites (names of calls in the source) of two members in a step. It reports lists that
have the same sites in different orders. This is a part of the ledger, which finds all other differences. The check
ignores pairs of sites that belong together:

* The two sides of a rooted collective: only roots call at one site, and only the others at the second. So the sites
  `give` and `take` swap if the root rotates.
* Two names of one call, between which members swap roles. A step proves this if one member calls only at the first
  site, and the other only at the second:

    step         3            4
    rank 0   busy         busy  idle
    rank 1   idle         idle  busy                          ->   nothing

If every step is crossed, swapped roles look like swapped calls, and the check reports them.
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import TypeAlias

from dpsim.checks.finding import Finding, fact
from dpsim.checks.run_index import Entry, RunIndex, by_step, call, split
from dpsim.contract.ops import COLLECTIVE_ROOT, SITE, STEP

Sites: TypeAlias = tuple[str, ...]


def crosswise(run_index: RunIndex, communicator: str, members: dict[int, list[Entry]]) -> Finding | None:
    """Returns a finding for the first step in which members of a communicator pair up crosswise, or None."""
    lists_of = dict.fromkeys(tuple([(raw[STEP], raw[SITE]) for _, _, raw in own]) for own in members.values())
    if all(set(one).isdisjoint(other) for one, other in combinations(lists_of, 2)):
        return None  # each two different lists have no site in common
    of_roots, of_others = roles(members)
    steps = {rank: by_step(entries) for rank, entries in members.items()}
    for step in sorted({step for own in steps.values() for step in own}):
        lists: dict[Sites, list[int]] = {}
        for rank, own in steps.items():
            if step in own:
                lists.setdefault(_sites(own[step]), []).append(rank)
        for one, other in combinations(lists, 2):
            if sorted(one) != sorted(other):
                continue
            for pair in zip(steps[lists[one][0]][step], steps[lists[other][0]][step], strict=True):
                sites = {entry.raw[SITE]: entry.rank == entry.raw[COLLECTIVE_ROOT] for entry in pair}
                apart = {site for site, is_root in sites.items() if site not in (of_others if is_root else of_roots)}
                by_role = any(sites.values()) and len(apart) == 2
                if len(sites) == 2 and not by_role and not are_one_call(steps, *sites):
                    before = {_sites(own) for all_own in steps.values() for when, own in all_own.items() if when < step}
                    return _finding(run_index, communicator, pair, lists, before)
    return None


def roles(members: dict[int, list[Entry]]) -> tuple[set[str], set[str]]:
    """Returns the sites at which roots make rooted calls, and the sites at which the other members do."""
    roles: tuple[set[str], set[str]] = set(), set()
    for rank, entries in members.items():
        for entry in entries:
            root = entry.raw[COLLECTIVE_ROOT]
            if root is not None:
                roles[root != rank].add(entry.raw[SITE])
    return roles


def are_one_call(steps: dict[int, dict[int, list[Entry]]], one: str, other: str) -> bool:
    """Returns whether two sites pair up in a step in which neither member calls at both. Then they are two names of one
    call.
    """
    by_ranks = [{step: _sites(entries) for step, entries in own.items()} for own in steps.values()]
    unlike = {tuple(own.items()): own for own in by_ranks}  # members with equal lists always pair up at one site
    for mine, theirs in permutations(unlike.values(), 2):
        for step in sorted(mine.keys() & theirs.keys()):
            first, second = mine[step], theirs[step]
            apart = len(first) == len(second) and one not in second and other not in first
            if apart and (one, other) in zip(first, second, strict=True):
                return True
    return False


def _sites(entries: list[Entry]) -> Sites:
    return tuple([entry.raw[SITE] for entry in entries])


def _finding(
    run_index: RunIndex, communicator: str, pair: tuple[Entry, Entry], lists: dict[Sites, list[int]], before: set[Sites]
) -> Finding:
    """Returns the finding. The culprit is the member whose list differs from all others, or from all lists in `before`.

    `before` contains the lists of earlier steps.
    """
    parted = split({rank: sites for sites, ranks in lists.items() for rank in ranks})
    own = {entry.rank: next(sites for sites, ranks in lists.items() if entry.rank in ranks) for entry in pair}
    odd = [entry for entry in pair if parted and entry.rank in parted[1]]
    odd = odd if len(odd) == 1 else [entry for entry in pair if own[entry.rank] not in before]
    first, second = (call(entry) for entry in pair)
    culprit = odd[0] if len(odd) == 1 else None
    return Finding(
        check="ledger",
        klass="MISMATCH:COLLECTIVE:SITES",
        message=fact(
            "crosswise",
            communicator=communicator,
            step=first.step,
            first=first,
            first_by=tuple(lists[own[pair[0].rank]]),
            second=second,
            second_by=tuple(lists[own[pair[1].rank]]),
        ),
        culprit=run_index.culprit(culprit) if culprit else None,
        position=run_index.position(pair[0]),
        details=tuple(
            fact("side", ranks=tuple(ranks), step=None, calls=tuple(sites)) for sites, ranks in lists.items()
        ),
    )
