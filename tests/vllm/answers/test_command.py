"""Tests `dpsim check-engine`: with stored answers, with a stand-in package as installed vllm, and with unanswerable
questions.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dpsim_engine.live import installed
from dpsim_engine.stored import VARIABLE
from tests.cli.commands import dpsim_
from tests.vllm.answers.modules import LOGGED
from tests.vllm.answers.stand_in import check_engine, few, found, install

PROCESSES = ["config", "config_hash", "waves", "coordination", "balance"]
"""Kinds that the stand-in answers with dpsim's code under vLLM's signatures, except the last, which has stored rows."""

QUICK = ["decide", "dispatch_v1", "need_mask"]
"""Files whose questions need no torch."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with ten rows of each kind and release, of all files."""
    return few(tmp_path_factory.mktemp("stored") / "answers", 10)


# ---- stored answers


@pytest.mark.slow
def test_check_engine_compares_stored_answers(answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = dpsim_("check-engine", "--stored", "--answers", answers)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == f"stored answers in {answers}"
    assert lines[2].split() == ["kind", "release", "ours", "rows", "equal", "departures", "differing"]
    assert "decide             0.14.0   0.14.0      10    10     0           0" in lines
    assert "captures_004 0.17.0 departs from the engine, as source-004:" in lines
    assert "  seq_lens              the whole batch for each sequence, where 0.17 has the sequence's own share" in lines
    assert lines[-1].startswith("EQUAL  ")
    assert lines[-1].endswith(" depart as they are named")
    monkeypatch.setenv(VARIABLE, str(answers))
    assert dpsim_("check-engine", "--stored").out == answer.out


def test_check_engine_prints_stored_answers_as_json(answers: Path) -> None:
    answer = dpsim_("check-engine", "--stored", "--answers", answers, "--json")
    assert answer.code == 0
    assert list(answer.json) == ["answers", "release", "as", "compared", "not_compared", "verdict"]
    assert (answer.json["release"], answer.json["verdict"]) == (None, "equal")
    (page,) = [one for one in answer.json["compared"] if one["ours"] == "source-004"]
    assert page["departed"] > 0
    assert set(page["reasons"]) == {"query_start_loc", "num_scheduled_tokens", "seq_lens"}
    assert page["equal"] + page["departed"] == page["rows"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--answers", "nowhere"], "nowhere: is no folder with stored answers of the engine (named by --answers)"),
        (
            ["--as", "0.33.0"],
            "--as: treats an installed vllm as another release, but this check compares stored answers",
        ),
        (["--as", "newest"], "--as newest: expected a release of vllm, such as 0.33.0"),
    ],
)
def test_bad_input_of_check_engine_ends_with_2_and_one_line(words: list[str], said: str) -> None:
    answer = dpsim_("check-engine", "--stored", *words)
    assert (answer.code, answer.out, answer.err) == (2, "", f"dpsim: {said}\n")


def rewrite(place: Path, old: str, new: str) -> Path:
    """Returns a folder with a few stored answers of one file, in which `new` replaces the text `old`."""
    folder = few(place / "rewritten", 3, ["need_mask"])
    file = folder / "need_mask.jsonl.gz"
    text = gzip.decompress(file.read_bytes()).decode()
    assert old in text
    file.write_bytes(gzip.compress(text.replace(old, new).encode()))
    return folder


def test_rows_without_an_answer_are_reported(tmp_path: Path) -> None:
    """The report counts rows of a release that dpsim has no function for.

    The faulty twin skips such rows silently and reports the rest as equal.
    """
    answer = dpsim_("check-engine", "--stored", "--answers", rewrite(tmp_path, '"0.24.0"', '"0.9.0"'))
    assert "3 rows left out: dpsim knows this of releases 0.24.0 to now" in answer.out


def test_a_version_that_is_no_release(tmp_path: Path) -> None:
    """A row whose version is not a release is bad input: exit code 2.

    The faulty twin skips such rows and reports the rest as equal.
    """
    answer = dpsim_("check-engine", "--stored", "--answers", rewrite(tmp_path, '"0.24.0"', '"main"'))
    assert (answer.code, answer.out) == (2, "")
    assert "line 1 cannot be read: the version 'main' is no release; expected one such as 0.33.0" in answer.err


def test_answers_that_are_nested_without_end(tmp_path: Path) -> None:
    (tmp_path / "need_mask.jsonl.gz").write_bytes(gzip.compress(b"[" * 100_000))
    answer = dpsim_("check-engine", "--stored", "--answers", tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"dpsim: {tmp_path}/need_mask.jsonl.gz: line 1 cannot be read: ")


# ---- an installed vllm


