"""Tests that dpsim finds the races of PyTorch's CUDA sanitizer in the sanitizer's own test cases.

For each stream, `torch.cuda._sanitizer` keeps how much it knows of each other stream. For each data pointer it keeps
the last write and the reads since. Its tests (test/test_cuda_sanitizer.py, class TestEventHandler) pass it kernels,
events and synchronizations by hand. `CASES` contains all twenty situations as programs on one rank, with the pairs of
kernels that race. Before each case a stream fills the buffers, and the host waits for it, because the sanitizer's
buffers have no history either. Where torch is installed, its sanitizer gets the same cases, and random programs, and
has to find the same races.

The contract expresses some things differently:

* it records a new event each time. To record an event again, to delete or to create it anew removes the possibility to
  wait for the old one. A wait for an event that was never recorded does nothing in CUDA, and has no form here;
* a program synchronizes a device by an event of each of its streams, and a stream by one of its events.

These tests of the sanitizer have no form here:

* TestArgumentHandler (add, cat, split, inplace, out, nonzero, tensor_names; also subclass and factories): which tensors
  a torch operator reads and writes, parsed from its schema. A launch here names its buffers exactly;
* TestMessages.ensure_exists, ensure_does_not_exist: how the sanitizer completes a trace that began too late. Journals
  are complete;
* TestMessages.error_message: the text of a report. tests/checks/test_race.py tests dpsim's text.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import pytest

from dpsim.checks.finding import Finding
from dpsim.contract.interface import Event, Rank
from dpsim.diagnose.words import text
from tests.programs import Script, touch
from tests.sim.programs import everywhere, see, usual_world


class Step(NamedTuple):
    """One action of a host: launch a kernel; record, wait for, delete or create an event; synchronize an event, a
    stream or the device.
    """

    what: str
    stream: int = 0
    event: int = 0
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


def kernel(stream: int, reads: str = "", writes: str = "") -> Step:
    """Returns a kernel on a stream; each letter names a buffer."""
    return Step("kernel", stream, 0, tuple(reads), tuple(writes))


def record(event: int, stream: int) -> Step:
    return Step("record", stream, event)


def wait(event: int, stream: int) -> Step:
    return Step("wait", stream, event)


def chain(first: int, last: int) -> list[Step]:
    """Returns steps by which each stream waits for the one before."""
    return [step for s in range(first, last) for step in (record(s, s), wait(s, s + 1))]


class Race(NamedTuple):
    """Two kernels, by their numbers, that access a buffer in no order."""

    first: int
    second: int
    buffer: str


TEN = "abcdefghij"

CASES: dict[str, tuple[list[Step], set[Race]]] = {
    "an empty launch": ([kernel(0)], set()),
    "two reads": ([kernel(1, "a"), kernel(2, "a")], set()),
    "a write after a read": ([kernel(1, "a"), kernel(2, writes="a")], {Race(0, 1, "a")}),
    "a write that waits for the read": ([kernel(1, "a"), record(0, 1), wait(0, 2), kernel(2, writes="a")], set()),
    "every read is held against the last write": (
        [kernel(1, writes="a"), record(0, 1), wait(0, 2), kernel(2, "a"), kernel(3, "a")],
        {Race(0, 2, "a")},
    ),
    "branches may read and not write": (
        [
            *[kernel(1, writes="a"), record(0, 1), wait(0, 2), wait(0, 3)],
            *[kernel(2, "a"), kernel(3, "a"), kernel(2, writes="a")],
        ],
        {Race(2, 3, "a")},
    ),
    "a chain of waits": ([kernel(0, "a"), *chain(0, 10), kernel(10, writes="a")], set()),
    "a record that is too old": (
        [kernel(1, "a"), record(0, 1), kernel(1, "a"), wait(0, 2), kernel(2, writes="a")],
        {Race(1, 2, "a")},
    ),
    **{
        f"an event that was {name}": (
            [kernel(1, "a"), record(0, 1), *[Step(what) for what in did], wait(0, 2), kernel(2, writes="a")],
            {Race(0, 1, "a")},
        )
        for name, did in (
            ("deleted", ["delete"]),
            ("deleted and created anew", ["delete", "create"]),
            ("created anew", ["create"]),
        )
    },
    "a write that waits for all readers but one": (
        [
            *[step for s in range(1, 10) for step in (kernel(s, "a"), record(s, s))],
            *[wait(s, 0) for s in range(1, 10)],
            *[kernel(10, "a"), record(10, 9), kernel(0, writes="a")],
        ],
        {Race(9, 10, "a")},
    ),
    "a write that waits for all readers": (
        [
            *[step for s in range(1, 10) for step in (kernel(s, "a"), record(s, s))],
            *[wait(s, 0) for s in range(1, 10)],
            kernel(0, writes="a"),
        ],
        set(),
    ),
    "several buffers": ([kernel(0, writes=TEN), kernel(1, writes=TEN)], {Race(0, 1, name) for name in TEN}),
    "to wait is to know what either knows": (
        [
            *[kernel(1, writes="a"), kernel(2, writes="b"), record(1, 1), record(2, 2)],
            *[kernel(1, writes="a"), kernel(2, writes="b"), wait(1, 2), wait(2, 1)],
            *[record(3, 2), wait(3, 1), kernel(1, writes="ab")],
        ],
        set(),
    ),
    "an event that is recorded again": (
        [kernel(1, "a"), kernel(2, "b"), record(1, 1), record(1, 2), wait(1, 3), kernel(3, writes="a")],
        {Race(0, 2, "a")},
    ),
    "two streams that wait for one event": (
        [kernel(1, writes="a"), record(1, 1), wait(1, 2), wait(1, 3), kernel(2, "a"), kernel(3, "a")],
        set(),
    ),
    "a device is synchronised": (
        [*[kernel(s, writes=TEN[s]) for s in range(1, 10)], Step("device"), kernel(0, writes=TEN[1:])],
        set(),
    ),
    "and then goes on": (
        [kernel(1, writes="a"), Step("device"), kernel(1, writes="a"), kernel(2, writes="a")],
        {Race(1, 2, "a")},
    ),
    "a stream that is new then": ([kernel(1, writes="a"), Step("device"), kernel(2, writes="a")], set()),
    "one stream is synchronised": (
        [
            *[kernel(0, writes="a"), kernel(1, writes="b"), Step("stream", 0)],
            *[kernel(2, "a"), kernel(3, "a"), kernel(4, "b")],
        ],
        {Race(1, 4, "b")},
    ),
    "an event is synchronised": (
        [
            *[kernel(1, writes="a"), record(1, 1), kernel(1, writes="b"), Step("event", event=1)],
            *[kernel(2, writes="a"), kernel(2, writes="b")],
        ],
        {Race(1, 3, "b")},
    ),
}


def program(steps: list[Step]) -> Script:
    """Returns the steps as a script over the contract."""

    async def script(rank: Rank) -> None:
        setup, count = rank.stream("setup"), 0
        events: dict[int, Event] = {}
        buffers = {name: setup.alloc(1, "int32", name) for name in TEN}
        setup.launch("fill", touch, writes=[*buffers.values()])
        await setup.record().synchronize("ready")
        for step in steps:
            stream = rank.stream(f"s{step.stream}") if step.what in ("kernel", "record", "wait", "stream") else None
            if step.what == "device":
                for number in range(11):
                    await rank.stream(f"s{number}").record().synchronize("device")
            elif step.what in ("delete", "create"):
                events.pop(step.event, None)
            elif step.what == "event":
                if step.event in events:
                    await events[step.event].synchronize("event")
            elif stream is None:
                raise ValueError(step.what)
            elif step.what == "kernel":
                touched = [buffers[name] for name in step.reads], [buffers[name] for name in step.writes]
                stream.launch(f"k{count}", touch, reads=touched[0], writes=touched[1])
                count += 1
            elif step.what == "record":
                events[step.event] = stream.record()
            elif step.what == "stream":
                await stream.record().synchronize("stream")
            elif step.event in events:
                stream.wait(events[step.event])

    return script


def accesses(finding: Finding) -> Race:
    """Returns the two accesses that a race names, from the details of the finding."""
    found = [
        re.search(r": k(\d+)\[0\] .* (?:reads|writes) (\w+)\[0\] on stream", line)
        for line in map(text, finding.details[:2])
    ]
    assert found[0] is not None, finding
    assert found[1] is not None, finding
    assert found[0][2] == found[1][2]
    return Race(int(found[0][1]), int(found[1][1]), found[0][2])


def sanitizer(steps: list[Step]) -> set[Race]:
    """Returns the errors of torch's sanitizer for the first kernel that has any; it stops a program there."""
    csan = pytest.importorskip("torch.cuda._sanitizer")
    handler, count = csan.EventHandler(), 0
    for step in steps:
        if step.what == "kernel":
            names = {name: [name] for name in (*step.reads, *step.writes)}
            errors = handler._handle_kernel_launch(step.stream, {*step.reads}, {*step.writes}, set(), str(count), names)
            if errors:
                return {Race(int(e.previous_access.operator), count, e.data_ptr) for e in errors}
            count += 1
        elif step.what == "record":
            handler._handle_event_record(step.event, step.stream)
        elif step.what == "wait":
            handler._handle_event_wait(step.event, step.stream)
        elif step.what == "delete":
            handler._handle_event_deletion(step.event)
        elif step.what == "create":
            handler._handle_event_creation(step.event)
        elif step.what == "event":
            handler._handle_event_synchronization(step.event)
        elif step.what == "stream":
            handler._handle_stream_synchronization(step.stream)
        else:
            handler._handle_device_synchronization()
    return set()


