"""Tests `dpsim export`: pictures of traces and of folders of dumps, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agreeing import HEALTHY, SKIP
from tests.cli.commands import dpsim_, write
from tests.cli.protocols import scenario
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.dumps.test_judgement import HANGS, steps


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    dpsim_("run", write(tmp_path / "x.yaml", HEALTHY + SKIP), "--trace", "x.jsonl")
    return tmp_path / "x.jsonl"


def test_export_writes_the_picture_of_a_trace(trace: Path) -> None:
    done = dpsim_("export", trace)
    assert (done.code, done.err) == (0, "")
    first, last = done.out.splitlines()
    assert first.startswith("VIOLATED  HANG:COLLECTIVE")
    assert last == "picture: x.html"
    assert "waits for rank 1" in Path("x.html").read_text()


def test_the_turning_of_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws a race of a poll with a message. A trace that the program no longer makes has a picture without it."""
    monkeypatch.chdir(tmp_path)
    dpsim_("explore", write(tmp_path / "x.yaml", scenario("t_lost", 2)), "--save", "traces", "--no-results")
    [found] = Path("traces").iterdir()
    for same in (True, False):
        monkeypatch.setattr("dpsim.campaign.replay.Replayed.same", same)
        assert dpsim_("export", found, "-o", "x.html").code == 0
        page = Path("x.html").read_text()
        texts = (
            '"turning   point of no return: ',
            '"          in this run, rank 0 reads',
            '"too early: rank 0 reads mailbox',
        )
        assert [text in page for text in texts] == [same] * 3


TWO_LINES = """
from dpsim import Program, register_protocol
from pydantic import BaseModel


@register_protocol("two_lines")
class TwoLines(Program):
    class Params(BaseModel):
        pass

    @staticmethod
    def ranks(params):
        return 2

    async def run(self, rank, args):
        await rank.host("world").barrier(site="meet")
        if rank.rank:
            rank.decide("size", 7, "world")
        else:
            rank.decide("size", 8, "world")
"""


def test_a_site_with_several_lines_has_the_line_of_each_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace has only the lines of a site. The repeated run shows which rank used which."""
    monkeypatch.chdir(tmp_path)
    write(Path("two_lines.py"), TWO_LINES)
    write(Path("x.yaml"), "{name: two_lines, protocol: two_lines}")
    module = "--module", "two_lines.py"
    dpsim_("run", "x.yaml", *module, "--trace", "x.jsonl", "--no-results")
    for same in (True, False):
        if not same:
            monkeypatch.setattr("dpsim.campaign.replay.Replayed.same", False)
        assert dpsim_("export", "x.jsonl", *module).code == 0
        page = Path("x.html").read_text()
        assert ("rank 0 decided size = 8 at two_lines.py:20" in page) == same
        assert ("two_lines.py:18 or two_lines.py:20" in page) != same


def test_export_writes_trace_events_for_perfetto(trace: Path) -> None:
    assert dpsim_("export", trace, "--format", "perfetto", "-o", "out.json").code == 0
    names = {event["name"] for event in json.loads(Path("out.json").read_text())["traceEvents"]}
    assert "MISSING dp.agree[2]" in names


def test_export_writes_the_picture_of_a_folder_of_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    steps(MadeJob(4), 3, HANGS["absent"][0]).write(folder)
    assert dpsim_("export", "dumps").out.endswith("picture: dumps.html\n")
    assert "waits for rank 2" in Path("dumps.html").read_text()


def test_export_refuses_what_it_cannot_draw_or_write(trace: Path) -> None:
    write(Path("no.jsonl"), "no trace")
    for words in (("no.jsonl",), ("nowhere",), (".",), (trace, "-o", "."), (trace, "-o", trace), (trace, "-o", "no/x")):
        done = dpsim_("export", *words)
        assert (done.code, done.out) == (2, ""), words
        assert done.err.count("\n") == 1
    assert trace.read_text().startswith('{"format"')
