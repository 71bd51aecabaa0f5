"""The steps of streams: each stream runs its items in order, and each item may start at any time.

A kernel is one step. A part of a collective or transfer has two steps: its arrival, which its peers can observe, and
its end. The part ends at the latest when all members for which it may wait have arrived.

A step is *free* if the stream does not have to take it. An example is the end of a send before its peer arrives.
Another is the end of a member before peers arrive whose elements it does not get. If a rank or a stream has only free
steps left, the execution may end there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from tests.interpreter import graphs, meeting
from tests.interpreter.language import MODULUS, Script
from tests.interpreter.meeting import Values
from tests.interpreter.state import Call, Host, Item, Map, Part, State, Thread, Token, elements


def reached(host: Host) -> Iterator[tuple[int, Item]]:
    """Yields each item at the head of its stream, with the stream, unless an earlier item of its communicator is still
    open.
    """
    open_calls = [item for queue in host.queues for item in queue if item.kind is not None]
    for stream, queue in enumerate(host.queues):
        if queue and queue[0].parts:
            item = queue[0]
            if not any(other.kind == item.kind and other.place < item.place for other in open_calls):
                yield stream, item


def steps(script: Script, state: State, rank: int) -> Iterator[tuple[bool, State]]:
    """Yields the possible next steps of the streams of a rank, each with whether it is free."""
    host = state.hosts[rank]
    for stream, item in reached(host):
        for number, part in enumerate(item.parts):
            name = (item.place, number)
            if name in host.over:
                continue
            if part.call is None:
                read = brings(host, part)
                yield False, _over(script, state, rank, stream, item, number, _kernel(part, read), None in read)
            elif name not in host.begun:
                if script.residency is None or len(host.begun - host.over) < script.residency:
                    came = state.came.plus(part.call.token, brings(host, part))
                    yield False, state.with_host(rank, host._replace(begun=host.begun | {name}))._replace(came=came)
            elif part.call.sure <= state.came.keys():
                got = outcome(script, rank, part.call, state.came)
                unwritten = None in got or None in state.came.get(part.call.token, ())
                free = not part.call.perhaps <= state.came.keys()
                yield free, _over(script, state, rank, stream, item, number, got, unwritten)


def outcome(script: Script, rank: int, call: Call, came: Mapping[Token, Any]) -> Values:
    """Returns the result of a call for a member once all required peers have arrived."""
    match call.op:
        case "send":
            return ()
        case "any":
            (sent,) = call.sure
            return (cast(int, sent[2]), *came[sent])
        case "recv":
            (sent,) = call.sure
            values: Values = came[sent]
            return values
        case _:
            brought = {cast(int, token[-1]): came[token] for token in {*call.sure, call.token}}
            return meeting.result(call.op, call.shape, script.members(call.kind), rank, brought)


def done(host: Host, stream: int) -> Host:
    """Removes the first item of the stream, and removes it from all sets of items that others wait for."""
    place = {host.queues[stream][0].place}
    queues = []
    for number, queue in enumerate(host.queues):
        rest = queue[1:] if number == stream else queue
        queues.append(tuple(item._replace(after=item.after - place) if item.after else item for item in rest))
    return host._replace(
        queues=tuple(queues),
        begun=frozenset(name for name in host.begun if name[0] not in place),
        over=frozenset(name for name in host.over if name[0] not in place),
        events=Map({event: after - place for event, after in host.events.items()}),
        freed=tuple((buffer, after - place) for buffer, after in host.freed),
        asked=None if host.asked is None else host.asked - place,
        parked=Map({name: _done(one, place) for name, one in host.parked.items()}) if host.parked else host.parked,
    )


def _done(thread: Thread, place: set[float]) -> Thread:
    return thread if thread.asked is None else thread._replace(asked=thread.asked - place)


def waited(host: Host) -> Host:
    """Removes waits at the heads of streams that have no pending item left to wait for."""
    going = True
    while going:
        going = False
        for stream, queue in enumerate(host.queues):
            if queue and not queue[0].parts and not queue[0].after:
                host, going = done(host, stream), True
    return host


def _over(
    script: Script, state: State, rank: int, stream: int, item: Item, number: int, values: Values, unwritten: bool
) -> State:
    host = state.hosts[rank]
    host = host._replace(
        memory=_written(host.memory, item.parts[number], values), over=host.over | {(item.place, number)}
    )
    if all((item.place, other) in host.over for other in range(len(item.parts))):
        host = waited(done(host, stream))
    marks, host = graphs.freshness(script, rank, host, item, number)
    return state.with_host(rank, host).marked(*marks, *["unwritten"] * unwritten)


def brings(host: Host, part: Part) -> Values:
    """Returns the elements that a part reads, as a flat tuple."""
    return tuple(value for view in part.reads for value in elements(host.memory, view))


def _written(memory: Map, part: Part, values: Values) -> Map:
    for buffer, first, end in part.writes:
        old = memory[buffer]
        memory = memory.plus(buffer, (*old[:first], *(value or 0 for value in values), *old[end:]))
    return memory


def _kernel(part: Part, read: Values) -> Values:
    match part.what:
        case "fill":
            return (part.number,) * sum(end - first for _, first, end in part.writes)
        case "mix":
            half = len(read) // 2
            pairs = zip(read[:half], read[half:], strict=True)
            return tuple((3 * (old or 0) + (new or 0)) % MODULUS for new, old in pairs)
    return read
