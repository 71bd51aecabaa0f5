"""Tests of messages on a pipe: the receiver gets what the sender wrote, and rejects anything else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from dpsim.torch.messages import FORMS
from dpsim.torch.wire import HEAD, LENGTH, Closed, Garbled, Pipe, checked


@pytest.fixture
def pipes() -> Iterator[tuple[Pipe, Pipe]]:
    ours, its = socket.socketpair()
    with ours, its:
        yield Pipe(ours), Pipe(its)


def test_messages_and_blocks_arrive_in_order(pipes: tuple[Pipe, Pipe]) -> None:
    ours, its = pipes
    ours.send(["step", 1])
    ours.send(["start", 1, "world", "all_reduce", {"site": "a"}], [b"", b"\x00\xff" * 9])
    ours.flush()
    assert its.receive() == (["step", 1], [])
    assert its.receive() == (["start", 1, "world", "all_reduce", {"site": "a"}], [b"", b"\x00\xff" * 9])


def test_a_side_that_left_is_no_message(pipes: tuple[Pipe, Pipe]) -> None:
    ours, its = pipes
    ours.close()
    with pytest.raises(Closed):
        its.receive()


@pytest.mark.parametrize(
    "content",
    [HEAD.pack(1 << 30, 0), HEAD.pack(0, 1 << 30), HEAD.pack(2, 1) + LENGTH.pack(1 << 60), HEAD.pack(3, 0) + b"{{{"],
)
def test_bytes_that_are_no_message_are_garbled(pipes: tuple[Pipe, Pipe], content: bytes) -> None:
    ours, its = pipes
    ours.end.sendall(content)
    with pytest.raises(Garbled):
        its.receive()


@pytest.mark.parametrize(
    "message", [["step"], ["step", "one"], ["no such name"], [], {"step": 1}, ["step", 1, 2], None]
)
def test_another_form_is_garbled(message: object) -> None:
    assert checked(["step", 1], FORMS) == ["step", 1]
    with pytest.raises(Garbled):
        checked(message, FORMS)
