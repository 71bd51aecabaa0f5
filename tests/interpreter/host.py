"""The steps of hosts, instruction by instruction.

If a host delays a plain call, the result equals that of a call at once whose work runs late. So the interpreter runs
plain calls at once. The same holds for an awaited call whose result is ready. `prompt` selects both kinds. All other
calls may take place at any time: polls, queries, reads, and every call of a rank that may die before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.interpreter import clock, graphs, meeting, sharing, threads
from tests.interpreter.device import outcome, waited
from tests.interpreter.language import STREAMS, Instruction, Script, Shape, View, unwrapped
from tests.interpreter.moves import goes_on, learns
from tests.interpreter.state import NOTHING, Call, Host, Item, Map, Part, Places, State, Token, elements

RETURN = ("stop",)
NEVER: frozenset[Token] = frozenset({("never",)})
"""The token of a receive from any source that has not taken a message yet. It never arrives."""


def current(script: Script, host: Host, rank: int) -> Instruction | None:
    """Returns the host's next instruction, or None if its program has ended. The return of a program is an instruction
    too, because a rank may die before it.
    """
    instructions = script.ranks[rank]
    if host.end:
        return None
    return instructions[host.pc] if host.pc < len(instructions) and instructions[host.pc][0] != "thread" else RETURN


def final(script: Script, state: State, rank: int) -> str:
    """Returns how a rank ends if no further step happens. A rank that waits in `idle` has finished and does not
    hang.
    """
    host = state.hosts[rank]
    views = [threads.turn(host, name) for name in threads.names(host)]
    ends = [view.end for view in views]
    if "died" in ends or "raised" in ends:
        return "died" if "died" in ends else "raised"
    rests = all(view.end or unwrapped(current(script, view, rank) or RETURN)[0] == "idle" for view in views)
    return "finished" if rests and not any(host.queues) else "blocked"


def gone(state: State, rank: int) -> bool:
    """Returns whether a rank has ended in any way. A rank that returned has ended once its streams are empty."""
    host = state.hosts[rank]
    return host.end in ("raised", "died") or (threads.over(host) and not any(host.queues))


def prompt(script: Script, state: State, rank: int) -> bool:
    """Returns whether the interpreter may take the host's next step at once without losing an outcome."""
    host = state.hosts[rank]
    instruction = current(script, host, rank)
    if instruction is None or rank in script.mortal or host.parked or clock.delay(script, rank, host) is not None:
        return False
    if instruction[0] == "odd" and not host.number % 2:
        return True
    what, *how = unwrapped(instruction)
    match what:
        case "poll" | "query" | "asks" | "put" | "look" | "within" | "sleep" | "capture" | "spawn" | "flag" | "ended":
            return False
        case "read":
            return host.asked is None
        case "alloc":
            return not any(after for _, after in host.freed)
        case "get" | "idle":
            return bool(state.boxes.get((rank, how[0])))
        case "sync":
            return not host.events[how[0]]
        case "await":
            return bool(host.works[how[0]].perhaps <= state.came.keys())
    return True


def step(script: Script, state: State, rank: int, mode: str = clock.EARLY) -> tuple[bool, State] | None:
    """Returns the next step of the current thread and whether it is free, or None if the thread cannot take one now."""
    host = state.hosts[rank]
    instruction = current(script, host, rank)
    if instruction is None:
        return None
    late = clock.delay(script, rank, host)
    if late is not None:
        return _sure(clock.held_up(state, rank, host, late, mode))
    if instruction[0] == "odd" and not host.number % 2:
        return False, goes_on(state, rank, host)
    what, *how = unwrapped(instruction)
    match what:
        case "within":
            return _sure(clock.within(state, rank, host, how[0], how[1], mode))
        case "sleep":
            return _sure(clock.waits(state, rank, host, how[0], mode))
        case "spawn" | "ended" | "set" | "flag" | "append" | "show":
            return _sure(threads.step(script, state, rank, what, how))
        case "put" | "look":
            return False, sharing.step(script, state, rank, what, how)
        case "kernel" if how[0] in sharing.DIRTY:
            return False, state.with_host(rank, host._replace(end="raised"))
        case "capture":
            still = not any(host.queues)
            return (False, goes_on(state, rank, graphs.captured(host, how[0], how[2]))) if still else None
        case "get" | "idle" | "poll":
            return _take(state, rank, what, how[0])
        case "await":
            call = host.works[how[0]]
            if not call.sure <= state.came.keys():
                return None
            free = not call.over and not call.perhaps <= state.came.keys()
            host = host._replace(works=host.works.minus(how[0]))
            got = outcome(script, rank, call, state.came)
            return free, learns(state.marked(*meeting.marks(call.op, call.shape)), rank, host, got)
        case "read":
            return _read(script, state, rank, how[0], how[1])
        case "asks":
            return False, learns(state, rank, host, how[0] not in host.works or host.works[how[0]].over)
        case "query":
            return False, learns(state, rank, host, not host.events[how[0]])
        case "sync":
            return None if host.events[how[0]] else (False, learns(state, rank, host, ()))
        case "post":
            return False, _post(state, rank, *how)
        case "watch":
            watched = state.watched | {(rank, how[0], how[1], host.pc)}
            return False, goes_on(state._replace(watched=watched), rank, host)
        case "start":
            return False, _start(script, state, rank, *how)
        case "stop":
            return False, state.with_host(rank, host._replace(end="returned"))
        case "raise":
            return False, state.with_host(rank, host._replace(end="raised"))
    if what == "device" and meeting.is_idle(how[2], how[3], script.members(how[0]), rank):
        return False, _pass(script, state, rank, host, how)
    return False, goes_on(state, rank, _put(script, host, rank, what, how))


