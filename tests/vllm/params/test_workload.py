"""Tests the requests of a scenario: synthetic, written in the file, or read from a trace."""

from __future__ import annotations

import cProfile
import doctest
import random
from collections.abc import Callable
from decimal import getcontext
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.scenario import FileMissing, Scenario, ScenarioError, scenario_from
from dpsim.vllm.data_parallel.timeline import Timeline
from dpsim.vllm.params import arguments, communicators, small
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.params.workload import azure_csv as reader
from dpsim.vllm.params.workload import requests as made_of
from dpsim.vllm.params.workload.azure_csv import read_azure_csv
from dpsim.vllm.params.workload.model import Lengths, Synthetic
from dpsim.vllm.params.workload.requests import draw, find_file

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
ROW = "2023-11-16 18:17:03.9799600,4808,10"


def scenario(**workload: Any) -> Scenario:
    return scenario_from({"name": "made", "workload": workload})


# ---- written out


def test_written_requests_are_read() -> None:
    written = [
        {"arrival": "20ms", "prompt_tokens": 3, "output_tokens": 1, "force_eager": True},
        {"prompt_tokens": 4, "output_tokens": 2, "abort": "60ms"},
    ]
    assert scenario(requests=written).requests() == [
        Request(20_000_000, 3, 1, None, None, True),
        Request(0, 4, 2, 60_000_000),
    ]
    assert len(scenario(requests=written, limit=1).requests()) == 1
    assert len(scenario(requests=written, limit=5).requests()) == 2


# ---- synthetic

SHORT = Lengths(min=10, max=99)
MADE_UP = Synthetic(requests=500, seed=7, rate=20, prompt_tokens=SHORT, output_tokens=Lengths(min=1, max=9))


def test_synthetic_requests_never_change() -> None:
    """Synthetic requests are equal with each version of Python and of the C library: the expected numbers are
    constants.
    """
    found = draw(MADE_UP)
    assert [request[:3] for request in found[:3]] == [(19565742, 23, 6), (23325431, 58, 4), (26312874, 55, 1)]
    long = Synthetic(
        requests=3, seed=1, prompt_tokens=Lengths(min=1, max=10**6, distribution="log_uniform"), output_tokens=SHORT
    )
    assert [request[:3] for request in draw(long)] == [(0, 121507, 78), (0, 938, 50), (0, 53993, 18)]


def test_synthetic_is_independent_of_global_state() -> None:
    before = draw(MADE_UP)
    random.seed(3)
    state, precision = random.getstate(), getcontext().prec
    assert draw(MADE_UP) == before
    assert (random.getstate(), getcontext().prec) == (state, precision)


def test_synthetic_means_what_it_says() -> None:
    found = draw(MADE_UP.model_copy(update={"requests": 2000}))
    assert {request.prompt_tokens for request in found} == set(range(10, 100))
    assert {request.output_tokens for request in found} == set(range(1, 10))
    assert found[-1].arrival_ns / 1e9 == pytest.approx(2000 / 20, rel=0.1)
    gaps = [b.arrival_ns - a.arrival_ns for a, b in pairwise(found)]
    assert sum(gap > 50_000_000 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.05)  # exponential: 1/e


def test_rate_changes_arrivals_only_and_none_means_at_once() -> None:
    slow, fast, at_once = (draw(MADE_UP.model_copy(update={"rate": rate})) for rate in (1, 100, None))
    assert (
        [request[1:] for request in slow] == [request[1:] for request in fast] == [request[1:] for request in at_once]
    )
    assert {request.arrival_ns for request in at_once} == {0}
    assert slow[-1].arrival_ns == pytest.approx(100 * fast[-1].arrival_ns, rel=1e-6)


def test_limit_takes_the_first_and_draws_no_more() -> None:
    source = MADE_UP.model_dump() | {"requests": 1_000_000}
    assert scenario(synthetic=source, limit=3).requests() == draw(MADE_UP)[:3]


@given(
    st.integers(1, 1000), st.integers(0, 1000), st.sampled_from(["uniform", "log_uniform"]), st.integers(0, 2**64 - 1)
)
def test_lengths_stay_within_their_bounds(low: int, more: int, distribution: Any, seed: int) -> None:
    lengths = Lengths(min=low, max=low + more, distribution=distribution)
    for request in draw(Synthetic(requests=5, seed=seed, prompt_tokens=lengths, output_tokens=lengths)):
        assert low <= request.prompt_tokens <= low + more
        assert low <= request.output_tokens <= low + more


