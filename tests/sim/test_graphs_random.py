"""Tests that a replay equals its calls, made by hand. The tests draw random programs that capture and replay. The twin
of each program issues all calls eagerly, with a separate stream for each stream that joined the capture.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from dpsim.contract.interface import Buffer, Event, Rank, Stream
from tests.programs import Script, set_to
from tests.properties import nightly_but
from tests.sim.programs import MODES, Seen, see, usual_world

GRAPH = "g"
SIDES = "side", "comm"
SIZE = 4


def mix(source: Any, target: Any, by: int) -> None:
    target[:] = source * 3 + by


def bump(target: Any) -> None:
    target[:] = target * 2 + 1


class Plan:
    """A random program: the calls of the capture, and the input, order and read around each replay."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.ranks = draw.choice([1, 2])
        self.calls: list[tuple[Any, ...]] = []
        joined: list[str] = []
        for at in range(draw.randint(1, 7)):
            if draw.random() < 0.4 and len(joined) < len(SIDES):
                name = SIDES[len(joined)]
                self.calls.append(("order", draw.choice(["main", *joined]), name))
                joined.append(name)
            on = draw.choice(["main", *joined])
            kind = draw.choice(["mix", "mix", "bump", "reduce", "order"])
            if kind == "order" and joined:
                self.calls.append(("order", *draw.sample(["main", *joined], 2)))
            elif kind == "reduce":
                self.calls.append(("reduce", on, draw.randrange(3)))
            else:
                self.calls.append((kind, on, draw.randrange(3), draw.randrange(3), at))
        self.calls += [("order", name, "main") for name in reversed(joined)]
        self.turns = [
            (
                draw.choice(["main", "main", "other"]),
                draw.choice(["main", "other"]),
                draw.random() < 0.7,
                draw.randrange(3),
            )
            for _ in range(draw.randint(1, 3))
        ]
        """For each replay: its stream, the stream of the input before, whether the two are in order, and the buffer
        read after it.
        """

    def issue(self, rank: Rank, buffers: list[Buffer], stream: Any) -> None:
        """Issues the calls. `stream` maps a name to a stream."""
        for what, on, *more in self.calls:
            if what == "order":
                stream(more[0]).wait(stream(on).record())
            elif what == "reduce":
                rank.device("d").all_reduce(buffers[more[0]], stream(on), site="reduce")
            elif what == "bump":
                stream(on).launch("bump", bump, writes=[buffers[more[0]]])
            else:
                source, target, by = more
                if source != target:
                    stream(on).launch("mix", mix, reads=[buffers[source]], writes=[buffers[target]], args=(by,))

    def script(self, captured: bool) -> Script:
        async def script(rank: Rank) -> Any:
            main = rank.stream("main")
            rank.stream("other")
            buffers = [main.alloc(SIZE, "int32", f"b{number}") for number in range(3)]
            for number, buffer in enumerate(buffers):
                main.launch("fill", set_to, writes=[buffer], args=(number + rank.rank,))
            await main.record().synchronize("filled")
            graph = rank.graph(GRAPH)
            if captured:
                async with graph.capture(main):
                    self.issue(rank, buffers, rank.stream)
            seen = []
            last: tuple[Stream, Event] | None = None
            for name, before, ordered, read in self.turns:
                on, source = rank.stream(name), rank.stream(before)
                source.launch("input", set_to, writes=[buffers[0]], args=(read + 5,))
                if ordered:
                    on.wait_stream(source)
                if captured:
                    graph.replay(on, "go")
                else:
                    if last is not None and last[0] is not on:
                        on.wait(last[1])
                    self.issue(
                        rank, buffers, lambda name, on=on: on if name == "main" else rank.stream(f"{name}@{GRAPH}")
                    )
                    last = on, on.record()
                seen.append(tuple((await buffers[read].read("out", on)).tolist()))
            return tuple(seen)

        script.__qualname__ = f"drawn({captured})"
        return script


def classes_and_results(seen: Seen) -> tuple[list[str], list[Any]]:
    return sorted(set(seen.classes)), [] if "RACE:BUFFER" in seen.classes else seen.learned


def compared(seeds: range) -> Counter[str]:
    said: Counter[str] = Counter()
    for seed in seeds:
        plan = Plan(seed)
        world = usual_world(plan.ranks)
        for mode in list(MODES)[:3]:
            captured, eager = (classes_and_results(see(plan.script(one), world, mode)) for one in (True, False))
            assert captured == eager, f"seed {seed}, {mode}: {plan.calls} {plan.turns}"
        said.update(captured[0] or ["clean"])
    return said


@pytest.mark.slow
def test_a_replay_is_its_calls_made_again() -> None:
    said = compared(range(120))
    assert min(said["clean"], said["RACE:BUFFER"]) > 15, said


@pytest.mark.parametrize("first", nightly_but(range(1_000, 6_000, 250), lambda first: first == 1_000))
def test_a_replay_is_its_calls_made_again_in_many_programs(first: int) -> None:
    compared(range(first, first + 250))
