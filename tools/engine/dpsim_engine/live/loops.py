"""Runs vLLM's engine loop without its process: the question provides messages and the numbers of other ranks.

This module does not call the engine's constructor, which would start workers. The engine's queue, scheduler and group
are stand-ins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

from dpsim_engine.comparison import Row
from dpsim_engine.live.installed import function, module
from dpsim_engine.live.stand_ins import replaced
from dpsim_engine.waves import PAUSES, STATE, Scheduled

CORE, PARALLEL = "vllm.v1.engine.core", "vllm.config.parallel"


class Over(BaseException):
    """The question contains no further message. It is no Exception, so that the engine does not catch it."""


class Scheduler:
    """A stand-in for the scheduler. A request is a pair of step counts; a paused scheduler runs no request."""

    def __init__(self, unpaused: Any) -> None:
        self.queue, self.pause_state, self._unpaused = Scheduled(), unpaused, unpaused

    @property
    def paused(self) -> bool:
        return self.pause_state is not self._unpaused

    def set_pause_state(self, state: Any) -> None:
        self.pause_state = state

    def add_request(self, request: Any) -> None:
        self.queue.requests.append(request.steps)

    def has_unfinished_requests(self) -> bool:
        return self.queue.unfinished(self.paused)

    has_requests = has_unfinished_requests


class Asked:
    """The history of one engine. The engine loop takes messages from this object, and puts its outputs into it."""

    def __init__(self, row: Row) -> None:
        self.row, self.left = row, deque(row["iterations"])
        self.answer: list[Row] = []
        self.messages: deque[list[Any]] = deque()
        self.barriers: Iterator[Any] = iter(())
        self.others: list[Any] | None = None
        self.resuming = False
        self.core = self._engine()

    def _engine(self) -> Any:
        row, core = self.row, function(CORE, "DPEngineCoreProc")
        engine, start = core.__new__(core), row["start"]
        place = module(CORE)
        unpaused = place.PauseState.UNPAUSED if hasattr(place, "PauseState") else None
        group = SimpleNamespace(size=lambda: row["dp_size"])
        parallel = SimpleNamespace(cpu_distributed_timeout=None)
        parallel.sync_dp_state = partial(getattr(place.ParallelConfig, "sync_dp_state", self._none), parallel)
        vars(engine).update(
            start,
            engine_index=row["dp_rank"],
            dp_rank=row["dp_rank"],
            dp_size=row["dp_size"],
            dp_group=group,
            dp_sync_interval=row["sync_interval"],
            has_coordinator=row["has_coordinator"],
            vllm_config=SimpleNamespace(parallel_config=parallel),
            scheduler=Scheduler(unpaused),
            model_executor=SimpleNamespace(is_sleeping=False),
            input_queue=self,
            output_queue=SimpleNamespace(put_nowait=self._put),
            aborts_queue=SimpleNamespace(mutex=nullcontext(), queue=[]),
            batch_queue=None,
            publish_dp_lb_stats=False,
            eep_scaling_state=None,
            process_input_queue_block=True,
            enable_fault_tolerance=False,
            reject_new_requests=False,
            _idle_state_callbacks=[],
            _handle_shutdown=lambda: True,
            is_running=lambda: True,
            _notify_idle_state_callbacks=self._none,
            _reject_add_in_shutdown=self._none,
            _reject_add_while_paused=self._none,
            _handle_client_request=self._handle,
            _process_engine_step=self._step,
            execute_dummy_batch=self._dummy,
            capture_iteration_details=nullcontext,
            log_iteration_details=nullcontext,
            **dict.fromkeys(PAUSES, False),
        )
        return engine

    def _none(self, *arguments: Any) -> None:
        return None

    # ---- the input queue

    def empty(self) -> bool:
        """Returns whether no message of this iteration is left. A waiting loop and a draining loop call it."""
        return not self.messages

    def get(self, block: bool = True) -> tuple[str, Any]:
        """Returns the next message. If an idle loop waits, it first begins the next iteration of the question."""
        while not self.messages:
            self._next_pass()
        return self.get_nowait()

    def get_nowait(self) -> tuple[str, Any]:
        what, *arguments = self.messages.popleft()
        self.answer[-1]["messages"].append([what, *arguments])
        return what, arguments

    def _next_pass(self) -> None:
        if not self.left:
            raise Over
        asked = self.left.popleft()
        self.messages.extend(asked["messages"])
        self.barriers = iter([*self.barriers, *asked["barriers"]])
        self.others = asked["others"]

    def _handle(self, what: str, arguments: list[Any]) -> None:
        engine, types = self.core, module(CORE).EngineCoreRequestType
        real = partial(type(engine)._handle_client_request, engine)
        match what:
            case "ADD":
                nothing = dict.fromkeys(("pooling_params", "kv_transfer_params", "ec_transfer_params"))
                request = SimpleNamespace(request_id="0", steps=tuple(arguments[0]), abort_immediately=False, **nothing)
                real(types.ADD, (request, arguments[1]))
            case "START_DP_WAVE":
                real(types.START_DP_WAVE, arguments)
            case "PAUSE":
                engine.pause_scheduler("keep")
            case _:
                self._resume()

    def _resume(self) -> None:
        self.resuming = True
        try:
            self.core.resume_scheduler()
        except RuntimeError as error:
            self.answer[-1]["messages"].append({"raises": "RuntimeError", "message": str(error)[:200]})
        finally:
            self.resuming = False

    # ---- one iteration

    def _step(self) -> bool:
        ran: bool = self.core.scheduler.queue.step(self.core.scheduler.paused)
        self.answer[-1]["ran"] = "model" if ran else None
        return ran

    def _dummy(self) -> None:
        self.answer[-1]["ran"] = "dummy"

    def all_reduce(self, tensor: Any, *args: Any, **kwargs: Any) -> None:
        """Replaces the all-reduce of torch.distributed, and that of release 0.33."""
        sent = [int(number) for number in tensor]
        others = list(next(self.barriers, [])) if self.resuming else self.others or []
        if self.resuming:
            number = sent[0]
            self.answer[-1]["messages"].append({"resume_barrier": {"sent": [number], "others": others}})
        else:
            self.answer[-1]["sync"] = {"sent": sent, "others": others}
        reduce: Callable[..., int] = max if len(sent) == 1 else lambda *numbers: sum(numbers)
        for at, numbers in enumerate(zip(sent, *others, strict=True)):
            tensor[at] = reduce(*numbers) if others else numbers[0]

    def _put(self, output: tuple[int, Any]) -> None:
        client, told = output
        kind = "wave_complete" if told.wave_complete is not None else "start_wave"
        self.answer[-1]["outputs"].append([client, kind, getattr(told, kind)])

    def pass_begins(self) -> None:
        """Stores the state after the previous iteration, and takes the messages of the next one."""
        self.state()
        working = self.core.has_work() if hasattr(self.core, "has_work") else self._has_work()
        if working and not self.left:
            raise Over
        self.answer.append({"messages": [], "ran": None, "sync": None, "outputs": []})
        if working:
            self._next_pass()

    def _has_work(self) -> bool:
        return bool(self.core.engines_running or self.core.scheduler.has_requests())

    def state(self) -> None:
        if self.answer:
            self.answer[-1].update({name: getattr(self.core, name) for name in STATE + PAUSES})

    def run(self) -> list[Row]:
        engine = self.core
        real = type(engine)._process_input_queue

        def takes() -> None:
            self.pass_begins()
            real(engine)

        engine._process_input_queue = takes
        parallel = module(PARALLEL)
        with ExitStack() as stack:
            stack.enter_context(replaced(module("torch.distributed"), all_reduce=self.all_reduce))
            if hasattr(parallel, "cpu_all_reduce_"):
                stack.enter_context(replaced(parallel, cpu_all_reduce_=self.all_reduce))
            try:
                engine.run_busy_loop()
            except Over:
                self.state()
        return self.answer if self.answer[-1]["messages"] or self.answer[-1]["ran"] else self.answer[:-1]


def waves(row: Row) -> Row:
    """Puts the question to vLLM 0.14 to 0.33."""
    return {"iterations": Asked(row).run()}
