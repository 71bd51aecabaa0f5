"""A pipeline whose last stage samples tokens and broadcasts them on a side stream while the next steps run.

Every rank computes the same schedule from the requests: freed slots, requests that get a slot, and rows that run. The
stages send hidden states to the next stage on the main stream. The last stage samples the tokens and broadcasts them on
the side stream. The other stages keep the tokens in a queue with one entry for each stage, and later write them into
the state of the slots. A row's next step starts from this token.

While a token is in the queue, its slot may go to another request. So a queue entry also contains the slot's generation,
a number that grows each time the slot is freed. A stage compares the generation when it takes the entry.

The first faulty variant does not compare the slot's generation, so a new request continues from a token of the old one.
The second variant does not call `record_stream` for the tokens' memory. The expected tokens of a request are a function
of its prompt, so the last stage checks them exactly. No rank polls, so there is one class of schedules. Whether a bug
shows depends on the parameters (`small_scopes`).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from dpsim.contract.interface import Buffer, Event, Rank, Stream
from dpsim.contract.program import Program
from dpsim.contract.world import CommunicatorSpec, World
from tests.programs import set_to
from tests.worlds.case import Case

ROWS = 4  # the largest number of rows of a step
TOKENS = 8  # the largest number of tokens of a request
NEVER = 99


class Request(NamedTuple):
    """A request. It arrives in step `arrive`, and gets `tokens` tokens unless the user aborts it in an earlier step."""

    arrive: int
    prompt: int
    tokens: int
    abort: int = NEVER


class Scope(NamedTuple):
    """The parameters of a pipeline."""

    requests: tuple[Request, ...]
    stages: int
    slots: int
    steps: int


class Row(NamedTuple):
    """A row of a step. `needed`: a later step of the request starts from its token."""

    request: int
    slot: int
    needed: bool


class Step(NamedTuple):
    """The schedule of a step: the freed slots, the admitted (request, slot) pairs, and the rows."""

    freed: list[int]
    admitted: list[tuple[int, int]]
    rows: list[Row]


class Entry(NamedTuple):
    """Tokens that the last stage broadcasts, and the generations of their rows' slots when the stage posted the
    receive.
    """

    tokens: Buffer
    arrived: Event
    rows: list[Row]
    generations: list[int]


def schedule(scope: Scope) -> list[Step]:
    """Returns the schedule of all steps. It admits at most one request in a step. A request runs every `stages` steps,
    because its token takes this number of steps to return.
    """
    requests, free = scope.requests, list(range(scope.slots))
    waiting = deque(sorted(range(len(requests)), key=lambda number: requests[number].arrive))
    running: dict[int, list[int]] = {}  # request -> [slot, next step, number of tokens]
    steps = []
    for now in range(scope.steps):
        freed, admitted, rows = [], [], []
        for number in sorted(running):
            slot, following, made = running[number]
            if requests[number].abort <= now or (made == requests[number].tokens and now >= following):
                freed.append(slot)
                free.append(slot)
                del running[number]
        if waiting and free and requests[waiting[0]].arrive <= now:
            number = waiting.popleft()
            running[number] = [free.pop(), now, 0]
            admitted.append((number, running[number][0]))
        for number in sorted(running):
            slot, following, made = running[number]
            if now >= following and made < requests[number].tokens:
                running[number] = [slot, now + scope.stages, made + 1]
                rows.append(Row(number, slot, made + 1 < requests[number].tokens))
        steps.append(Step(freed, admitted, rows))
    return steps


def begin(last: Any, length: Any, slot: int, prompt: int) -> None:
    last[slot] = prompt
    length[slot] = 0


def embed(last: Any, length: Any, hidden: Any, slots: tuple[int, ...]) -> None:
    hidden[:] = 0
    for row, slot in enumerate(slots):
        hidden[row] = mixed(int(last[slot]), int(length[slot]))


def mixed(token: int, length: int) -> int:
    """Computes the next token. It stands in for a model."""
    return token * 31 + length * 7 + 5


def sample(hidden: Any, tokens: Any, log: Any, places: tuple[int, ...]) -> None:
    tokens[:] = 0
    for row, place in enumerate(places):
        tokens[row] = log[place] = hidden[row] % 997


def update(tokens: Any, last: Any, length: Any, rows: tuple[tuple[int, int], ...]) -> None:
    for row, slot in rows:
        last[slot] = tokens[row]
        length[slot] += 1


def oracle(request: Request, count: int) -> list[int]:
    """Returns the first `count` tokens of a request."""
    tokens = [request.prompt]
    for length in range(count):
        tokens.append(mixed(tokens[-1], length) % 997)
    return tokens[1:]


class Stage:
    """One rank's part of a run."""

    def __init__(self, rank: Rank, scope: Scope, program: Pipeline) -> None:
        self.rank, self.scope, self.program = rank, scope, program
        self.main, self.side = rank.stream("main"), rank.stream("side")
        self.last = self.main.alloc(scope.slots, "int32", "state.last")
        self.length = self.main.alloc(scope.slots, "int32", "state.length")
        self.log = self.main.alloc(TOKENS * max(1, len(scope.requests)), "int32", "log")
        for buffer in (self.last, self.length, self.log):
            self.main.launch("state.clear", set_to, writes=[buffer], args=(0,))
        self.queue: deque[Entry | None] = deque([None] * scope.stages)
        self.generations = [0] * scope.slots
        self.counts = [0] * len(scope.requests)

    def consume(self) -> None:
        """Writes the tokens that were sampled `stages` steps ago into the slots' state."""
        entry = self.queue.popleft()
        self.queue.append(None)
        if entry is None:
            return
        rows = tuple(
            (index, row.slot)
            for index, row in enumerate(entry.rows)
            if row.needed and not self.program.stale(entry.generations[index], self.generations[row.slot])
        )
        if rows:
            self.main.wait(entry.arrived)
            self.main.launch("update", update, reads=[entry.tokens], writes=[self.last, self.length], args=(rows,))
        entry.tokens.free()

    def admit(self, step: Step) -> None:
        for slot in step.freed:
            self.generations[slot] += 1
        for request, slot in step.admitted:
            prompt = self.scope.requests[request].prompt
            self.main.launch("begin", begin, writes=[self.last, self.length], args=(slot, prompt))

    def forward(self, rows: list[Row]) -> None:
        """Receives the rows' hidden states from the preceding stage, and sends them to the next one or samples."""
        me, hidden = self.rank.rank, self.main.alloc(ROWS, "int32", "hidden")
        if me == 0:
            slots = tuple(row.slot for row in rows)
            self.main.launch("embed", embed, reads=[self.last, self.length], writes=[hidden], args=(slots,))
        else:
            self.rank.device(f"hidden{me - 1}").broadcast(hidden, me - 1, self.main, site="hidden.receive")
        if me < self.scope.stages - 1:
            self.rank.device(f"hidden{me}").broadcast(hidden, me, self.main, site="hidden.send")
            hidden.free()
            if any(row.needed for row in rows):
                self._receive(rows)
        else:
            self._sample(hidden, rows)

    def _receive(self, rows: list[Row]) -> None:
        self.side.wait_stream(self.main)
        tokens = self.side.alloc(ROWS, "int32", "tokens.received")
        self.rank.device("tokens").broadcast(tokens, self.scope.stages - 1, self.side, site="tokens.receive")
        self.program.keep(tokens, self.main)
        generations = [self.generations[row.slot] for row in rows]
        self.queue[-1] = Entry(tokens, self.side.record(), rows, generations)

    def _sample(self, hidden: Buffer, rows: list[Row]) -> None:
        tokens = self.main.alloc(ROWS, "int32", "tokens.sampled")
        places = tuple(TOKENS * row.request + self.counts[row.request] for row in rows)
        self.main.launch("sample", sample, reads=[hidden], writes=[tokens, self.log], args=(places,))
        hidden.free()
        for row in rows:
            self.counts[row.request] += 1
        if any(row.needed for row in rows):
            self.side.wait_stream(self.main)
            self.rank.device("tokens").broadcast(tokens, self.rank.rank, self.side, site="tokens.send")
            self.program.keep(tokens, self.side)
        tokens.free()

    async def check(self) -> None:
        """Checks on the last stage that each request got its expected tokens."""
        log = await self.log.read("log.read")
        for number, request in enumerate(self.scope.requests):
            count = self.counts[number]
            got = log[TOKENS * number : TOKENS * number + count].tolist()
            assert got == oracle(request, count), f"request {number} got {got}"


