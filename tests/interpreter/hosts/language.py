"""Scripts of hosts: the instructions about messages, host calls, aborts, threads and stores.

A script is a `tests.interpreter.language.Script`. Its numbers, handles and places mean the same here. This language
has the instructions of that file that concern hosts: post, watch, poll, get, idle, within, sleep, start, await, asks.
It also has spawn, ended, thread, set, flag, odd, stop and raise. The others are

    ("abort", kind)                     aborts that communicator
    ("until", handle, ms)               waits for the call, at most ms (`HostWork.within`)
    ("open", store, port)               listens; learns whether the port was free
    ("enter", store, port, ms)           joins the listener, within ms or without a limit (None); learns whether it did
    ("put", store, key)                 sets the key to the number
    ("fetch", store, key, ms)           gets the value of the key
    ("add", store, key, amount)  ("swap", store, key, expected, desired)  ("drop", store, key)  ("close", store)

A call that raises Aborted teaches the number ABORTED. If no call was started for a handle, or no store has a name, the
instructions with this name do nothing.

    Script(((("abort", "h"), ("start", "w", "h", "barrier", ())), ()), hosts=(("h", (0, 1)),))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.interpreter.language import Instruction, Script, unwrapped

ABORTED = -1

LIMITED = ("within", "until", "enter", "fetch", "sleep")
"""Instructions with a time, their last word: None for no limit."""


class Reading(NamedTuple):
    """A script, with what the interpreter has to know of it.

    `exact`: sleeps end after their time, and not at any time.
    `aborted`: communicators that some rank aborts. `awaited`, `watched`: handles that a rank awaits, and those that it
    looks at. `ordered`: (rank, box) of the mailboxes without a choice: one rank sends to it, and the receiver waits for
    each message without a limit.
    """

    script: Script
    exact: bool
    aborted: frozenset[str]
    awaited: frozenset[str]
    watched: frozenset[str]
    ordered: frozenset[tuple[int, str]]

    @classmethod
    def of(cls, script: Script, exact: bool) -> Reading:
        everything = [*said(script)]

        def names(*whats: str) -> frozenset[str]:
            return frozenset(how[1] for how in everything if how[0] in whats)

        return cls(
            script,
            exact,
            names("abort"),
            names("await"),
            names("asks", "until"),
            frozenset(() if script.loses_mail else _ordered(script)),
        )


def _ordered(script: Script) -> Iterator[tuple[int, str]]:
    ranks = [[*map(unwrapped, rank)] for rank in script.ranks]
    for rank, mine in enumerate(ranks):
        looked = {how[2 if how[0] == "watch" else 1] for how in mine if how[0] in ("poll", "within", "watch")}
        for box in {how[1] for how in mine if how[0] in ("get", "idle")} - looked:
            if sum(("post", rank, box) in other for other in ranks) == 1:
                yield rank, box


def said(script: Script) -> Iterator[Instruction]:
    """Yields all instructions of all ranks, without their conditions."""
    for rank in script.ranks:
        yield from map(unwrapped, rank)


def uses(script: Script, *whats: str) -> bool:
    return any(how[0] in whats for how in said(script))


def timed_out(script: Script) -> bool:
    """Returns whether some call has a time-out above 0."""
    return any(how[0] in LIMITED and how[0] != "sleep" and how[-1] for how in said(script))
