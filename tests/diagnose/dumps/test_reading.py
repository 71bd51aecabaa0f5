"""Tests of reading folders of dumps: which files are merged, which are other evidence, and which errors are raised."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpsim.diagnose.dumps.beginning import is_dump
from dpsim.diagnose.dumps.entries import DumpError
from dpsim.diagnose.dumps.job import job_of
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from tests.diagnose.dumps.made import MadeJob


def made() -> MadeJob:
    job = MadeJob(2)
    job.call([0, 1])
    job.call([0])
    return job


def test_pickle_and_json_say_the_same(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for at, folder in enumerate(folders):
        folder.mkdir()
        made().write(folder, as_json=bool(at))
    one, other = (read_dumps(folder) for folder in folders)
    assert one.ranks[0].calls == other.ranks[0].calls
    assert one.members == other.members == {"0": (0, 1)}


def test_files_of_a_rank_are_merged(tmp_path: Path) -> None:
    """Reads both formats of one recorder, of which the JSON has no stacks, and another recorder's dump."""
    job = made()
    job.write(tmp_path)
    plain = job.dump(0)
    bare = {**plain, "entries": [{k: v for k, v in one.items() if k != "frames"} for one in plain["entries"]]}
    (tmp_path / "nccl_rank_0.json").write_text(json.dumps(bare))
    other = MadeJob(2, "gloo")
    other.call([0, 1], "barrier")
    other.write(tmp_path)
    dumps = read_dumps(tmp_path)
    calls = dumps.ranks[0].calls
    assert [call.group for call in calls if call.group.startswith("gloo")] == ["gloo:0"]
    assert [call.place.line for call in calls if call.group == "nccl:0"] == ["train.py:10"] * 2
    assert not dumps.ranks[0].moved


def test_a_ring_that_has_wrapped_is_known(tmp_path: Path) -> None:
    job = made()
    job.entries[0] = job.entries[0][1:]
    dumps = read_dumps(job.write(tmp_path))
    assert (dumps.ranks[0].wrapped, dumps.ranks[1].wrapped) == (frozenset({"nccl"}), frozenset())


def test_calls_of_a_coalesced_group_end_with_it(tmp_path: Path) -> None:
    """Reads a coalesced group. Its calls have no state and end with the group. In the twin the entry that ends the
    group is missing, and the calls are not over.
    """
    for closed in (True, False):
        job = MadeJob(2)
        job.transfer(0, 1, sides="send")
        job.transfer(1, 0, sides="recv")
        if closed:
            closing = job._entry(0, "default_pg", "coalesced", 16, 20, "Float", 0, 1)
            job.over(closing)
        folder = tmp_path / str(closed)
        folder.mkdir()
        calls = read_dumps(job.write(folder)).ranks[0].calls
        assert [(call.shape.op, call.over) for call in calls] == [("send", closed), ("recv", closed)]


def test_an_older_dump_is_read(tmp_path: Path) -> None:
    """Reads format 2.1, which counts by `seq_id` and `id`, and has no `retired`."""
    job = made()
    job.version = "2.1"
    renamed = {"collective_seq_id": "seq_id", "record_id": "id"}
    for own in job.entries.values():
        for at, one in enumerate(own):
            kept = {renamed.get(key, key): value for key, value in one.items()}
            own[at] = {key: value for key, value in kept.items() if key not in ("retired", "p2p_seq_id", "op_id")}
    calls = read_dumps(job.write(tmp_path)).ranks[0].calls
    assert [(call.seq, call.over) for call in calls] == [(1, True), (2, False)]


def test_gloo_lists_no_ranks(tmp_path: Path) -> None:
    """Reads dumps of gloo without lists of ranks. The output sizes of an all_gather show the number of ranks."""
    job = MadeJob(4, "gloo")
    job.call([0, 1, 2, 3], "all_gather", 4)
    for own in job.entries.values():
        own[0]["output_sizes"] = [[4, 4]]
    job.call([0, 1, 2])
    found = job_of(read_dumps(job.write(tmp_path, without=[3])))
    assert (found.ranks, found.missing) == ((0, 1, 2, 3), (3,))


