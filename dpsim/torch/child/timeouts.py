"""Time-outs that the program gives to groups and to waits, and what torch raises when one is up.

    init_process_group("gloo", timeout=timedelta(seconds=2))    # each call of the group has 2 s, from its wait on
    work.wait(timedelta(seconds=1))                             # this wait has 1 s

The rules were measured on gloo (torch 2.13):

* the time-out of a wait for a collective: "Operation timed out!". The call goes on, and can be waited for again;
* the time-out of a group, or of a wait for a transfer: "Timed out waiting 2000ms for recv operation to complete".
  From then on each call of this rank on the group raises "Application timeout caused pair closure".

There a peer hears "Connection closed by peer". Here this rank aborts the group, and a peer waits until its own time is
up. The abort goes out before the next thing that the rank does. A rank that ends by the error sends none, since its end
says more. The long time-outs that torch has by default never pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from dpsim.torch.child import clocks, pipe
from dpsim.torch.child.frames import site

CLOSED = "Application timeout caused pair closure"


class LimitedGroup(Protocol):
    """A group that may have a time-out in nanoseconds, and may be closed by one."""

    kind: str
    limit: int | None
    closed: bool


class StartedCall(NamedTuple):
    """A call on a group that was started: its number, and torch's word for it."""

    number: int
    group: LimitedGroup
    word: str


def nanoseconds(timeout: Any) -> int | None:
    """What a program gives as a time-out; None for none. torch's own word for none is a time of 0 or less."""
    ns = 0 if timeout is None else int(timeout.total_seconds() * 1e9)
    return ns if ns > 0 else None


def stand(call: StartedCall, timeout: Any, where: str) -> None:
    """Wait until a call is over, at most as long as the program says. Raises RuntimeError, as torch does."""
    refuse_closed(call.group)
    own, limit = nanoseconds(timeout), call.group.limit
    least = min([ns for ns in (own, limit) if ns is not None], default=None)
    if least is None or pipe.ask(["within", call.number, least, where])[0]:
        return
    clocks.CLOCK.passed += least
    transfer = call.word in ("send", "recv", "recv_any")
    if least == own and not transfer:
        raise RuntimeError("Operation timed out!")
    close(call.group)
    way = "send" if call.word == "send" else "recv"
    ms = least // 1_000_000
    raise RuntimeError(f"[unbound_buffer.cc] Timed out waiting {ms}ms for {way} operation to complete")


def refuse_closed(group: LimitedGroup) -> None:
    """Raise what gloo raises for a group of which a time-out has passed."""
    if group.closed:
        raise RuntimeError(CLOSED)


def close(group: LimitedGroup) -> None:
    """A time-out has passed by which this rank loses its group."""
    group.closed = True
    pipe.owed.append(["abort", group.kind, site("timeout")])