def test_log_uniform_has_many_short_ones() -> None:
    lengths = Lengths(min=1, max=999, distribution="log_uniform")
    found = draw(Synthetic(requests=1000, prompt_tokens=lengths, output_tokens=SHORT))
    shares = [sum(10**k <= request.prompt_tokens < 10 ** (k + 1) for request in found) / 1000 for k in range(3)]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.06)


# ---- Azure CSV: good files


def write(folder: Path, text: str | bytes) -> Path:
    file = folder / "trace.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n", "\r\n\r\n"])
def test_reads_rows_exactly(tmp_path: Path, end: str, last: str) -> None:
    rows = [HEADER, "2023-11-16 18:17:03.9799600,4808,10", "2023-11-16 18:17:04.0319601,3180,8"]
    found = read_azure_csv(write(tmp_path, end.join(rows) + last))
    assert found == [Request(0, 4808, 10), Request(52_000_100, 3180, 8)]


@pytest.mark.parametrize(
    ("time", "arrival"),
    [
        ("2023-11-17 00:00:00", 10**9),
        ("2023-11-16T23:59:59.5", 500_000_000),
        ("2023-11-16 23:59:59.000000001", 1),
        ("2024-02-29 23:59:59", 105 * 86_400 * 10**9),
        ("2023-11-17 00:00:00.009930+00:00", 1_009_930_000),
        ("2023-11-17 00:00:00Z", 10**9),
    ],
)
def test_times_of_a_trace_are_relative_to_its_first_row(tmp_path: Path, time: str, arrival: int) -> None:
    file = write(tmp_path, f"{HEADER}\n2023-11-16 23:59:59,1,1\n{time},2,2\n")
    assert read_azure_csv(file)[1] == Request(arrival, 2, 2)


def test_rows_out_of_order_keep_their_place(tmp_path: Path) -> None:
    """Arrivals count from the earliest row. The reader keeps the order of rows, and the scheduler sorts them."""
    file = write(tmp_path, f"{HEADER}\n2023-11-16 18:17:05,1,1\n2023-11-16 18:17:03,2,2\n")
    assert read_azure_csv(file) == [Request(2 * 10**9, 1, 1), Request(0, 2, 2)]


def test_quotes_blanks_and_a_byte_order_mark(tmp_path: Path) -> None:
    file = write(tmp_path, '\ufeff"TIMESTAMP","ContextTokens", GeneratedTokens\n\n"2023-11-16 18:17:05", "1",2 \n')
    assert read_azure_csv(file) == [Request(0, 1, 2)]


def test_limit_stops_before_bad_rows(tmp_path: Path) -> None:
    file = write(tmp_path, f"{HEADER}\n{ROW}\nrubbish\n")
    assert len(read_azure_csv(file, 1)) == 1


# ---- Azure CSV: bad files

BAD = [
    ("", "1", "an empty file; expected the header"),
    (HEADER, "1", "no requests after the header"),
    (f"{HEADER}\n\n", "2", "no requests after the header"),
    (ROW, "1", f"expected {HEADER}; the header line is missing"),
    ("Timestamp,Model,Request tokens", "1", "wrong header 'Timestamp,Model,Request tokens'; expected"),
    ("\n" + HEADER, "1", "wrong header ''"),
    (f"{HEADER}\n{ROW}\n2023-11-16 18:17:04,3180", "3", "2 fields in '2023-11-16 18:17:04,3180'; expected 3"),
    (f"{HEADER}\n{ROW},7", "2", "4 fields"),
    (f"{HEADER}\nx", "2", "1 field in 'x'; expected 3"),
    (f"{HEADER}\nyesterday,1,1", "2", "TIMESTAMP 'yesterday' is no time; expected e.g. 2023-"),
    (f"{HEADER}\n2023-02-29 00:00:00,1,1", "2", "is no time"),
    (f"{HEADER}\n2023-11-16 25:00:00,1,1", "2", "is no time"),
    (f"{HEADER}\n2023-11-16 18:17:03.1234567890,1,1", "2", "is no time"),
    (f"{HEADER}\n2023-11-16 18:17:03+01:00,1,1", "2", "is no time"),
    (f"{HEADER}\n2023-11-16 18:17:03,many,1", "2", "ContextTokens 'many' is no whole number; expected 1 to"),
    (f"{HEADER}\n2023-11-16 18:17:03,1,-5", "2", "GeneratedTokens '-5' is no whole number"),
    (f"{HEADER}\n2023-11-16 18:17:03,1.5,5", "2", "ContextTokens '1.5' is no whole number"),
    (f"{HEADER}\n2023-11-16 18:17:03,1,", "2", "GeneratedTokens '' is no whole number"),
    (f"{HEADER}\n2023-11-16 18:17:03,0,5", "2", "ContextTokens 0 is out of range"),
    (f"{HEADER}\n2023-11-16 18:17:03,5,0", "2", "GeneratedTokens 0 is out of range"),
    (f"{HEADER}\n2023-11-16 18:17:03,99999999999,5", "2", "ContextTokens 99999999999 is out of range"),
    (f"{HEADER}\n2023-11-16 18:17:03,{'9' * 900},5", "2", "is no whole number"),
    (f"{HEADER}\n{'9' * 5000},1,5", "2", "a line of more than 1000 characters"),
    (b"\x89PNG\r\n\x1a\n\0\0\0", "1", "the byte 0x89 in a row; expected plain ASCII"),
    (HEADER.encode() + b"\n2023-11-16\0,1,1", "2", "control characters"),
    (f"{HEADER}\n\u0662\u0660\u0662\u0663-11-16 18:17:03,1,1", "2", "the byte 0xd9"),
    (HEADER.encode("utf-16"), "1", "the byte 0xff"),
]


