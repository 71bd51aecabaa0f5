"""The benchmark's step, flattened by hand for speed: the limit of what SimPy allows.

A stream is a number: the time at which it is free. A collective is one event, which the last member schedules. A
channel is a deque. Ops have no addresses and no records, and the program computes no numbers. After each change of the
program, its author has to flatten it again, so this is no way to write a simulator. It only shows the limit.

>>> run(dp=8, pp=2, steps=50)
Outcome(events=1940, end=11127)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

import simpy

from benchmarks.baseline import AGREE_NS, ATTENTION_NS, EXCHANGE_NS, EXPERTS_NS, Outcome, host_ns


class Meeting:
    """A collective. It schedules its event when the last member has given its time of arrival."""

    __slots__ = ("env", "latest", "members", "ns", "over", "values")

    def __init__(self, env: simpy.Environment, members: int, ns: int) -> None:
        self.env, self.members, self.ns = env, members, ns
        self.values: list[int] = []
        self.over = simpy.Event(env)
        self.latest = 0

    def join(self, value: int, at: int = 0) -> simpy.Event:
        """Adds a member that arrives at `at`. The value of the event is (largest value, end time)."""
        values, over, env = self.values, self.over, self.env
        values.append(value)
        if at > self.latest:
            self.latest = at
        if len(values) == self.members:
            delay = max(self.latest - env._now, 0) + self.ns
            over._ok, over._value = True, (max(values), env._now + delay)
            env.schedule(over, delay=delay)
            self.values, self.over, self.latest = [], simpy.Event(env), 0
        return over


class Channel:
    """Passes values from one rank to another."""

    __slots__ = ("env", "getter", "values")

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.values: deque[int] = deque()
        self.getter: simpy.Event | None = None

    def put(self, value: int) -> None:
        getter = self.getter
        if getter is None:
            self.values.append(value)
        else:
            self.getter = None
            getter.succeed(value)

    def get(self) -> simpy.Event:
        event = simpy.Event(self.env)
        if self.values:
            event.callbacks = None  # type: ignore[assignment]  # as SimPy marks what is over: it goes on at once
            event._ok, event._value = True, self.values.popleft()
        else:
            self.getter = event
        return event


def run(dp: int, pp: int, steps: int) -> Outcome:
    """Simulates `steps` steps."""
    env = simpy.Environment()
    agree = [Meeting(env, dp, AGREE_NS) for _ in range(pp)]
    exchange = [[Meeting(env, dp, EXCHANGE_NS) for _ in range(2)] for _ in range(pp)]
    hidden = [[Channel(env) for _ in range(pp)] for _ in range(dp)]
    tokens = [[Channel(env) for _ in range(pp)] for _ in range(dp)]

    def rank(replica: int, stage: int) -> Generator[simpy.Event, Any, None]:
        compute = 0
        for step in range(steps):
            yield simpy.Timeout(env, host_ns(replica, step))
            yield agree[stage].join((replica + step) % 5)
            if stage > 0:
                yield hidden[replica][stage].get()
            compute = max(compute, int(env._now)) + ATTENTION_NS
            first = exchange[stage][0].join(1, compute)
            compute += ATTENTION_NS
            second = exchange[stage][1].join(1, compute)
            compute = max(compute, (yield first)[1]) + EXPERTS_NS
            compute = max(compute, (yield second)[1]) + EXPERTS_NS
            yield simpy.Timeout(env, compute - env._now)
            if stage < pp - 1:
                hidden[replica][stage + 1].put(step)
                if step >= 1:
                    yield tokens[replica][stage].get()
            else:
                for other in range(pp - 1):
                    tokens[replica][other].put(step)

    for replica in range(dp):
        for stage in range(pp):
            env.process(rank(replica, stage))
    env.run()
    return Outcome(next(env._eid), int(env.now))