def test_the_reader_ignores_other_files(tmp_path: Path) -> None:
    made().write(tmp_path)
    for name in ("truth.json", "README.md", "rank_0.log"):
        (tmp_path / name).write_text("anything")
    assert [*read_dumps(tmp_path).ranks] == [0, 1]


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    dump = made().dump(0)
    change(dump)
    return pickle.dumps(dump, protocol=2)


def entry(**fields: Any) -> bytes:
    return changed(lambda dump: dump["entries"][1].update(fields))


BAD = {
    "empty": (b"", "the file is empty"),
    "text": (b"no dump", ":1: neither JSON nor a pickle"),
    "a list": (b"[1]", "no `entries`"),
    "another JSON": (b'{"a": 1}', "no `entries`"),
    "nested": (b'{"entries":' + b"[" * 5_000, "neither JSON nor a pickle"),
    "a call": (pickle.dumps(print, protocol=2), "plain data alone"),
    "cut off": (pickle.dumps(made().dump(0), protocol=2)[:-20], "the file ends early, at byte"),
    "JSON that is cut off": (json.dumps(made().dump(0)).encode()[:300], "the file ends early, at byte 300: .* again"),
    "JSON that is wrong": (b'{"entries": [tr]}', ":1: neither JSON nor a pickle"),
    "two pickles": (2 * pickle.dumps(made().dump(0), protocol=2), r"the pickle ends at byte .* more bytes\. a file"),
    "no version": (changed(lambda dump: dump.pop("version")), "`version` is none; expected '2.10'"),
    "a newer version": (changed(lambda dump: dump.update(version="3.0")), "`version` is '3.0'; expected '2.10'"),
    "entries that are none": (changed(lambda dump: dump.update(entries={})), "`entries` is a value of type dict"),
    "an entry that is none": (changed(lambda dump: dump["entries"].append(5)), r"entries\[2\]: is a value of type int"),
    "no sequence": (entry(collective_seq_id="6"), r"entries\[1\]: `collective_seq_id` is a value of type str"),
    "no sizes": (entry(input_sizes=[["a"]]), r"entries\[1\]: `input_sizes`"),
    "no group": (entry(process_group="0"), r"entries\[1\]: `process_group`"),
    "an unknown state": (entry(state="asleep"), r"entries\[1\]: `state`"),
    "no frames": (entry(frames=[{"name": 1, "filename": "a", "line": 2}]), r"entries\[1\]: `frames`"),
    "no name": (changed(lambda dump: dump["entries"][1].pop("profiling_name")), r"entries\[1\]: no 'profiling_name'"),
    "ranks that are none": (changed(lambda dump: dump["pg_config"]["0"].update(ranks="[a")), "`pg_config`"),
    "a rank below zero": (changed(lambda dump: dump["pg_config"]["0"].update(ranks="[-1]")), "no list of ranks"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_named(what: str, tmp_path: Path) -> None:
    data, says = BAD[what]
    made().write(tmp_path)
    (tmp_path / "nccl_rank_0").write_bytes(data)
    with pytest.raises(DumpError, match=says) as caught:
        read_dumps(tmp_path)
    said = str(caught.value)
    assert "nccl_rank_0" in said
    assert "expected" in said or "leave the folder" in said
    assert said.count("\n") == 0


def test_a_folder_without_dumps_is_named(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="no dump in it; expected"):
        read_dumps(tmp_path)
    with pytest.raises(DumpError, match="there is no such folder"):
        read_dumps(tmp_path / "x")


def test_a_dump_is_known_by_its_beginning() -> None:
    assert is_dump(pickle.dumps(made().dump(0), protocol=2))
    assert is_dump(json.dumps(made().dump(0)).encode())
    assert not is_dump(b"name: my\nprotocol: largest\n")
    assert not is_dump(b'{"format":"dpsim-trace"')


def test_two_dumps_that_differ_show_a_job_that_moves(tmp_path: Path) -> None:
    """Compares two dumps of each rank. If they differ, the job was running; if they are equal, it hung."""
    for later in (False, True):
        job = made()
        folders = [tmp_path / f"{later}{at}" for at in (1, 2)]
        for folder in folders:
            folder.mkdir()
        job.write(folders[0])
        if later:
            job.call([1])
        job.write(folders[1])
        found = judge_dumps(read_dumps(*folders))
        assert found.outcome == ("moving" if later else "hang")
        assert found.culprit is None or not later
