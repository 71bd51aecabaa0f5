"""Visits all executions of a script that the contract allows, and collects their outcomes and races.

    allowed = interpret(script)
    allowed.outcomes        # for each rank how it ended, and what each awaited call returned
    allowed.bad             # some execution has a race or reads unwritten memory, so outcomes have no meaning

Hosts run, streams work, messages arrive and ranks die, one step at a time and in every order. A free step is one that
the machine does not have to take (see `device`). If only free steps are left, the execution may end. Otherwise the
interpreter omits no step, and it visits each state once.

When a rank dies, the work on its streams that has not started is lost. Messages that it has sent still arrive. If the
rank has arrived at a collective that no member has left, then either all its peers are stuck or none is. The contract
leaves three cases open: a transfer, a collective that some members have left, and peers that get nothing from the dead
rank. With `generous` the dead rank's arrival may be lost in these cases too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias

from tests.interpreter import clock, device, host, meeting, memory, threads
from tests.interpreter.language import GONE, STREAMS, Script, unwrapped
from tests.interpreter.state import Call, Map, State, Token

TAKES = ("poll", "get", "idle", "within")

Noted: TypeAlias = tuple[tuple[int, Any], ...]
Outcome: TypeAlias = tuple[tuple[str, Noted], ...]


@dataclass
class Allowed:
    """What the contract allows for a script.

    `races`: pairs of accesses that race, both made in some execution. `doubtful`: races of which one access is not
    made, because its stream waits without end. `some` and `always`: marks (see `State`) of some executions, and of all.
    `standing`: in some execution a stream with work on memory waits without end. `complete`: the search ended before
    its limit.
    """

    outcomes: set[Outcome] = field(default_factory=set)
    races: set[memory.Race] = field(default_factory=set)
    doubtful: set[memory.Race] = field(default_factory=set)
    some: frozenset[str] = frozenset()
    always: frozenset[str] | None = None
    standing: bool = False
    complete: bool = False
    states: int = 0

    @property
    def unwritten(self) -> bool:
        return "unwritten" in self.some

    @property
    def bad(self) -> bool:
        return bool(self.races) or bool(self.some & {"unwritten", "stale"})

    def joined(self, other: Allowed) -> Allowed:
        """Returns what either of two results allows."""
        both = Allowed(
            self.outcomes | other.outcomes,
            self.races | other.races,
            (self.doubtful | other.doubtful) - self.races - other.races,
            self.some | other.some,
            (self.always or frozenset()) & (other.always or frozenset()),
            self.standing or other.standing,
            self.complete and other.complete,
            self.states + other.states,
        )
        return both


def interpret(script: Script, limit: int = 20_000, generous: bool = False, mode: str = clock.PATIENT) -> Allowed:
    """Returns all outcomes, or those of the first `limit` states. `mode`: a reading of time (see `clock`)."""
    allowed = Allowed()
    first = _settled(script, State(tuple(host.born(rank) for rank in range(script.size))))
    known, todo = {first}, [first]
    while todo and len(known) <= limit:
        state = todo.pop()
        following, deaths = [*_steps(script, state, mode)], [*_deaths(script, state, generous)]
        last = all(free for free, _ in following)
        after = clock.later(script, state) if last else None
        if after is not None:
            following.append((False, after))
        _note(script, state, allowed, last and after is None, bool(deaths))
        new = {_settled(script, after) for after in [*(after for _, after in following), *deaths]} - known
        known |= new
        todo += new
    allowed.states = len(known)
    allowed.complete = not todo
    return allowed


def _note(script: Script, state: State, allowed: Allowed, last: bool, deaths: bool) -> None:
    """Adds what a state shows to `allowed`. `last`: the execution may end in this state."""
    allowed.some |= state.marks
    allowed.doubtful |= {*memory.races(script, state)} - allowed.races
    if last:
        allowed.standing |= any(memory.standing(one) for one in state.hosts)
        allowed.races |= {race for race in allowed.doubtful if memory.took_place(state, race)}
        allowed.doubtful -= allowed.races
        allowed.always = state.marks if allowed.always is None else allowed.always & state.marks
        if not deaths or state.watched:  # a stuck rank need not die, and a watcher observes a death
            ends = [host.final(script, state, rank) for rank in range(script.size)]
            allowed.outcomes.add(
                outcome_for_peers([(end, one.learned) for end, one in zip(ends, state.hosts, strict=True)], script)
            )


def outcome_for_peers(ranks: Sequence[tuple[str, Noted]], script: Script) -> Outcome:
    """Returns an outcome. It reports a mortal rank only as died, because no other rank knows the last result of its
    calls.
    """
    return tuple(
        ("died", ()) if rank in script.mortal and end != "raised" else (end, noted)
        for rank, (end, noted) in enumerate(ranks)
    )


def _settled(script: Script, state: State) -> State:
    """Takes all prompt steps (see `host.prompt`), and drops messages that no rank can receive any more."""
    going = True
    while going:
        going = False
        for rank in range(script.size):
            while host.prompt(script, state, rank):
                taken = host.step(script, state, rank)
                assert taken is not None
                state, going = taken[1], True
    flying = {way: mail for way, mail in state.flying.items() if _looks(script, state, way[1], way[2])}
    watched = frozenset(one for one in state.watched if _looks(script, state, one[0], one[2]))
    return state._replace(flying=Map(flying), watched=watched)


def _looks(script: Script, state: State, rank: int, box: str) -> bool:
    """Returns whether a rank may later take a message out of a mailbox."""
    one = state.hosts[rank]
    threaded = ("thread",) in (how[:1] for how in script.ranks[rank])
    rest = () if one.end and not threaded else script.ranks[rank][0 if threaded else one.pc :]
    return any(unwrapped(how)[0] in TAKES and unwrapped(how)[1] == box for how in rest)


def _steps(script: Script, state: State, mode: str) -> Iterator[tuple[bool, State]]:
    """Yields every possible step, each with whether it is free."""
    for rank, one in enumerate(state.hosts):
        if one.end != "died":
            yield from device.steps(script, state, rank)
            yield from _host_steps(script, state, rank, mode)
            yield from ((False, found) for found in host.finds_over(script, state, rank))
            yield from ((False, taken) for taken in host.takes(script, state, rank))
    for one_watch in state.watched:
        rank, peer, name, _ = one_watch
        if host.gone(state, peer) and (peer, rank, name) not in state.flying:
            told = state.boxes.plus((rank, name), (*state.boxes.get((rank, name), ()), GONE + peer))
            yield False, state._replace(watched=state.watched - {one_watch}, boxes=told)
    for way, mail in state.flying.items():
        box = way[1:]
        flying = state.flying.plus(way, mail[1:]) if mail[1:] else state.flying.minus(way)
        arrived = state.boxes.plus(box, (*state.boxes.get(box, ()), mail[0]))
        yield False, state._replace(flying=flying, boxes=arrived)


def _host_steps(script: Script, state: State, rank: int, mode: str) -> Iterator[tuple[bool, State]]:
    """Returns the possible steps of all threads of a rank, each with whether it is free."""
    one = state.hosts[rank]
    if not one.parked:
        taken = host.step(script, state, rank, mode)
        return iter(() if taken is None else ((taken[0], _in_python(script, taken[1], rank, one.pc)),))
    ready = []
    for name in threads.names(one):
        taken = host.step(script, state.with_host(rank, threads.turn(one, name)), rank, mode)
        if taken is not None:
            ready.append((name, threads.turn(one, name).pc, taken))
    marks = ["unordered"] * threads.unordered(script, state, rank, [name for name, *_ in ready])
    return ((free, threads.rested(script, after, rank, at).marked(*marks)) for _, at, (free, after) in ready)


def _in_python(script: Script, state: State, rank: int, place: int) -> State:
    """Adds to a step that starts a thread the Python code that follows the call."""
    return threads.rested(script, state, rank, place) if state.hosts[rank].parked else state


def _deaths(script: Script, state: State, generous: bool) -> Iterator[State]:
    """Yields the states after the death of one mortal rank, with all combinations of what may be lost with it."""
    for rank in script.mortal:
        one = state.hosts[rank]
        if one.end in ("raised", "died") or (threads.over(one) and not any(one.queues)):
            continue
        dead = one._replace(
            end="died",
            parked=Map(),
            queues=((),) * len(STREAMS),
            begun=frozenset(),
            over=frozenset(),
            asked=None,
            works=Map(),
        )
        after = state.with_host(rank, dead)
        losses = [token for token in _losses(script, rank, state, generous) if _matters(script, token, after)]
        for number in range(len(losses) + 1):
            for lost in combinations(losses, number):
                yield after._replace(came=Map({token: what for token, what in state.came.items() if token not in lost}))


def _losses(script: Script, rank: int, state: State, generous: bool) -> Iterator[Token]:
    """Yields the tokens (arrivals at calls) of a rank that may be lost when it dies."""
    mine, waiting = {call.token: call for call in state.hosts[rank].open_calls()}, _waiting(state)
    for token in state.came:
        if token[0] == "member" and token[-1] == rank:
            call = mine.get(token)
            needed = call is not None and _needed_by_all(script, call, rank)
            if generous or (needed and _peers(token, state) <= waiting):
                yield token
        elif generous and rank == {"send": token[2], "recv": token[3]}.get(str(token[0])):
            yield token


def _needed_by_all(script: Script, call: Call, rank: int) -> bool:
    """Returns whether all other members get elements from this member, so that they are sure to wait for it."""
    members = script.members(call.kind) if call.token[0] == "member" else ()
    return all(rank in meeting.sources(call.op, call.shape, members, other) for other in members if other != rank)


def _waiting(state: State) -> set[Token]:
    return {call.token for one in state.hosts for call in one.open_calls()}


def _peers(token: Token, state: State) -> set[Token]:
    """Returns the tokens of the peers that have arrived at the same collective or transfer."""
    if token[0] == "member":
        return {other for other in state.came if other[:3] == token[:3] and other != token}
    return {("recv" if token[0] == "send" else "send", *token[1:])} & state.came.keys()


def _matters(script: Script, token: Token, state: State) -> bool:
    """Returns whether a peer may still need a token: because it has not arrived, or has not ended its call."""
    peers = _peers(token, state)
    everybody = len(script.members(str(token[1]))) - 1 if token[0] == "member" else 1
    return len(peers) < everybody or bool(peers & _waiting(state))
