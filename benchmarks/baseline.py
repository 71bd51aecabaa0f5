"""The benchmark's step in usual SimPy: a Store-fed process per stream, a helper process per collective, Stores between
ranks.

>>> run(dp=8, pp=2, steps=50)
Outcome(events=30952, end=11127)

The cost of this module is the cost of usual SimPy code. So its events and times must not change, and each measurement
first checks the numbers above.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import simpy

HOST_NS, AGREE_NS, ATTENTION_NS, EXCHANGE_NS, EXPERTS_NS = 50, 20, 40, 30, 30
"""Durations of the step in nanoseconds. `host_ns` adds some skew."""

Moves = Generator[simpy.Event, Any, Any]


class Outcome(NamedTuple):
    """The number of events that SimPy received, and the simulated time of the last one in nanoseconds."""

    events: int
    end: int


def host_ns(replica: int, step: int) -> int:
    """Returns how many nanoseconds the host works before a step."""
    return HOST_NS + (replica * 7 + step) % 11


class Meeting:
    """A collective that repeats. When the last member arrives, a helper process starts and waits for its duration."""

    def __init__(self, env: simpy.Environment, members: int, ns: int) -> None:
        self.env, self.members, self.ns = env, members, ns
        self.brought: list[int] = []
        self.over = env.event()

    def join(self, value: int) -> simpy.Event:
        self.brought.append(value)
        over = self.over
        if len(self.brought) == self.members:
            self.env.process(self._hold(over, self.brought))
            self.brought, self.over = [], self.env.event()
        return over

    def _hold(self, over: simpy.Event, brought: list[int]) -> Moves:
        yield self.env.timeout(self.ns)
        over.succeed(max(brought))


class Queue:
    """A stream: a process that takes one piece of work after another from a Store."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.work = simpy.Store(env)
        env.process(self._loop())

    def put(self, kind: str, what: Any) -> simpy.Event:
        done = self.env.event()
        self.work.put((kind, what, done))
        return done

    def close(self) -> None:
        self.work.put(None)

    def _loop(self) -> Moves:
        while True:
            item = yield self.work.get()
            if item is None:
                return
            kind, what, done = item
            if kind == "kernel":
                yield self.env.timeout(what)
            elif kind == "wait":
                yield what
            else:
                yield what.join(1)
            done.succeed()


class Engine:
    """`dp` replicas of `pp` stages."""

    def __init__(self, dp: int, pp: int, steps: int) -> None:
        self.env = env = simpy.Environment()
        self.pp, self.steps = pp, steps
        self.agree = [Meeting(env, dp, AGREE_NS) for _ in range(pp)]
        self.exchange = [[Meeting(env, dp, EXCHANGE_NS) for _ in range(2)] for _ in range(pp)]
        self.hidden = [[simpy.Store(env, capacity=2) for _ in range(pp)] for _ in range(dp)]
        self.tokens = [[simpy.Store(env, capacity=2) for _ in range(pp)] for _ in range(dp)]
        for replica in range(dp):
            for stage in range(pp):
                env.process(self.rank(replica, stage))

    def rank(self, replica: int, stage: int) -> Moves:
        env, last = self.env, self.pp - 1
        compute, comm = Queue(env), Queue(env)
        for step in range(self.steps):
            yield env.timeout(host_ns(replica, step))
            yield from self.wait(self.agree[stage].join((replica + step) % 5))
            if stage > 0:
                yield from self.wait(self.hidden[replica][stage].get())
            exchanged = []
            for microbatch in range(2):
                attended = compute.put("kernel", ATTENTION_NS)
                comm.put("wait", attended)
                exchanged.append(comm.put("join", self.exchange[stage][microbatch]))
            for microbatch in range(2):
                compute.put("wait", exchanged[microbatch])
                done = compute.put("kernel", EXPERTS_NS)
            yield from self.wait(done)
            if stage < last:
                yield self.hidden[replica][stage + 1].put(step)
                if step >= 1:
                    yield from self.wait(self.tokens[replica][stage].get())
            else:
                for other in range(last):
                    yield self.tokens[replica][other].put(step)
        compute.close()
        comm.close()

    def wait(self, event: simpy.Event) -> Moves:
        return (yield event)


def run(dp: int, pp: int, steps: int) -> Outcome:
    """Simulates `steps` steps."""
    engine = Engine(dp, pp, steps)
    engine.env.run()
    return Outcome(next(engine.env._eid), int(engine.env.now))
