"""Runs the coordinator's loop without its process: each poll brings the next event of the question.

The sockets, the poller and the decoder of messages are stand-ins.
"""

from __future__ import annotations

import sys
from collections import deque
from contextlib import AbstractContextManager, nullcontext, suppress
from types import SimpleNamespace
from typing import Any

from dpsim_engine.comparison import Row
from dpsim_engine.live.installed import module
from dpsim_engine.live.loops import Over
from dpsim_engine.live.stand_ins import replaced
from dpsim_engine.waves import STATE

COORDINATOR = "vllm.v1.engine.coordinator"


class Socket:
    """A stand-in for a socket of the coordinator: it returns messages of its inbox, and keeps what the loop sends."""

    def __init__(self, name: str, sent: list[list[Any]]) -> None:
        self.name, self.sent, self.inbox = name, sent, deque[Any]()

    def recv(self) -> Any:
        return self.inbox.popleft()

    def send(self, message: bytes) -> None:
        if message != b"READY":
            counts, wave, running = module("msgspec").msgpack.decode(message)
            self.sent.append([self.name, [counts, wave, running]])

    def send_multipart(self, parts: tuple[bytes, bytes]) -> None:
        self.sent.append([self.name, "START_DP_WAVE", list(module("msgspec").msgpack.decode(parts[1]))])


class Poller:
    """A stand-in for the poller: each poll brings the next event of the question.

    It reads the coordinator's state from the local variables of its caller.
    """

    def __init__(self, row: Row) -> None:
        self.sent: list[list[Any]] = []
        self.sockets = {name: Socket(name, self.sent) for name in ("front", "output", "back")}
        self.sockets["back"].inbox.extend([b"\x01"] * row["engines"])
        self.left, self.answer = deque(row["steps"]), list[Row]()

    def register(self, *fields: Any) -> None:
        """Ignores the call, because this poller serves all three sockets."""

    def poll(self, timeout: int) -> list[tuple[Socket, int]]:
        known = sys._getframe(1).f_locals
        if self.answer:
            self.answer[-1]["sent"] = list(self.sent)
            self.answer[-1].update({name: known[name] for name in STATE[:2]})
        if not self.left:
            raise Over
        self.sent.clear()
        event = self.left.popleft()["event"]
        self.answer.append({"event": event})
        ready = []
        if event["front"] is not None:
            self.sockets["front"].inbox.append(module("msgspec").msgpack.encode(event["front"]))
            ready.append((self.sockets["front"], 1))
        if event["engine"] is not None:
            self.sockets["output"].inbox.append(_outputs(event["engine"]))
            ready.append((self.sockets["output"], 1))
        return ready


def _outputs(fields: Row) -> SimpleNamespace:
    stats = fields.get("stats")
    return SimpleNamespace(
        outputs=[],
        utility_output=None,
        engine_index=fields["engine_index"],
        wave_complete=fields.get("wave_complete"),
        start_wave=fields.get("start_wave"),
        scheduler_stats=stats
        and SimpleNamespace(
            step_counter=stats["step"],
            current_wave=stats["wave"],
            num_waiting_reqs=stats["waiting"],
            num_running_reqs=stats["running"],
            kv_cache_usage=0,
        ),
    )


def coordination(row: Row) -> Row:
    """Puts the question to vLLM 0.14 to 0.33."""
    place = module(COORDINATOR)
    kind, poller = place.DPCoordinatorProc, Poller(row)
    coordinator, sockets = kind.__new__(kind), iter(poller.sockets.values())
    coordinator.ctx, coordinator.stats_update_interval_ms = None, 100
    coordinator.engines = [place.EngineState() for _ in range(row["engines"])]
    coordinator.enable_wave_coordination = row["enable_wave_coordination"]

    def socket(**fields: Any) -> AbstractContextManager[Socket]:
        return nullcontext(next(sockets))

    zmq = SimpleNamespace(Poller=lambda: poller, XPUB=0, PULL=0, POLLIN=1, Socket=Socket)
    decoder = SimpleNamespace(decode=lambda outputs: outputs)
    with replaced(place, make_zmq_socket=socket, zmq=zmq, MsgpackDecoder=lambda kind: decoder), suppress(Over):
        coordinator.process_input_socket("", "", "")
    return {"steps": poller.answer}
