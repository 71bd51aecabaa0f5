"""Tests of mailboxes: one reader serves all senders, and no sender can block it."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator

import pytest

from real.mail import Mail


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:  # a socket's path has to be short
        yield folder


def test_a_sender_that_stops_mid_message_blocks_no_reader(folder: str) -> None:
    """Stops a sender within a message, as a signal may do. The reader still takes the messages of other senders."""
    mail = Mail(folder, 0)
    mail.begin(7, 1)
    senders = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for sender in senders:
        sender.connect(f"{folder}/0")
    slow, quick = senders
    slow.sendall(b'[7,"box",')
    quick.sendall(b'[7,"box",["quick",1]]\n[6,"box","of another job"]\n')
    box = mail.box("box")
    assert box.get(timeout=60) == ("quick", 1)
    slow.sendall(b'["slow",2]]\n[7,"bo')
    slow.close()
    assert box.get(timeout=60) == ("slow", 2)
    quick.sendall(b'[7,"box","last"]\n')
    assert box.get(timeout=60) == "last"
    quick.close()
