"""All executions of a script that the contract allows: their outcomes, and is there a race in any.

    allowed = interpret(script)
    allowed.outcomes        # for each rank how it ended, and what each awaited call returned
    allowed.bad             # some execution has a race, or reads unwritten memory: then outcomes mean nothing

Hosts run, streams work, messages arrive and ranks die one step at a time, in every order. Steps that need not be taken
are free (see `device`): where no other is left the execution may end. Nothing else is left out, and each state is
looked at once.

A rank that dies takes the work of its streams with it, as far as they had not reached it. What it had posted arrives.
If it had reached a collective that no member has left, it takes all its peers with it or none. The contract leaves open
what becomes of a transfer, of a collective that some members have left, or of peers that get nothing from it.
`generous` lets these be lost, too.
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
    """`races`: in some execution both accesses are made; `doubtful`: one is not, as its stream stands without end.
    `some` and `always`: marks (`State`) of some executions, and of all. `standing`: in some execution a stream stands
    without end before work on memory. `complete`: the limit was not met.
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
        """What one or the other allows."""
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
    """Everything that may happen, or what the first `limit` states show. `mode`: a reading of time (`clock`)."""
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
    """What a state shows. `last`: nothing has to happen any more."""
    allowed.some |= state.marks
    allowed.doubtful |= {*memory.races(script, state)} - allowed.races
    if last:
        allowed.standing |= any(memory.standing(one) for one in state.hosts)
        allowed.races |= {race for race in allowed.doubtful if memory.took_place(state, race)}
        allowed.doubtful -= allowed.races
        allowed.always = state.marks if allowed.always is None else allowed.always & state.marks
        if not deaths or state.watched:  # who stands still need not die, and who watches it knows
            ends = [host.final(script, state, rank) for rank in range(script.size)]
            allowed.outcomes.add(told([(end, one.learned) for end, one in zip(ends, state.hosts, strict=True)], script))


def told(ranks: Sequence[tuple[str, Noted]], script: Script) -> Outcome:
    """An outcome. Of a rank that may die it says only that: no other rank knows what it learned last."""
    return tuple(
        ("died", ()) if rank in script.mortal and end != "raised" else (end, noted)
        for rank, (end, noted) in enumerate(ranks)
    )


def _settled(script: Script, state: State) -> State:
    """Prompt steps are taken at once, and messages for which no rank will look are gone."""
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
    """Whether a rank may take something out of a mailbox later."""
    one = state.hosts[rank]
    threaded = ("thread",) in (how[:1] for how in script.ranks[rank])
    rest = () if one.end and not threaded else script.ranks[rank][0 if threaded else one.pc :]
    return any(unwrapped(how)[0] in TAKES and unwrapped(how)[1] == box for how in rest)


def _steps(script: Script, state: State, mode: str) -> Iterator[tuple[bool, State]]:
    """Every step that can be taken, and whether it is free."""
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
    """Those of each thread of a rank."""
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
    """A call that starts a thread is one step with the Python behind it."""
    return threads.rested(script, state, rank, place) if state.hosts[rank].parked else state


def _deaths(script: Script, state: State, generous: bool) -> Iterator[State]:
    """The same with one rank less, and without what may be lost with it."""
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
    """Tokens that may be lost with a rank."""
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
    """Whether all others get elements from a member of this collective, so that they wait for it for sure."""
    members = script.members(call.kind) if call.token[0] == "member" else ()
    return all(rank in meeting.sources(call.op, call.shape, members, other) for other in members if other != rank)


def _waiting(state: State) -> set[Token]:
    return {call.token for one in state.hosts for call in one.open_calls()}


def _peers(token: Token, state: State) -> set[Token]:
    """Tokens of the others that have reached the same."""
    if token[0] == "member":
        return {other for other in state.came if other[:3] == token[:3] and other != token}
    return {("recv" if token[0] == "send" else "send", *token[1:])} & state.came.keys()


def _matters(script: Script, token: Token, state: State) -> bool:
    """Whether anybody may still need a token: who has not come yet, or is not through."""
    peers = _peers(token, state)
    everybody = len(script.members(str(token[1]))) - 1 if token[0] == "member" else 1
    return len(peers) < everybody or bool(peers & _waiting(state))
