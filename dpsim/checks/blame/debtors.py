"""Debtors: the actors that may owe a message or key to the actor that waits for it.

    ranks 1, 2 set keys k0, k1, ranks 0, 2 wait for k2                                             ->   rank 1
    no rank ever sent to the mailbox                                              ->   all ranks that do not wait there
    rank 0 alone ever sent to mailboxes of this name, also to its own, and waits  ->   no other rank is named

No record says who should have sent a message. Those owe it that sent one to this actor before. If there are none, these
follow: the counterparts of such senders, those that send to mailboxes of this name, and all others. An actor that waits
for the same key does not owe it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpsim.checks.blame.chain import ActorState
from dpsim.checks.blame.wake_counts import PendingWait
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.thread_records import is_idle
from dpsim.contract.ops import KIND, POST_MAILBOX, POST_TO, STORE_HOW, STORE_KEY, TAKE_MAILBOX, RawRecord
from dpsim.contract.words import ranks_text


def wait_of(own: ActorState) -> PendingWait | None:
    """Returns the wait of an actor at a mailbox or for a key; None if it is blocked elsewhere."""
    if own.state not in ("waits", "idle") or own.since is None or "#" in own.what:
        return None
    raw = own.since.raw
    return PendingWait(own.since) if raw[KIND] == "take" or (raw[KIND] == "store" and raw[STORE_HOW] == "get") else None


def debtors(run_index: RunIndex, wait: PendingWait, known: Sequence[int]) -> tuple[int, ...]:
    """Returns the actors that probably owe the wake. `known` are those that the messages of the run suggest.

    Without such messages, an idle get owes its wait to no actor: the program allows it to wait without end.
    """
    if not known and is_idle(wait.entry.raw):
        return ()
    actors = [one for one in range(len(run_index.run.journals)) if one != wait.entry.rank]
    free = [one for one in actors if not _waits_alike(run_index, wait, one)] or actors
    if wait.entry.raw[KIND] == "take":
        ranks = any(run_index.world.size > one for one in free)  # if all ranks wait, one of them may owe it
        return _of_message(run_index, wait, known) or tuple(free if ranks else actors)
    return _of_key(run_index, wait, [one for one in known if one in free], free) or tuple(free)


def _of_message(run_index: RunIndex, wait: PendingWait, known: Sequence[int]) -> tuple[int, ...]:
    journals = run_index.run.journals
    direct = tuple(actor for actor in known if any(map(wait.sent_by, journals[actor])))
    alike = tuple(actor for actor in known if any(_to_such_a_box(raw, wait.entry) for raw in journals[actor]))
    return direct or _counterparts(run_index, wait) or alike or tuple(known)


def owed(run_index: RunIndex, wait: PendingWait, actors: Sequence[int], what: str = "") -> str:
    """Returns in words who may owe the wake. `what` is the message or key, if the text has to name it."""
    if only_itself(run_index, wait):
        return f"only rank {wait.entry.rank} itself sent to {wait.entry.raw[TAKE_MAILBOX]}"
    return f"{ranks_text(actors)} may owe it{what}"


def only_itself(run_index: RunIndex, wait: PendingWait) -> bool:
    """Returns whether an actor waits at its mailbox, and all posts to mailboxes of this name, also to its own, are from
    this actor. Then the records do not suggest that another actor owes it a message.
    """
    if wait.entry.raw[KIND] != "take":
        return False
    journals = enumerate(run_index.run.journals)
    posts = [(actor, raw) for actor, own in journals for raw in own if _to_such_a_box(raw, wait.entry)]
    return all(actor == wait.entry.rank for actor, _ in posts) and any(wait.sent_by(raw) for _, raw in posts)


def _of_key(run_index: RunIndex, wait: PendingWait, known: Iterable[int], free: Iterable[int]) -> tuple[int, ...]:
    """Returns those that set keys which differ only in their numbers. If each of them set one, another one owes it."""
    sets = {
        actor: {raw[STORE_KEY] for raw in run_index.run.journals[actor] if wait.sent_by(raw)}
        for actor in range(len(run_index.run.journals))
    }
    setters = tuple(one for one in free if sets[one])
    keys = set[str]().union(*sets.values())
    if len(keys) > 1 and any(len(own) > 1 for own in sets.values()):
        return setters
    if len(keys) > 1:
        return tuple(known) or setters
    return tuple(dict.fromkeys([*known, *setters]))


def _waits_alike(run_index: RunIndex, wait: PendingWait, actor: int) -> bool:
    own = [one for one in run_index.living(actor) if one.raw[KIND] == wait.entry.raw[KIND]]
    field = TAKE_MAILBOX if wait.entry.raw[KIND] == "take" else STORE_KEY
    return run_index.end(actor) == "blocked" and any(one.raw[field] == wait.entry.raw[field] for one in own)


def _counterparts(run_index: RunIndex, wait: PendingWait) -> tuple[int, ...]:
    """Returns the actors that correspond to those which post to mailboxes of this name on other ranks.

    Rank 0 posts to rank 1. Ranks 0, 2 form a group, and ranks 1, 3 form one of the same kind. So rank 2 should post to
    rank 3. Empty if an actor ever posted to the mailbox that the waiting actor reads, or to two mailboxes of this name.
    """
    own = wait.entry
    if own.raw[KIND] != "take":
        return ()
    journals = enumerate(run_index.run.journals)
    posts = [(actor, raw[POST_TO]) for actor, one in journals for raw in one if _to_such_a_box(raw, own)]
    receivers = {actor: {to for by, to in posts if by == actor} for actor, _ in posts}
    if any(to == own.rank for _, to in posts) or any(len(some) > 1 for some in receivers.values()):
        return ()
    found = dict[int, None]()
    for actor, to in dict.fromkeys(posts):
        for spec in run_index.world.communicators:
            if to in spec.ranks and own.rank in spec.ranks:
                alike = [one.ranks for one in run_index.world.communicators if one.kind == spec.kind and one != spec]
                places = spec.ranks.index(to), spec.ranks.index(own.rank)
                found |= {
                    ranks[places[1]]: None
                    for ranks in alike
                    if len(ranks) == len(spec.ranks) and ranks[places[0]] == actor and own.rank not in ranks
                }
    return tuple(found)


def _to_such_a_box(raw: RawRecord, wait: Entry) -> bool:
    return bool(raw[KIND] == "post" and raw[POST_MAILBOX] == wait.raw[TAKE_MAILBOX])
