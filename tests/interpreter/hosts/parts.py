"""Parts of host calls: their start, their end, and what an abort does to them.

Five rules, each from the contract:

* A part depends on the members whose elements it receives, and on itself. It ends at a moment at which all of these
  have made their call and none has left.
* It may wait for the other members too. Then it is `free` to end: it can, but need not.
* A rank leaves at some time after its abort, perhaps after time-outs, or never.
* A message that no receive has received when its sender leaves is lost.
* When a time-out passes, each part that could be over is over. So a part that is not over then waits for all members. A
  sleep orders nothing, as events in the background may be slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.interpreter import meeting
from tests.interpreter.hosts.language import Reading
from tests.interpreter.hosts.state import Host, Part, State
from tests.interpreter.language import Script, Shape
from tests.interpreter.state import Token

NEVER: frozenset[Token] = frozenset({("never",)})
"""What a receive from any source waits for until it has taken a message."""


def started(script: Script, state: State, rank: int, name: str, handle: str, kind: str, op: str, shape: Shape) -> State:
    """Returns the state after a call: the rank's part exists, and its token has come."""
    host = state.hosts[rank]
    members = script.members(kind)
    number = host.threads[name].number
    values = (number,) * meeting.brings(op, shape, members, rank)
    line, part = _part(host, rank, members, kind, op, shape)
    state = state.with_host(
        rank, calls=host.calls.plus(line, host.calls.get(line, 0) + 1), parts=host.parts.plus(handle, part)
    )
    return state if op == "any" else state._replace(came=state.came.plus(part.token, values))


def _part(
    host: Host, rank: int, members: tuple[int, ...], kind: str, op: str, shape: Shape
) -> tuple[tuple[Any, ...], Part]:
    """Returns the key under which the rank counts such calls, and the part of the next one."""
    line: tuple[Any, ...] = (kind,)
    if op == "any":
        line = (op, kind)
        token: Token = (*line, rank, host.calls.get(line, 0))
        return line, Part(op, shape, kind, token, frozenset({rank}), NEVER, NEVER)
    if op in ("send", "recv"):
        ends = (rank, shape[1]) if op == "send" else (shape[1], rank)
        line = (op, kind, *ends)
        number = host.calls.get(line, 0)
        other: Token = ("recv" if op == "send" else "send", kind, *ends, number)
        heard = {shape[1]} if op == "recv" else set()
        sure = frozenset({other}) if op == "recv" else frozenset()
        return line, Part(op, shape, kind, (*line, number), frozenset({rank, *heard}), sure, frozenset({other}))
    number = host.calls.get(line, 0)
    tokens: dict[int, Token] = {member: ("member", kind, number, member) for member in members}
    sources = meeting.sources(op, shape, members, rank)
    sure = frozenset(tokens[member] for member in sources)
    return line, Part(op, shape, kind, tokens[rank], sources | {rank}, sure, frozenset(tokens.values()))


def can_end(state: State, part: Part) -> bool:
    if part.over or not part.sure <= state.came.keys():
        return False
    return not state.left or not any((part.kind, source) in state.left for source in part.sources)


def is_due(state: State, part: Part) -> bool:
    """Returns whether the part has to end: it can, and all for whom it might wait have come."""
    return can_end(state, part) and part.perhaps <= state.came.keys()


def ends(reading: Reading, state: State, rank: int) -> Iterator[tuple[bool, State]]:
    """Yields the ends of the rank's parts that it looks at or awaits, each with whether it is free."""
    for handle, part in state.hosts[rank].parts.items():
        if (handle in reading.awaited or handle in reading.watched) and can_end(state, part):
            yield not is_due(state, part), state.with_part(rank, handle, over=True)


def prompt_ends(reading: Reading, state: State, rank: int) -> State:
    """Returns the state after the ends that come at once without losing an outcome. The rank does not look at these
    parts before it awaits them, and no abort can stop them.
    """
    for handle, part in state.hosts[rank].parts.items():
        if not part.over and part.kind not in reading.aborted and handle not in reading.watched and is_due(state, part):
            state = state.with_part(rank, handle, over=True)
    return state


def takes(script: Script, state: State, rank: int) -> Iterator[State]:
    """Yields the states in which a receive from any source takes a message. The receives take messages in the order of
    the calls, each the next one of any member that has not left. A message that is taken has come: no leaving of its
    sender stops the end.
    """
    host = state.hosts[rank]
    waiting = [(part.token, handle) for handle, part in host.parts.items() if part.sure == NEVER]
    for kind in {token[1] for token, _ in waiting}:
        handle = min((token[-1], handle) for token, handle in waiting if token[1] == kind)[1]
        for sender in script.members(str(kind)):
            line = ("recv", kind, sender, rank)
            number = host.calls.get(line, 0)
            sent = ("send", *line[1:], number)
            if sent in state.came and (kind, sender) not in state.left:
                taken = state.with_part(rank, handle, sure=frozenset({sent}), perhaps=frozenset({sent}))
                taken = taken.with_host(rank, calls=host.calls.plus(line, number + 1))
                yield taken._replace(came=taken.came.plus((*line, number), ()))


def leaves(state: State) -> Iterator[State]:
    for one in state.pending():
        yield state._replace(left=state.left | {one})


def result(script: Script, state: State, rank: int, part: Part) -> Any:
    """Returns what the await of a part learns."""
    if part.op in ("send", "barrier", "make"):
        return ()
    if part.op in ("recv", "any"):
        (sent,) = part.sure
        return state.came[sent] if part.op == "recv" else (sent[2], *state.came[sent])
    brought = {int(str(token[-1])): state.came[token] for token in {*part.sure, part.token}}
    return meeting.result(part.op, part.shape, script.members(part.kind), rank, brought)


def is_calm(reading: Reading, state: State) -> bool:
    """Returns whether a time-out may pass: nothing that takes no time is outstanding."""
    return all(
        free for rank, host in enumerate(state.hosts) if not host.ended for free, _ in ends(reading, state, rank)
    )


def settled(state: State) -> State:
    """Returns the state in which a time-out may pass: a part that has not ended, though it can, waits for all."""
    for rank, host in enumerate(state.hosts):
        for handle, part in host.parts.items():
            if can_end(state, part):
                state = state.with_part(rank, handle, sure=part.perhaps)
    return state