def _pass(script: Script, state: State, rank: int, host: Host, how: list[Any]) -> State:
    """Steps over a device collective in which the rank has no elements: its stream does no work, and no rank waits for
    it.
    """
    kind, _, op, shape, _ = how
    host, call = _call(script, host, rank, kind, op, shape)
    return goes_on(state._replace(came=state.came.plus(call.token, ())), rank, host)


def _sure(state: State | None) -> tuple[bool, State] | None:
    return None if state is None else (False, state)


# ---- awaited calls


def _take(state: State, rank: int, what: str, box: str) -> tuple[bool, State] | None:
    there = state.boxes.get((rank, box), ())
    host = state.hosts[rank]
    if not there:
        return (False, learns(state, rank, host, None)) if what == "poll" else None
    rest = state._replace(boxes=state.boxes.plus((rank, box), there[1:]))
    return False, learns(rest, rank, host, there[0])


def _read(script: Script, state: State, rank: int, view: View, stream: str | None) -> tuple[bool, State] | None:
    host = state.hosts[rank]
    if host.asked is None:
        name = pool(script, rank, view[0]) if stream is None else stream
        return False, state.with_host(rank, host._replace(asked=host.pending(STREAMS.index(name))))
    if host.asked:
        return None
    values = elements(host.memory, view)
    known = tuple(value or 0 for value in values)
    return False, learns(state.marked(*["unwritten"] * (None in values)), rank, host._replace(asked=None), known)


# ---- plain calls that other ranks observe


def _post(state: State, rank: int, to: int, box: str) -> State:
    host = state.hosts[rank]
    way = (rank, to, box)
    flying = state.flying.plus(way, (*state.flying.get(way, ()), host.number + 1))
    return goes_on(state._replace(flying=flying), rank, host)


def _start(script: Script, state: State, rank: int, handle: str, kind: str, op: str, shape: Shape) -> State:
    if op == "any":
        call = Call(op, shape, kind, ("any", kind, rank, host_place(state, rank)), NEVER, NEVER)
        host = state.hosts[rank]
        return goes_on(state, rank, host._replace(works=host.works.plus(handle, call)))
    host, call = _call(script, state.hosts[rank], rank, kind, op, shape)
    size = meeting.brings(op, shape, script.members(kind), rank)
    came = state.came.plus(call.token, (host.number,) * size)
    return goes_on(state._replace(came=came), rank, host._replace(works=host.works.plus(handle, call)))


def finds_over(script: Script, state: State, rank: int) -> Iterator[State]:
    """Yields the state in which a query of a call returns True. `step` returns the state in which it returns False."""
    host = state.hosts[rank]
    instruction = current(script, host, rank)
    if instruction is None or instruction[0] != "asks" or instruction[1] not in host.works:
        return
    call = host.works[instruction[1]]
    if not call.over and call.sure <= state.came.keys():
        found = host._replace(works=host.works.plus(instruction[1], call._replace(over=True)))
        yield learns(state, rank, found, True)


def host_place(state: State, rank: int) -> int:
    return state.hosts[rank].pc


def takes(script: Script, state: State, rank: int) -> Iterator[State]:
    """Yields the states in which a receive from any source takes a message. The receives take messages in the order of
    their calls, and each may take the next sent message of any member.
    """
    host = state.hosts[rank]
    for kind in {call.kind for call in host.works.values() if call.sure == NEVER}:
        waiting = {handle: call for handle, call in host.works.items() if (call.kind, call.sure) == (kind, NEVER)}
        handle = min(waiting, key=lambda one: waiting[one].token[-1])
        for sender in script.members(kind):
            line = kind, sender, rank
            number = host.calls.get(("recv", *line), 0)
            sent = "send", *line, number
            if sent in state.came:
                call = waiting[handle]._replace(token=("recv", *line, number), sure=frozenset({sent}))
                call = call._replace(perhaps=call.sure)
                calls = host.calls.plus(("recv", *line), number + 1)
                took = host._replace(calls=calls, works=host.works.plus(handle, call))
                yield state.with_host(rank, took)._replace(came=state.came.plus(call.token, ()))