@pytest.mark.slow
def test_a_function_that_is_gone(answers: Path, tmp_path: Path) -> None:
    """If the installed package lacks one function, its kind is reported as not compared, and all other kinds still are
    equal.

    The log lines of the package go to stderr, so that they are not part of the JSON.
    """
    install(tmp_path / "site", "0.33.0", answers, without="split_attn_metadata")
    done = check_engine(tmp_path / "site", "--answers", answers, "--draws", "0", "--json")
    assert (done.returncode, done.stderr) == (3, f"{LOGGED}\n")
    told = found(done)
    assert (told["release"], told["as"], told["verdict"]) == ("0.33.0", None, "no verdict")
    asked = {one["kind"]: (one["rows"] > 5, one["rows"] == one["equal"]) for one in told["compared"]}
    names = ["decide", "dispatch_v1", "ladder", "need_mask", "slices", "slices_v2", "last_ubatch_empty", *PROCESSES]
    names += ["v2_dispatch", "v2_sync"]
    assert asked == dict.fromkeys(names, (True, True))
    (gone,) = [one for one in told["not_compared"] if one["trouble"]]
    assert gone["kind"] == "metadata"
    assert gone["reason"] == "ImportError: vllm.v1.worker.ubatch_utils has no split_attn_metadata"
    (later,) = [one for one in told["not_compared"] if one["kind"] == "choices_004"]
    assert later["reason"] == "0.33.0 does not contain this function; 0.17.0 does"


@pytest.mark.slow  # test_check.py tests differences in-process
def test_an_answer_that_differs(tmp_path: Path) -> None:
    answers = few(tmp_path / "answers", 10, QUICK)
    install(tmp_path / "site", "0.33.0", answers, wrong=True)
    done = check_engine(tmp_path / "site", "--answers", answers, "--draws", "0")
    assert (done.returncode, done.stderr) == (1, f"{LOGGED}\n")
    lines = done.stdout.splitlines()
    assert lines[0] == f"vllm 0.33.0, as it is installed; questions in {answers}"
    assert lines[-1] == "DIFFERENT  1 of 30 rows, in need_mask 0.33.0"
    at = lines.index("need_mask 0.33.0 differs first in batch 0, in answer:")
    shown = dict(line.split(maxsplit=1) for line in lines[at + 1 : at + 6])
    assert list(shown) == ["question", "engine", "dpsim", "asked", "ours"]
    assert shown["question"].startswith('{"version": "0.33.0", "batch": 0, "num_computed_tokens": [')
    assert shown["engine"] != shown["dpsim"]
    assert shown["asked"] == "vllm.v1.worker.gpu.pp_utils.compute_need_sampled_mask"
    assert shown["ours"].startswith("dpsim/vllm/pipeline/need_mask.py:")


def test_an_unknown_release_is_refused(answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check-engine` refuses an unknown release before it imports the package, and names the supported releases."""
    monkeypatch.setattr(installed, "installed", lambda: "0.99.1")
    answer = dpsim_("check-engine", "--answers", answers)
    assert (answer.code, answer.err) == (3, "")
    known = "release 0.99.1 is not known; dpsim knows 0.14, 0.17 to 0.33; --as RELEASE treats it as one of them"
    assert any(line.split() == f"dispatch_v1, metadata {known}".split() for line in answer.out.splitlines()), answer.out
    assert answer.out.splitlines()[-1] == "NO VERDICT  15 kinds could not be asked; 0 of 0 rows are equal"


@pytest.mark.slow
def test_the_option_as_compares_with_another_release(tmp_path: Path) -> None:
    answers = few(tmp_path / "answers", 10, QUICK)
    install(tmp_path / "site", "0.99.1", answers, like="0.33.0")
    taken = check_engine(tmp_path / "site", "--answers", answers, "--draws", "0", "--as", "0.33.0")
    assert (taken.returncode, taken.stderr) == (0, f"{LOGGED}\n")
    assert taken.stdout.startswith("vllm 0.99.1, as it is installed, taken for 0.33.0; ")
    assert taken.stdout.splitlines()[-1] == "EQUAL  30 of 30 rows are equal"


def test_a_release_without_a_number(answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "installed", lambda: "unknown (RuntimeError: no device)")
    answer = dpsim_("check-engine", "--answers", answers)
    assert answer.code == 3
    assert (
        "the installed release is not known: unknown (RuntimeError: no device); name it with --as RELEASE" in answer.out
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "kinds"),
    [
        ("0.14.0", ["decide", "dispatch_v1", "slices", "last_ubatch_empty", "metadata", *PROCESSES]),
        ("0.17.0", ["decide", "dispatch_v1", "ladder", "sizes_004", "choices_004"]),
        (
            "0.33.0",
            [
                *("decide", "dispatch_v1", "ladder", "need_mask", "slices", "slices_v2", "last_ubatch_empty"),
                *("metadata", "v2_dispatch", "v2_sync", *PROCESSES),
            ],
        ),
    ],
)
def test_all_that_a_release_can_be_asked(release: str, kinds: list[str], tmp_path: Path) -> None:
    """All stored rows of a release, asked through a stand-in, are equal.

    Release 0.17.0 has no rows of slices, hashes, balance.
    """
    pytest.importorskip("torch")
    answers = few(tmp_path / "answers", 5000)
    if release == "0.17.0":
        for file in ("slices", "config", "balance"):
            (answers / f"{file}.jsonl.gz").unlink()
    install(tmp_path / "site", release, answers)
    done = check_engine(tmp_path / "site", "--answers", answers, "--draws", "0", "--json")
    assert done.returncode == 0, done.stdout
    told = found(done)["compared"]
    assert [one["kind"] for one in told] == kinds
    assert all(one["equal"] == one["rows"] >= 100 for one in told)
