"""Feeds damaged input to the readers of dpsim: scenarios, traces, tokens, saved failures, dumps and recordings.

python -m pytest -m slow tests/test_readers.py          # ten seconds for each reader
python -m pytest -m nightly tests/test_readers.py       # ten minutes for each reader
"""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import random
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dpsim.campaign.replay import replay, replay_token
from dpsim.campaign.saved import saved_failures
from dpsim.campaign.token import CHECKED, PREFIX, Token, read_token
from dpsim.contract.recording import HEAD, HEADER_BYTES, STACKS, TABLE_AT
from dpsim.contract.world import Unended
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from dpsim.diagnose.dumps.text import as_json, as_text
from dpsim.explore.strategies.replay import Mismatch
from dpsim.runner import run_scenario
from dpsim.scenario import dump_scenario, parse_scenario
from dpsim.trace import Trace, compare, read_trace, write_trace
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.recordings.made import MadeJob as MadeRecordings
from tests.explained import explain_recordings
from tests.fuzz import damaged, fuzzed, seconds
from tests.protocols import agreed

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="looks into /proc")

SKIP = {"kind": "skip", "rank": 1, "at": {"site": "dp.agree", "ordinal": 2}}
WORLDS = [agreed({"steps": 3, "ranks": 3}), agreed({"steps": 3, "ranks": 3}, faults=[SKIP])]
TEXTS = [dump_scenario(one).encode() for one in WORLDS]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Returns the traces of some runs, one of them with a schedule."""
    folder = tmp_path_factory.mktemp("traces")
    found = []
    for number, one in enumerate(WORLDS):
        file = folder / f"{number}.jsonl"
        result = run_scenario(one)
        write_trace(file, result.run, scenario=one.model_dump(mode="json", by_alias=True), verdict="held", klass=None)
        found.append(file.read_bytes())
    return found


VALUES = [
    *(b"[" * depth + b"]" * depth for depth in (3, 59, 61, 400, 900, 5_000)),
    *(b"9" * digits for digits in (25, 299, 301, 4_300, 5_000)),
    *(
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b'{"float":"nan"}',
        b"null",
        b"-1",
        b"1e999",
        b'"\\u001b[31m"',
        b'"x","kind":"x"',
    ),
]


def with_value(trace: bytes, draw: random.Random) -> bytes:
    """Returns a trace with another value in one or two places."""
    for _ in range(draw.choice((1, 1, 2))):
        lines = trace.split(b"\n")
        at = draw.choice((0, draw.randrange(len(lines))))
        places = [*re.finditer(rb':(-?\d+|"[^"]*"|\[[^\[\]]*\]|null|true|false)', lines[at])]
        if places:
            begin, end = draw.choice(places).span(1)
            lines[at] = lines[at][:begin] + draw.choice(VALUES) + lines[at][end:]
        trace = b"\n".join(lines)
    return trace


def rewritten(seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """Returns a damaged trace, mostly with a correct digest and length, so that the reader reads its body."""
    data = damaged(seeds, draw) if draw.random() < 0.5 else with_value(draw.choice(seeds), draw)
    head, _, rest = data.partition(b"\n")
    if draw.random() < 0.3:
        return data
    records = [line for line in rest.split(b"\n") if not line.startswith(b'{"section"') and line]
    try:
        header = json.loads(head)
        header["records"] = len(records)
        header["digest"] = hashlib.sha256(b"".join(line + b"\n" for line in records)).hexdigest()
        return json.dumps(header, separators=(",", ":")).encode() + b"\n" + rest
    except (ValueError, TypeError, RecursionError):
        return data


def expanding(seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """Returns a damaged scenario, one with aliases that expand to a large value, or one with a quoted word."""
    chance = draw.random()
    if chance < 0.8:
        return damaged(seeds, draw)
    seed = draw.choice(seeds)
    if chance < 0.9:
        lines = seed.split(b"\n")
        at = draw.randrange(len(lines))
        lines[at] = lines[at].partition(b":")[0] + b': "\\u001b[31m%d"' % draw.randrange(100)
        return b"\n".join(lines)
    if chance < 0.95:
        size, times = draw.choice(((1 << 20, 900), (70_000, 900), (10, 6_400)))
        return seed + b"a: &a " + b"x" * size + b"\nb: [" + b", ".join([b"*a"] * times) + b"]\n"
    levels = [b"l0: &l0 [x, x]"]
    for level in range(draw.choice((5, 20, 40))):
        levels.append(b"l%d: &l%d [" % (level + 1, level + 1) + b", ".join([b"*l%d" % level] * 9) + b"]")
    return seed + b"\n".join(levels) + b"\n"


@seconds
def test_the_reader_of_scenarios_survives_damaged_files(seconds: float) -> None:
    def read(data: bytes, folder: Path) -> None:
        parse_scenario(data, "fuzz.yaml", folder)

    assert fuzzed("scenarios", TEXTS, read, seconds, make=expanding)


@seconds
def test_the_reader_of_traces_survives_damaged_files(traces: list[bytes], seconds: float) -> None:
    """Reads the traces, compares them with a good one, and replays them."""

    def read(data: bytes, folder: Path) -> None:
        (folder / "x.jsonl").write_bytes(data)
        (folder / "good.jsonl").write_bytes(traces[0])
        trace = read_trace(folder / "x.jsonl")
        compare(trace, read_trace(folder / "good.jsonl"))
        assert isinstance(trace, Trace)
        replay(trace, strict=False)

    assert fuzzed("traces", traces, read, seconds, (Mismatch, Unended), rewritten)


@seconds
def test_the_reader_of_tokens_survives_damaged_words(seconds: float) -> None:
    words = [str(Token(one, ("rank 0 dp.agree[0]",), "HANG", "dpor", 10)).encode() for one in WORLDS]
    plain = [zlib.decompress(base64.urlsafe_b64decode(word[len(PREFIX) :] + b"==")[CHECKED:]) for word in words]

    def token(seeds: Sequence[bytes], draw: random.Random) -> bytes:
        """Returns a damaged token, or a valid token with damaged content."""
        if draw.random() < 0.3:
            return damaged(words, draw)
        content = damaged(seeds, draw)
        packed = hashlib.sha256(content).digest()[:CHECKED] + zlib.compress(content)
        return PREFIX.encode() + base64.urlsafe_b64encode(packed).rstrip(b"=")

    def read(data: bytes, folder: Path) -> None:
        replay_token(read_token(data.decode("utf-8", "surrogateescape")))

    assert fuzzed("tokens", plain, read, seconds, (Mismatch, Unended), token)


@seconds
def test_the_reader_of_saved_failures_survives_damaged_files(seconds: float) -> None:
    def read(data: bytes, folder: Path) -> None:
        (folder / "x.yaml").write_bytes(data)
        for one in saved_failures(folder):
            assert one.word.isprintable() or "\n" not in one.word

    seeds = [b"# replay: pytest tests/x.py::test --dpsim-replay=dpsim1.abc\n" + text for text in TEXTS]
    assert fuzzed("saved failures", seeds, read, seconds)


def test_a_saved_command_of_two_lines_is_skipped(tmp_path: Path) -> None:
    """Reads a saved command that ends in a backslash. The token would contain a line break, so the reader ignores the
    file.
    """
    line = "# replay: pytest tests/x.py::test --dpsim-replay=dpsim1.ab"
    (tmp_path / "whole.yaml").write_text(f"{line}\nname: x\n")
    (tmp_path / "broken.yaml").write_text(f"{line}\\\nname: x\n")
    assert [one.file.name for one in saved_failures(tmp_path)] == ["whole.yaml"]


@seconds
def test_the_reader_of_dumps_survives_damaged_files(seconds: float) -> None:
    """Reads dumps of flight recorders, as pickles of two protocols and as JSON, judges them and prints the result."""
    job = MadeJob(3)
    for _ in range(2):
        job.call([0, 1, 2], "all_gather")
        job.transfer(0, 1)
    job.call([0, 1])
    own = [job.dump(rank) for rank in range(3)]
    good = [pickle.dumps(one, protocol=2) for one in own]
    seeds = [*good, pickle.dumps(own[0], protocol=4), json.dumps(own[1]).encode()]

    def read(data: bytes, folder: Path) -> None:
        for rank, one in enumerate((data, *good[1:])):
            (folder / f"nccl_rank_{rank}").write_bytes(one)
        found = judge_dumps(read_dumps(folder))
        assert len(as_text(found).split("\n")) <= 10
        json.dumps(as_json(found))

    assert fuzzed("dumps", seeds, read, seconds)


@seconds
def test_the_reader_of_recordings_survives_damaged_files(
    tmp_path_factory: pytest.TempPathFactory, seconds: float
) -> None:
    """Reads a damaged recording, together with a good one of another rank."""
    job = MadeRecordings(tmp_path_factory.mktemp("recordings"), 2, slots=16)
    for step in range(9):
        for rank in range(2):
            job.step(rank, step)
            job.decide(rank, "tokens", step)
        job.all("all_reduce")
        job.call(0, "send", peer=1)
        job.call(1, "recv", peer=0)
    job.call(0, "broadcast", peer=1, over=False)
    job.stands(1, "train.py:7")
    files = sorted(job.gathered().glob("*.recording"))
    good = [small(file.read_bytes()) for file in files]
    stacks = files[1].with_name(files[1].name + STACKS).read_bytes()

    def read(data: bytes, folder: Path) -> None:
        for file, one in zip(files, (data, good[1]), strict=True):
            (folder / file.name).write_bytes(one)
        (folder / (files[1].name + STACKS)).write_bytes(stacks if len(data) % 2 else data[:4096])
        found = explain_recordings(folder)
        assert len(as_text(found).split("\n")) <= 10
        json.dumps(as_json(found))

    assert fuzzed("recordings", good, read, seconds)


def small(data: bytes) -> bytes:
    """Returns a recording with the smallest table that its texts fit into, so that damage is likely to change a
    text.
    """
    magic, version, table, *rest = HEAD.unpack_from(data)
    used = int.from_bytes(data[TABLE_AT : TABLE_AT + 8], "little")
    head = HEAD.pack(magic, version, used, *rest) + data[HEAD.size : HEADER_BYTES + used]
    return head + data[HEADER_BYTES + table :]


def faulty(broken: Callable[[bytes, Path], object]) -> Callable[[bytes, Path], object]:
    """Returns a reader that does wrong for some inputs."""
    return lambda data, folder: broken(data, folder) if b"[" in data else None


TWINS = {
    "an exception": (lambda data, folder: data.index(b"never"), "ValueError"),
    "memory": (lambda data, folder: bytes(1 << 30), "MemoryError"),
    "a file outside": (lambda data, folder: open("/etc/hostname").close(), "it touched"),
    "a file that is written": (lambda data, folder: open(__file__, "a").close(), "it touched"),
    "a process": (lambda data, folder: __import__("os").system("true"), "it touched"),
    "a control character": (lambda data, folder: parse_scenario(b"", "\x1b[31m"), ""),
}


@pytest.mark.parametrize("what", TWINS)
def test_a_faulty_reader_is_found(what: str) -> None:
    """The faulty twins: `fuzzed` finds each reader that does wrong. The last one passes, because dpsim removes control
    characters from its errors.
    """
    broken, said = TWINS[what]
    if not said:
        assert fuzzed(what, [b"["], faulty(broken), 0.1)
        return
    with pytest.raises(AssertionError, match=said):
        fuzzed(what, [b""], lambda data, folder: faulty(broken)(data, folder), 2)