def _call(script: Script, host: Host, rank: int, kind: str, op: str, shape: Shape) -> tuple[Host, Call]:
    """Returns the next call on a communicator, and the host after that call."""
    if op in ("send", "recv"):
        ends = (rank, shape[1]) if op == "send" else (shape[1], rank)
        line: tuple[Any, ...] = (kind, *ends)
        number = host.calls.get((op, *line), 0)
        token, other = (op, *line, number), ("recv" if op == "send" else "send", *line, number)
        sure = frozenset({other}) if op == "recv" else frozenset()
        call = Call(op, shape, kind, token, sure, frozenset({other}))
        return host._replace(calls=host.calls.plus((op, *line), number + 1)), call
    members = script.members(kind)
    number = host.calls.get(kind, 0)
    everybody = {member: ("member", kind, number, member) for member in members}
    heard = frozenset(everybody[member] for member in meeting.sources(op, shape, members, rank))
    call = Call(op, shape, kind, everybody[rank], heard, frozenset(everybody.values()))
    return host._replace(calls=host.calls.plus(kind, number + 1)), call


# ---- plain calls that put work onto streams


def pool(script: Script, rank: int, buffer: str) -> str:
    """Returns the stream on which the script allocates the buffer."""
    (stream,) = (how[2] for how in script.ranks[rank] if how[:2] == ("alloc", buffer))
    return str(stream)


def _put(script: Script, host: Host, rank: int, what: str, how: list[Any]) -> Host:
    match what:
        case "alloc":
            buffer, stream, size = how[:3]
            mine = [freed for freed, after in host.freed if not after and pool(script, rank, freed) == stream]
            memory = host.memory.plus(buffer, (None,) * size)
            return host._replace(memory=memory, alias=host.alias.plus(buffer, frozenset(mine)))
        case "mark":
            return host._replace(marks=host.marks.plus(how[0], host.marks.get(how[0], frozenset()) | {how[1]}))
        case "free":
            kept = [host.pending(STREAMS.index(stream)) for stream in host.marks.get(how[0], ())]
            return host._replace(freed=(*host.freed, (how[0], NOTHING.union(*kept))))
        case "kernel":
            return _queue(host, how[1], (Part("fill", (), (how[2],), host.number),))
        case "fill":
            return _queue(host, how[0], (Part("fill", (), (how[1],), host.number),))
        case "copy":
            return _queue(host, how[0], (Part("copy", (how[1],), (how[2],)),))
        case "mix":
            return _queue(host, how[0], (Part("mix", (how[1], how[2]), (how[2],)),))
        case "record":
            return _record(script, host, rank, *how)
        case "replay":
            return _replay(host, *how)
        case "wait":
            return _queue(host, how[0], after=host.events[how[1]])
        case "join":
            return _queue(host, how[0], after=host.pending(STREAMS.index(how[1])))
        case "device":
            return _collective(script, host, rank, *how)
        case "transfer":
            return _transfers(script, host, rank, how[0], how[1], (how[2],))
        case "group":
            return _transfers(script, host, rank, *how)
    raise ValueError(what)


def _record(script: Script, host: Host, rank: int, event: str, stream: str) -> Host:
    """Records an event. If the script queries the event, the event is an item of its stream. So a query may still
    return False when the work before the record is done.
    """
    if any(unwrapped(how) == ("query", event) for how in script.ranks[rank]):
        host = _queue(host, stream, (Part("record", (), ()),))
    return host._replace(events=host.events.plus(event, host.pending(STREAMS.index(stream))))


def _replay(host: Host, name: str, stream: str) -> Host:
    queues, number, items = [*host.queues], STREAMS.index(stream), graphs.replayed(host, name)
    queues[number] = (*queues[number], *items)
    replays = host.replays.plus(name, frozenset(item.place for item in items))
    return waited(host._replace(queues=tuple(queues), replays=replays))


def _queue(
    host: Host, stream: str, parts: tuple[Part, ...] = (), after: Places = NOTHING, kind: str | None = None
) -> Host:
    queues, number = [*host.queues], STREAMS.index(stream)
    queues[number] = (*queues[number], Item(host.pc, parts, after, kind))
    return waited(host._replace(queues=tuple(queues)))


def _collective(
    script: Script, host: Host, rank: int, kind: str, stream: str, op: str, shape: Shape, views: tuple[View, ...]
) -> Host:
    host, call = _call(script, host, rank, kind, op, shape)
    written, read = views[0], views[-1]
    gives = op not in ("broadcast", "scatter") or rank == shape[1]
    gets = {"broadcast": rank != shape[-1], "reduce": rank == shape[-1], "gather": rank == shape[-1]}.get(op, True)
    reads, writes = (read,) if gives else (), (written,) if gets else ()
    return _queue(host, stream, (Part(op, reads, writes, 0, call),), kind=kind)


def _transfers(script: Script, host: Host, rank: int, kind: str, stream: str, transfers: tuple[Any, ...]) -> Host:
    parts = []
    for way, view, peer in transfers:
        host, call = _call(script, host, rank, kind, way, (view[2] - view[1], peer))
        reads, writes = ((view,), ()) if way == "send" else ((), (view,))
        parts.append(Part(way, reads, writes, 0, call))
    return _queue(host, stream, tuple(parts), kind=kind)


def born(rank: int) -> Host:
    """Returns a rank before its first step."""
    return Host(number=rank + 1, queues=((),) * len(STREAMS), memory=Map())
