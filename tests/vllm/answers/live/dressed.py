"""Puts dpsim's code under vLLM's names and signatures, so that the adapters of `dpsim check-engine` can call it.

core(dist, Release033)        members of vllm.v1.engine.core; `dist` stands for torch.distributed
coordinator(Coordination033)  members of vllm.v1.engine.coordinator
parallel(ParallelConfig033)   members of vllm.config.parallel
v2(AgreementV2)               members of the V2 runner's two modules
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import numpy as np
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from dpsim.vllm.config import CUDAGraphMode, EngineConfig, compute_hash
from dpsim.vllm.config import ParallelConfig as Form
from dpsim.vllm.config.fields import EPLBConfig
from dpsim.vllm.config.forms import broken_in
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2, LocalV2
from dpsim.vllm.engine.coordination import Coordination, EngineCounts, FirstRequest, FromEngine, StartWave, WaveComplete
from dpsim.vllm.engine.waves import EngineWaves, Out
from dpsim.vllm.graphs.candidates import BatchDescriptor, CandidateTable
from dpsim_engine.config import AROUND
from dpsim_engine.waves import PAUSES, STATE, in_their_words

Members = dict[str, Any]

COORDINATOR, AGREEMENT = "vllm.v1.engine.coordinator", "vllm.v1.worker.gpu.dp_utils"
"""Modules in which an adapter replaces names with stand-ins."""


class PauseState(Enum):
    """The members of vLLM's enum that the adapters use."""

    UNPAUSED = 0
    PAUSED_ALL = 2


class EngineCoreRequestType(Enum):
    """The members of vLLM's enum that the adapters use."""

    ADD = 0
    START_DP_WAVE = 1


def member(module: str, name: str) -> Any:
    return vars(sys.modules[module])[name]


def core(dist: ModuleType, kind: type[EngineWaves]) -> Members:
    class DPEngineCoreProc:
        """Runs release 0.33's loop around `kind`.

        An adapter sets the fields directly, because it never calls the constructor.
        """

        def __getattr__(self, name: str) -> Any:
            if name != "waves":
                raise AttributeError(name)
            self.waves = kind(self.dp_rank, self.dp_size, self.has_coordinator, self.dp_sync_interval)
            for field in STATE:
                setattr(self.waves, field, getattr(self, field))
            return self.waves

        def has_work(self) -> bool:
            return bool(self.waves.engines_running or self.scheduler.has_requests())

        def _process_input_queue(self) -> None:
            while not self.has_work():
                self._handle_client_request(*self.input_queue.get())
            while not self.input_queue.empty():
                self._handle_client_request(*self.input_queue.get_nowait())

        def _handle_client_request(self, what: EngineCoreRequestType, told: Any) -> None:
            if what is EngineCoreRequestType.START_DP_WAVE:
                self.waves.start_dp_wave(*told)
            else:
                self.scheduler.add_request(told[0])
                self.tell(self.waves.add(told[1]))
            self.shown()

        def pause_scheduler(self, mode: str) -> None:
            self.scheduler.set_pause_state(PauseState.PAUSED_ALL)
            self.waves.pause("keep")
            self.shown()

        def resume_scheduler(self) -> None:
            if self.waves.resume():
                self.scheduler.set_pause_state(PauseState.UNPAUSED)
                numbers = [int(self.scheduler.has_unfinished_requests())]
                dist.all_reduce(numbers)
                self.waves.resumed(bool(numbers[0]))
                self.shown()

        def tell(self, outs: list[Out]) -> None:
            for out in outs:
                told = {"wave_complete": None, "start_wave": None, out.kind: out.wave}
                self.output_queue.put_nowait((-1 if out.to == "coordinator" else 0, SimpleNamespace(**told)))

        def run_busy_loop(self) -> None:
            while True:
                self.shown()
                was_running = self.waves.engines_running
                self._process_input_queue()
                ran = self._process_engine_step()
                unfinished = self.scheduler.has_unfinished_requests()
                if not ran and not unfinished and not self.waves.engines_running:
                    continue
                if not ran:
                    self.execute_dummy_batch()
                if self.waves.at_sync_point():
                    numbers = list(self.waves.contribution(unfinished))
                    dist.all_reduce(numbers)
                    self.waves.synced(tuple(numbers))
                else:
                    self.waves.no_sync()
                self.tell(self.waves.end_iteration(was_running))

        def shown(self) -> None:
            for field in STATE + PAUSES:
                setattr(self, field, getattr(self.waves, field))

    return {
        "DPEngineCoreProc": DPEngineCoreProc,
        "PauseState": PauseState,
        "EngineCoreRequestType": EngineCoreRequestType,
        "ParallelConfig": object,
    }