@pytest.mark.parametrize("name", CASES)
def test_dpsim_gives_each_case_of_the_sanitizer_its_verdict(name: str) -> None:
    steps, races = CASES[name]
    for seen in everywhere(program(steps), usual_world(1)):
        assert {*seen.classes} <= {"RACE:BUFFER"}, seen.mode
        assert {accesses(finding) for finding in seen.findings} == races, seen.mode
        assert len(seen.findings) == len(races)


@pytest.mark.parametrize("name", CASES)
def test_the_sanitizer_gives_the_verdicts_of_the_table(name: str) -> None:
    steps, races = CASES[name]
    assert sanitizer(steps) == races


def any_steps(seed: int) -> list[Step]:
    rng = random.Random(seed)
    steps = []
    for _ in range(rng.randint(4, 40)):
        stream, event = rng.randrange(1, 4), rng.randrange(3)
        what = rng.choice(
            ["kernel"] * 4 + ["order"] * 6 + ["record", "wait", "delete", "create", "event", "stream", "device"]
        )
        if what == "kernel":
            touched = rng.sample("abc", rng.randint(0, 2))
            reads = "".join(name for name in touched if rng.random() < 0.6)
            steps.append(kernel(stream, reads, "".join(name for name in touched if name not in reads)))
        elif what == "order":
            steps += [record(9, stream), wait(9, rng.randrange(1, 4))]
        else:
            steps.append(Step(what, stream, event))
    return steps


def test_the_sanitizer_agrees_on_random_programs() -> None:
    """In random programs both find the same kernel as the first to race, and the same buffers. If the kernel races with
    several, dpsim names one of them, or the last write before them, which the sanitizer does not check then.
    """
    raced = 0
    for seed in range(250):
        steps = any_steps(seed)
        theirs = sanitizer(steps)
        if theirs:
            raced += 1
            at = [index for index, step in enumerate(steps) if step.what == "kernel"]
            end = max(race.second for race in theirs)
            steps = steps[: at[end] + 1]
        ours = {accesses(finding) for finding in see(program(steps), usual_world(1)).findings}
        assert {race[1:] for race in ours} == {race[1:] for race in theirs}, seed
        kernels = [step for step in steps if step.what == "kernel"]
        for race in ours - theirs:
            writes = [number for number in range(race.second) if race.buffer in kernels[number].writes]
            assert race.first == writes[-1], seed
    assert 50 < raced < 200
