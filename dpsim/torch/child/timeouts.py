"""Time-outs that a program gives to groups and to waits, and the errors that torch raises when such a time-out passes.

    init_process_group("gloo", timeout=timedelta(seconds=2))    # 2 s for each call of the group, from its wait on
    work.wait(timedelta(seconds=1))                             # 1 s for this wait

dpsim follows what we measured on gloo (torch 2.13):

* If the time-out of a wait for a collective passes: "Operation timed out!". The call continues, and the program may
  wait for it again.
* If the time-out of a group passes, or of a wait for a transfer: "Timed out waiting 2000ms for recv operation to
  complete". After this, each call of the rank on that group raises "Application timeout caused pair closure".

The peers then raise "Connection closed by peer" on gloo. In dpsim, a peer waits until its own time-out passes. The rank
aborts the group before its next message. If the error ends the rank, dpsim reports that end, and there is no abort. The
default time-outs of torch never pass in dpsim.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from dpsim.torch.child import clocks, pipe
from dpsim.torch.child.frames import site
from dpsim.torch.child.in_flight import TensorsInFlight

CLOSED = "Application timeout caused pair closure"


class LimitedGroup(Protocol):
    """A group with a time-out `limit` in nanoseconds, or None. `closed`: a call has timed out."""

    kind: str
    limit: int | None
    closed: bool


class StartedCall(NamedTuple):
    """A call that a rank started on a group: its number, its group, its name in torch, and its tensors."""

    number: int
    group: LimitedGroup
    word: str
    tensors: TensorsInFlight


def nanoseconds(timeout: Any) -> int | None:
    """Returns a time-out in nanoseconds, or None for no time-out. As in torch, 0 or less means no time-out."""
    ns = 0 if timeout is None else int(timeout.total_seconds() * 1e9)
    return ns if ns > 0 else None


def stand(call: StartedCall, timeout: Any, where: str) -> None:
    """Blocks until a call is over. Raises RuntimeError with torch's text after `timeout` or the group's time-out."""
    refuse_closed(call.group)
    own, limit = nanoseconds(timeout), call.group.limit
    least = min([ns for ns in (own, limit) if ns is not None], default=None)
    if least is None or pipe.ask(["within", call.number, least, where])[0]:
        return
    clocks.clock().passed += least
    transfer = call.word in ("send", "recv", "recv_any")
    if least == own and not transfer:
        raise RuntimeError("Operation timed out!")
    close(call.group)
    way = "send" if call.word == "send" else "recv"
    ms = least // 1_000_000
    raise RuntimeError(f"[unbound_buffer.cc] Timed out waiting {ms}ms for {way} operation to complete")


def refuse_closed(group: LimitedGroup) -> None:
    """Raises the RuntimeError of gloo if a call of the group has timed out before."""
    if group.closed:
        raise RuntimeError(CLOSED)


def close(group: LimitedGroup) -> None:
    """Marks the group as closed after a time-out, and queues the abort for dpsim."""
    group.closed = True
    pipe.owed.append(["abort", group.kind, site("timeout")])
