"""Runs docs/from-torch.md from top to bottom, and checks that each call of its table exists."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from dpsim.contract import interface
from dpsim.contract.program import Program
from tests import ROOT
from tests.documents import follow

DOCUMENT = ROOT / "docs" / "from-torch.md"

OBJECTS: dict[str, type[Any]] = {
    "rank": interface.Rank,
    "world": interface.HostCommunicator,
    "device": interface.DeviceCommunicator,
    "work": interface.HostWork,
    "s": interface.Stream,
    "main": interface.Stream,
    "b": interface.Buffer,
    "event": interface.Event,
    "graph": interface.Graph,
    "Program": Program,
}
"""The class of each name in the second column."""

CALL = re.compile(rf"\b({'|'.join(OBJECTS)})\.(\w+)(\(?)")
RETURNS_DATA = ("Awaitable", "HostWork")
TAKES_IT = re.compile(r"(await|work =) $")


def rows(text: str) -> list[tuple[str, str]]:
    """Returns the first two columns of the table."""
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| `") or line.startswith("| a kernel")]
    return [(row[0], row[1]) for row in cells]


def missing_calls(text: str) -> list[str]:
    """Returns the calls of the contract that do not exist, and the rows without any call. A property is no call."""
    missing = []
    for _, own in rows(text):
        calls = CALL.findall(own)
        missing += [f"{name}.{call}" for name, call, called in calls if not _exists(OBJECTS[name], call, bool(called))]
        missing += [] if calls else [own]
    return missing


def _exists(kind: type[Any], name: str, called: bool) -> bool:
    return hasattr(kind, name) and not (called and isinstance(getattr(kind, name), property))


def not_awaited(text: str) -> list[str]:
    """Returns the calls of the second column that return data, and that the column neither awaits nor names `work`."""
    calls = [call for _, own in rows(text) for call in CALL.finditer(own) if call[3]]
    learn = [call for call in calls if _returns(OBJECTS[call[1]], call[2]).startswith(RETURNS_DATA)]
    return [f"{call[1]}.{call[2]}" for call in learn if not TAKES_IT.search(call.string[: call.start()])]


def _returns(kind: type[Any], name: str) -> str:
    return str(inspect.signature(getattr(kind, name)).return_annotation)


def missing_in_torch(text: str) -> list[str]:
    """Returns the names of torch that do not exist."""
    torch = pytest.importorskip("torch")
    dist = pytest.importorskip("torch.distributed")
    places = {"dist": dist, "torch": torch, "torch.cuda": torch.cuda}
    names = re.findall(r"\b(dist|torch\.cuda|torch)\.(\w+)\(", " ".join(left for left, _ in rows(text)))
    return [f"{place}.{name}" for place, name in names if not hasattr(places[place], name)]


def test_each_call_exists() -> None:
    text = DOCUMENT.read_text()
    assert len(rows(text)) >= 30
    assert missing_calls(text) == []
    assert missing_calls(text.replace("world.gather(", "world.collect(")) == ["world.collect"]
    assert missing_calls(text.replace("rank.start(", "rank.thread(")) == ["rank.thread"], "a property"


def test_each_call_that_returns_data_is_awaited() -> None:
    text = DOCUMENT.read_text()
    assert not_awaited(text) == []
    assert not_awaited(text.replace("await world.gather(", "world.gather(")) == ["world.gather"]
    assert not_awaited(text.replace("await b.read(", "b.read(")) == ["b.read"]


def test_each_call_of_torch_exists() -> None:
    text = DOCUMENT.read_text()
    assert missing_in_torch(text) == []
    assert missing_in_torch(text.replace("dist.gather(", "dist.collect(")) == ["dist.collect"]


def test_no_collective_is_left_out() -> None:
    """Checks that the table has each collective of a host communicator."""
    public = [name for name, call in vars(interface.HostCommunicator).items() if hasattr(call, "is_collective")]
    text = DOCUMENT.read_text()
    assert [name for name in public if f"world.{name}(" not in text] == []


@pytest.mark.slow
def test_the_document_does_what_it_says(tmp_path: Path) -> None:
    assert len(follow(DOCUMENT.read_text(), tmp_path)) == 3
