"""Error messages for mistakes that Python would report with names which the user does not know.

    rank.send(1, "box", 4)          # send of a Rank lacks 'site'; write send(to, mailbox, message, site)
    rank.stpe = 3                   # a Rank has no attribute 'stpe'; did you mean 'step'? ...
    await asyncio.sleep(1)          # the protocol awaited something that is not of its Rank ...

Python's message names the backend's class (SimRank), while the user knows the class of the contract (Rank), and two
backends would report one mistake differently. So a journal that records an error rewrites its message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import Parameter, Signature, signature

from dpsim.contract.interface import (
    Buffer,
    DeviceCommunicator,
    Event,
    Flag,
    Graph,
    HostCommunicator,
    HostWork,
    Mailbox,
    Rank,
    Store,
    Stream,
    Thread,
)
from dpsim.contract.words import did_you_mean, short

LONGEST = 2_000
"""Characters of an error that a journal keeps."""

FOREIGN = (
    "the protocol awaited something that is not of its Rank (a call of asyncio, perhaps); await only calls of "
    "dpsim.contract.interface: rank.sleep in place of asyncio.sleep"
)

PLAIN = (
    "a call that only sends is plain (a launch, a recorded event, a device collective, a replay, a message): "
    "write it without await"
)

CONTRACT: tuple[type, ...] = (
    Buffer,
    DeviceCommunicator,
    Event,
    Flag,
    Graph,
    HostCommunicator,
    HostWork,
    Mailbox,
    Rank,
    Store,
    Stream,
    Thread,
)

_AWAITED = re.compile(r"object (\w+) can't be used in 'await' expression|'(\w+)' object can't be awaited")
"""The message of Python up to 3.13, and that of 3.14."""

_ATTRIBUTE = re.compile(r"'(\w+)' object (has no attribute|attribute) '(\w+)'")


_ARGUMENTS = re.compile(r"(\w+)\.(\w+)\(\) (missing|takes|got) (.*)")


class ForeignAwait(BaseException):
    """A BaseException: a program that catches Exception and awaits again would never end."""

    def __init__(self) -> None:
        super().__init__(FOREIGN)


def said(error: BaseException) -> str:
    """Returns the message of a program's error in at most LONGEST characters, with the contract's names."""
    return short(_words(error), LONGEST)


def _words(error: BaseException) -> str:
    message = " ".join(str(error).split())
    if isinstance(error, RuntimeError) and message == "no running event loop":
        return f"{message}: {FOREIGN}"
    awaited = _AWAITED.match(message) if isinstance(error, TypeError) else None
    if awaited is not None:
        what = awaited[1] or awaited[2]
        given = _of_contract(what)
        if given is not None or what == "NoneType":
            return f"{'nothing' if given is None else a_or_an(given)} was awaited; {PLAIN}"
    if isinstance(error, TypeError) and (called := _ARGUMENTS.match(message)) is not None:
        return _arguments(*called.groups()) or message
    match = _ATTRIBUTE.match(message) if isinstance(error, AttributeError) else None
    kind = _of_contract(match[1]) if match is not None else None
    if match is None or kind is None:
        return message
    if match[2] == "attribute":
        return f"the attribute {match[3]!r} of {a_or_an(kind)} cannot be replaced"
    there_are = [name for name in dir(kind) if not name.startswith("_")]
    return (
        f"{a_or_an(kind)} has no attribute {match[3]!r}{did_you_mean(match[3], there_are) or '.'} A protocol can add "
        "none; keep what is its own in local variables of run"
    )


def _arguments(name: str, method: str, how: str, rest: str) -> str:
    kind = _of_contract(name)
    call = getattr(kind, method, None)
    if kind is None or call is None:
        return ""
    parameters = [one.replace(annotation=Parameter.empty) for one in list(signature(call).parameters.values())[1:]]
    form = f"{method}{Signature(parameters)}"
    if how == "missing":
        wrong = "lacks " + " and ".join(re.findall(r"'\w+'", rest))
    elif how == "takes":
        wrong = "has too many arguments without a name"
    else:
        wrong = rest.replace("an unexpected keyword argument", "has no argument").replace("got ", "")
    named = "; what stands behind * needs its name" if "*, " in form and how == "takes" else ""
    return f"{method} of {a_or_an(kind)} {wrong}; write {form}{named}"


def a_or_an(kind: type) -> str:
    """Returns the name of a class with its article.

    >>> a_or_an(Rank), a_or_an(Event)
    ('a Rank', 'an Event')
    """
    return f"a{'n' if kind is Event else ''} {kind.__name__}"


def _of_contract(name: str) -> type | None:
    return next((kind for kind in CONTRACT for one in _kinds(kind) if one.__name__ == name), None)


def _kinds(kind: type) -> Iterator[type]:
    yield kind
    derived: list[type] = kind.__subclasses__()
    for one in derived:
        yield from _kinds(one)
