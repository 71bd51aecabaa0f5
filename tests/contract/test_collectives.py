"""Tests that the files of `dpsim.contract.collectives` and the methods of the communicators declare the same
collectives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from dpsim.backend.calls.communicators import JournaledDeviceCommunicator
from dpsim.backend.hosts.host_communicators import JournaledHostCommunicator
from dpsim.contract import collectives
from dpsim.contract.collectives import COLLECTIVES, role
from dpsim.contract.collectives.reductions import REDUCTIONS
from dpsim.contract.collectives.rules import CollectiveRules
from dpsim.contract.interface import DeviceCommunicator, HostCommunicator
from dpsim.contract.ops import ReduceOp

SIDES = [(HostCommunicator, "on_host"), (DeviceCommunicator, "on_device")]

SHARED_FILES = {"__init__", "arguments", "reductions", "rules", "sent"}


def arguments(call: Callable[..., Any]) -> list[str]:
    """Returns the parameters and the return type of a call, as text. It leaves out the first parameter, the
    communicator.
    """
    signature = inspect.signature(call)
    return [*map(str, [*signature.parameters.values()][1:]), str(signature.return_annotation)]


@pytest.mark.parametrize(("communicator", "side"), SIDES)
def test_the_contract_and_the_files_have_the_same_calls(communicator: type[Any], side: str) -> None:
    listed = {name for name, call in vars(communicator).items() if getattr(call, "is_collective", False)}
    assert listed == {name for name, rules in COLLECTIVES.items() if getattr(rules, side) is not None}
    for name in listed:
        assert arguments(getattr(COLLECTIVES[name], side)) == arguments(getattr(communicator, name)), name


def test_a_call_of_other_arguments_is_seen() -> None:
    reduce, broadcast = HostCommunicator.reduce, COLLECTIVES["broadcast"].on_host
    assert broadcast is not None
    assert arguments(broadcast) != arguments(reduce)


@pytest.mark.parametrize("kind", [JournaledHostCommunicator, JournaledDeviceCommunicator])
def test_a_backend_has_left_to_write_how_things_start(kind: Any) -> None:
    assert {name for name in kind.__abstractmethods__ if not name.startswith("_")} == set()
    assert kind.__abstractmethods__


def test_there_is_no_file_without_a_signature() -> None:
    [folder] = collectives.__path__
    assert {path.stem for path in Path(folder).glob("*.py")} == {*COLLECTIVES} | SHARED_FILES


def test_each_reduction_has_its_line() -> None:
    assert {*REDUCTIONS} == {*get_args(ReduceOp)}


@pytest.mark.parametrize(("name", "rules"), COLLECTIVES.items())
def test_a_member_that_receives_nothing_waits_for_no_member(name: str, rules: CollectiveRules) -> None:
    """A member waits only for members that contribute elements. A member that receives none waits for no other
    member.
    """
    members = (3, 5, 8)
    for rank, root in product(members, members if rules.rooted else [None]):
        awaited = {*rules.awaits((name, 6, "int32", root, None, ()), rank, members)} - {rank}
        assert all(role(name, root, one).gives for one in awaited)
        assert role(name, root, rank).gets or not awaited
        assert any(role(name, root, rank))