def coordinator(kind: type[Coordination]) -> Members:
    def as_ours(told: Any) -> FromEngine:
        stats = told.scheduler_stats
        if stats is not None:
            counts = stats.step_counter, stats.current_wave, stats.num_waiting_reqs, stats.num_running_reqs
            return EngineCounts(told.engine_index, *counts)
        if told.wave_complete is not None:
            return WaveComplete(told.engine_index, told.wave_complete)
        return StartWave(told.engine_index, told.start_wave)

    class DPCoordinatorProc:
        engines: list[Any]
        enable_wave_coordination: bool

        def process_input_socket(self, front_address: str, output_address: str, back_address: str) -> None:
            stack, made = ExitStack(), member(COORDINATOR, "make_zmq_socket")
            front, output, back = (stack.enter_context(made(path=where)) for where in (front_address, "", ""))
            poller = member(COORDINATOR, "zmq").Poller()
            waves = kind(len(self.engines), self.enable_wave_coordination)
            while True:
                current_wave, engines_running = waves.current_wave, waves.engines_running  # the poller reads these
                ready = dict(poller.poll(timeout=0))
                del current_wave, engines_running
                told = msgspec.msgpack.decode(front.recv()) if front in ready else None
                if told and told[0] == "SCALE_ELASTIC_EP":
                    sent = waves.scale(told[1])
                elif not ready:
                    sent = waves.published()
                else:
                    asked = told and FirstRequest(*told)
                    sent = waves.poll(asked, as_ours(output.recv()) if output in ready else None)
                for one in map(in_their_words, sent):
                    if one[0] == "back":
                        back.send_multipart((b"", msgspec.msgpack.encode(one[2])))
                    else:
                        front.send(msgspec.msgpack.encode(one[1]))

    return {
        "DPCoordinatorProc": DPCoordinatorProc,
        "EngineState": object,
        "make_zmq_socket": None,
        "zmq": None,
        "MsgpackDecoder": None,
    }


def parallel(form: type[Form], every: bool = False) -> Members:
    """Returns the members of vllm.config.parallel. `every`: the hash covers each field (a mistake)."""

    class ParallelConfig:
        def __init__(self, **fields: Any) -> None:
            try:
                self.ours = form.model_validate(fields, context=AROUND)
            except ValidationError as error:
                blamed = PydanticCustomError("rule", "a rule is broken")
                lines: list[Any] = [{"type": blamed, "loc": (one.field,), "input": None} for one in broken_in(error)]
                raise ValidationError.from_exception_data("ParallelConfig", lines) from None

        def __getattr__(self, name: str) -> Any:
            return getattr(self.ours, name)

        def compute_hash(self) -> str:
            return self.ours.model_dump_json() if every else compute_hash(self.ours)

    names = dict.fromkeys(("current_platform", "get_open_ports_list"))
    return {"ParallelConfig": ParallelConfig, "EPLBConfig": EPLBConfig, **names}


def in_its_words(chosen: BatchDescriptor) -> SimpleNamespace:
    fields = chosen._asdict()
    return SimpleNamespace(cg_mode=fields.pop("mode"), num_active_loras=0, **fields)


def v2(kind: type[AgreementV2]) -> tuple[Members, Members]:
    class CudaGraphManager:
        def __init__(self, told: Any, device: str, mode: Any, q: int, ubatch_runner: Any) -> None:
            names = ("enable_dbo", "dbo_decode_token_threshold", "dbo_prefill_token_threshold")
            fields = {name: getattr(told.parallel_config, name) for name in names}
            fields |= {"cudagraph_mode": CUDAGraphMode(mode.name), "num_speculative_tokens": q - 1}
            fields["max_num_seqs"] = told.scheduler_config.max_num_seqs
            self.config = EngineConfig().model_copy(update=fields)
            self.table = CandidateTable(self.config, told.compilation_config.cudagraph_capture_sizes)

        def dispatch(self, num_reqs: int, num_tokens: int, uniform: int | None, loras: int) -> SimpleNamespace:
            return in_its_words(self.table.dispatch(num_reqs, num_tokens, uniform))

    def dispatch_cg_and_sync_dp(graphs: CudaGraphManager, **told: Any) -> tuple[Any, Any]:
        fields = [told[name] for name in ("num_tokens", "num_reqs", "uniform_token_count")]
        may = {"may_split": told["allow_ubatching"], "may_skip_drafts": told["allow_skip_drafts"]}
        may["need_eager"] = told["need_eager"]
        local = LocalV2(*fields, **may)
        agreement = kind(graphs.config, graphs.table)
        column = agreement.column(local, agreement.first_dispatch(local))
        table = [[0] * told["dp_size"] for _ in column]
        for line, value in zip(table, column, strict=True):
            line[told["dp_rank"]] = value
        member(AGREEMENT, "get_dp_group")().cpu_all_reduce_(table)
        chosen, record = agreement.decide(np.array(table, np.int32), local)
        if record is None:
            return in_its_words(chosen), None
        fields_of = record._asdict()
        return in_its_words(chosen), SimpleNamespace(num_tokens_across_dp=fields_of.pop("num_tokens"), **fields_of)

    around = dict.fromkeys(("get_pp_group", "current_platform", "is_breakable_cudagraph_enabled"))
    manager: Members = {"CudaGraphManager": CudaGraphManager, **around}
    return manager, {"dispatch_cg_and_sync_dp": dispatch_cg_and_sync_dp, "get_dp_group": None}