class Pipeline(Program[Any]):
    """`prepared` is a Scope."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        scope: Scope = prepared
        stage = Stage(rank, scope, self)
        ends = rank.rank == scope.stages - 1
        for now, step in enumerate(schedule(scope)):
            rank.step = now
            if not ends:
                stage.consume()
            stage.admit(step)
            if step.rows:
                stage.forward(step.rows)
        if ends:
            await stage.check()
        else:
            await stage.length.read("state.read")

    def stale(self, asked: int, now: int) -> bool:
        """Returns whether the slot's generation differs from the one when the rank posted the receive of its token."""
        return asked != now

    def keep(self, tokens: Buffer, stream: Stream) -> None:
        """Records in the allocator that a second stream uses the tokens' memory."""
        tokens.record_stream(stream)


class NoGeneration(Pipeline):
    def stale(self, asked: int, now: int) -> bool:
        return False


class NoRecordStream(Pipeline):
    def keep(self, tokens: Buffer, stream: Stream) -> None:
        pass


BUGS: dict[str | None, tuple[type[Pipeline], str | None]] = {
    None: (Pipeline, None),
    "generation": (NoGeneration, "CRASH:ASSERTIONERROR"),
    "record_stream": (NoRecordStream, "RACE:REUSED_IN_FLIGHT"),
}