@pytest.mark.parametrize(("content", "line", "says"), BAD)
def test_bad_rows_are_named(tmp_path: Path, content: str | bytes, line: str, says: str) -> None:
    file = write(tmp_path, content)
    with pytest.raises(ScenarioError) as caught:
        read_azure_csv(file)
    said = str(caught.value)
    assert said.startswith(f"{file}:{line}: ")
    assert says in said
    assert len(said) < len(str(file)) + 300
    assert not isinstance(caught.value, FileMissing)


def test_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_REQUESTS", 3)
    file = write(tmp_path, f"{HEADER}\n" + f"{ROW}\n" * 4)
    with pytest.raises(ScenarioError, match=r":5: more than 3 requests; expected a limit"):
        read_azure_csv(file)
    assert len(read_azure_csv(file, 3)) == 3
    with pytest.raises(ScenarioError, match=r":5: more than 3 requests"):
        read_azure_csv(write(tmp_path, f"{HEADER}\n{ROW}\n" + "\n" * 40))


def test_a_million_rows_take_seconds(tmp_path: Path) -> None:
    """Reading a row and drawing a request need few function calls, so a million rows take seconds.

    The test counts calls instead of time. `strptime` and decimal logarithms once took half a minute.
    """
    file = write(tmp_path, f"{HEADER}\n" + f"{ROW}\n" * 1_000)
    assert calls(lambda: read_azure_csv(file)) < 45 * 1_000
    lengths = Lengths(min=5, max=50, distribution="log_uniform")
    made = Synthetic(requests=1_000, rate=20.0, prompt_tokens=lengths, output_tokens=lengths)
    assert calls(lambda: draw(made)) < 25 * 1_000


def calls(work: Callable[[], object]) -> int:
    """Returns how many functions Python calls, including those in C."""
    with cProfile.Profile() as profile:
        work()
    return sum(entry.callcount for entry in profile.getstats())


def test_floats_decide_as_decimals_do() -> None:
    """Floats decide a drawn length or gap only if they are far enough from a whole number; else decimals decide.

    So the fast way gives the same numbers as decimals alone. A faulty twin that rounds each float would be wrong near
    whole numbers.
    """
    draws, near = random.Random(3), 0
    for _ in range(2_000):
        low, uniform = draws.randrange(1, 1_000), draws.choice([0.0, draws.random(), 0.5])
        lengths = Lengths(min=low, max=low * draws.choice([1, 4, 1_000]) + 3, distribution="log_uniform")
        rate = draws.choice([0.001, 1.0, 1e9])
        found = made_of._length(uniform, lengths), made_of._exponential(uniform, rate)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(made_of, "_whole", lambda number, error: None)
            assert found == (made_of._length(uniform, lengths), made_of._exponential(uniform, rate))
        near += made_of._whole(lengths.min * 1.0, 1e-13) is None
    assert near == 2_000
    assert (made_of._whole(2.5, 1e-13), made_of._whole(3.0 - 1e-12, 1e-13)) == (2, None)


def test_folder_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="a folder; expected a CSV file"):
        read_azure_csv(tmp_path)
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        read_azure_csv(tmp_path / "none.csv")
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_azure_csv(Path("a\0b"))


# ---- where files are looked for


def test_places_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, data = tmp_path / "beside", tmp_path / "data"
    for folder, tokens in (beside, 1), (data, 2):
        folder.mkdir()
        (folder / "both.csv").write_text(f"{HEADER}\n2023-11-16 18:17:03,{tokens},1")
    (data / "only.csv").write_text(f"{HEADER}\n2023-11-16 18:17:03,3,1")
    monkeypatch.setenv("DPSIM_DATA", str(data))
    assert scenario(azure_csv={"file": "both.csv"}).requests(beside)[0].prompt_tokens == 1
    assert scenario(azure_csv={"file": "only.csv"}).requests(beside)[0].prompt_tokens == 3
    assert scenario(azure_csv={"file": str(data / "both.csv")}).requests(beside)[0].prompt_tokens == 2
    monkeypatch.chdir(beside)
    assert scenario(azure_csv={"file": "both.csv"}).requests()[0].prompt_tokens == 1


def test_missing_file_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSIM_DATA", "/the/data")
    with pytest.raises(FileMissing) as caught:
        find_file("none.csv", tmp_path)
    said = str(caught.value)
    assert said.startswith("none.csv: the workload's file is in none of the folders")
    assert str(tmp_path.resolve()) in said
    assert "/the/data" in said
    monkeypatch.delenv("DPSIM_DATA")
    with pytest.raises(FileMissing, match="DPSIM_DATA, which is not set"):
        find_file("none.csv", tmp_path)


@pytest.mark.parametrize("way", ["/etc/passwd", "../secret.csv", "below/../../secret.csv", "link.csv", "{}/secret.csv"])
def test_no_file_outside_is_opened(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dpsim refuses a workload file outside the scenario's folder, because an error message would quote its first line.

    Files inside the folder are allowed, and so are absolute paths below DPSIM_DATA.
    """
    folder = tmp_path / "scenarios"
    (folder / "below").mkdir(parents=True)
    (tmp_path / "secret.csv").write_text("root:x:0:0\n")
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    for inside in ("a.csv", "below/a.csv"):
        (folder / inside).write_text(f"{HEADER}\n{ROW}")
        assert find_file(inside, folder) == folder / inside
    assert find_file(str(folder / "a.csv"), folder) == folder / "a.csv"
    assert find_file("below/../a.csv", folder).samefile(folder / "a.csv")
    monkeypatch.delenv("DPSIM_DATA", raising=False)
    with pytest.raises(FileMissing) as caught:
        scenario(azure_csv={"file": way.format(tmp_path)}).requests(folder)
    assert "root:x" not in str(caught.value)
    monkeypatch.setenv("DPSIM_DATA", str(tmp_path))
    assert find_file(str(tmp_path / "secret.csv"), folder).is_file()


# ---- the real traces


@pytest.mark.parametrize(
    ("name", "count", "second", "last"),
    [
        ("code", 8819, Request(52_000_000, 3180, 8), Request(3_435_948_056_000, 549, 173)),
        ("conv", 19366, Request(4_314_579_000, 396, 109), Request(3_501_721_937_000, 197, 183)),
    ],
)
def test_real_traces_have_their_known_requests(
    dpsim_data: Path, name: str, count: int, second: Request, last: Request
) -> None:
    found = scenario(azure_csv={"file": f"AzureLLMInferenceTrace_{name}.csv"}).requests(dpsim_data)
    assert len(found) == count
    assert (found[1], found[-1]) == (second, last)
    assert sorted(found, key=lambda request: request.arrival_ns) == found


def test_real_requests_can_be_scheduled(dpsim_data: Path) -> None:
    traced = scenario(azure_csv={"file": "AzureLLMInferenceTrace_code.csv"}, limit=200)
    found = traced.requests(dpsim_data)
    timeline = Timeline(found, 4, traced.config, traced.workload.step_duration)
    scheduled = sum(batch.num_tokens for step in range(timeline.steps) for batch in timeline.batches(step))
    assert scheduled == sum(request.prompt_tokens + request.output_tokens - 1 for request in found)


@pytest.mark.parametrize("module", [arguments, communicators, made_of, small])
def test_examples_in_docstrings(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