REUSE = Scope((Request(0, 3, 3, abort=1), Request(0, 11, 2), Request(2, 17, 2)), stages=2, slots=1, steps=6)
"""A request gets a slot while a token of the slot's former request is still in flight."""


def pipeline_world(stages: int) -> World:
    specs = [CommunicatorSpec("tokens", "tokens", "device", tuple(range(stages)))]
    for stage in range(stages - 1):
        specs.append(CommunicatorSpec(f"hidden{stage}", f"hidden{stage}", "device", (stage, stage + 1)))
    return World(stages, tuple(specs))


def case(scope: Scope = REUSE, bug: str | None = None, memory: bool = False) -> Case:
    program, klass = BUGS[bug]
    return Case(
        name=f"pipeline {scope.stages}x{scope.steps}{' memory' * memory}{f' bug {bug}' if bug else ''}",
        world=pipeline_world(scope.stages),
        program=program(),
        args=scope,
        bug=klass,
        always=True,
        memory=memory,
    )


def small_scopes() -> Iterator[Scope]:
    """Yields all small scopes with two stages and one slot: 1 to 3 requests, 3 to 5 steps.

    Requests arrive in step 0 or 1, in the order of their numbers. Each wants 1 or 2 tokens, and the user aborts it in
    step 1, 2 or 3 or never: 8 ways. There are 2, 3 and 4 non-decreasing lists of arrivals for 1, 2 and 3 requests. That
    makes (2 * 8 + 3 * 8 ** 2 + 4 * 8 ** 3) * 3 = 6,768.
    """
    ways = list(itertools.product((1, 2), (NEVER, 1, 2, 3)))
    for steps in (3, 4, 5):
        for count in (1, 2, 3):
            for arrivals in itertools.combinations_with_replacement((0, 1), count):
                for wanted in itertools.product(ways, repeat=count):
                    requests = tuple(
                        Request(arrive, 3 + 8 * number, *want)
                        for number, (arrive, want) in enumerate(zip(arrivals, wanted, strict=True))
                    )
                    yield Scope(requests, stages=2, slots=1, steps=steps)
