"""Runs vLLM's own `pp_utils.py` with the steps of a drawn case: torch, groups and streams only log calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.vllm.answers.live.engine_files import module, run_file
from tests.vllm.answers.live.handler_cases import Case, Log, Memory, Noted, Step

FILE = "vllm/v1/worker/gpu/pp_utils.py"


class Stream:
    """Stands in for a torch stream, and logs its waits and events."""

    def __init__(self, log: Log, name: str) -> None:
        self.log, self.name = log, name

    def wait_stream(self, other: Stream) -> None:
        self.log.calls.append(("wait_stream", self.name, other.name))

    def wait_event(self, event: int) -> None:
        self.log.calls.append(("wait", self.name, event))

    def record_event(self) -> int:
        return self.log.event(self.name)


class Tensor(Memory):
    """A tensor with `new_empty`, which allocates on the current stream, as torch does."""

    torch: Torch

    def new_empty(self, *shape: int) -> Tensor:
        return self.torch.empty(*shape, dtype=self.dtype)


class Torch:
    """The part of torch that the file calls."""

    def __init__(self, log: Log) -> None:
        self.log, self.main = log, Stream(log, "main")
        self.now = self.main

    def empty(self, *shape: int, dtype: str, device: object = None) -> Tensor:
        self.log.memory["alloc", shape, dtype, self.now.name] += 1
        made = Tensor(self.log, shape, dtype)
        made.torch = self
        return made

    def stack(self, parts: tuple[Memory, ...], dim: int) -> Tensor:
        return self.empty(len(parts), *parts[0].shape, dtype=parts[0].dtype)

    def broadcast(self, tensor: Memory, src: int, group: str) -> None:
        self.log.calls.append(("broadcast", tensor.shape, tensor.dtype, src, self.now.name, group))

    @contextmanager
    def stream(self, one: Stream) -> Iterator[None]:
        before, self.now = self.now, one
        yield
        self.now = before

    def modules(self) -> dict[str, ModuleType]:
        cuda = SimpleNamespace(
            Event=int,
            Stream=lambda device: Stream(self.log, "broadcast"),
            current_stream=lambda device: self.main,
            stream=self.stream,
        )
        named: dict[str, Any] = {"cuda": cuda, "Tensor": Tensor, "device": object, "empty": self.empty}
        named |= {"int64": "int64", "int32": "int32", "stack": self.stack, "nn": SimpleNamespace(Module=object)}
        return {"torch": module("torch", distributed=SimpleNamespace(broadcast=self.broadcast), **named)}


class EngineHandler:
    """Runs vLLM's `PPHandler` of one rank."""

    def __init__(self, release: str, case: Case) -> None:
        self.case, self.log = case, Log()
        self.steps: dict[int, int] = {}  # by id of a tensor of sampled tokens: its step
        torch = Torch(self.log)
        group = SimpleNamespace(
            is_last_rank=case.is_last,
            last_rank=case.stages - 1,
            world_size=case.stages,
            make_sibling_device_group=lambda group_desc: group_desc,
        )
        scope = run_file(release, FILE, torch.modules() | self.modules(group))
        self.handler = scope["PPHandler"](case.slots, case.drafts, "device")

    def modules(self, group: SimpleNamespace) -> dict[str, ModuleType]:
        def copied(values: Any, device: object) -> Memory:
            return Memory(self.log, values.shape, "int64", tuple(values.tolist()))

        return {
            "vllm.envs": module("vllm.envs"),
            "vllm.distributed.parallel_state": module("parallel_state", get_pp_group=lambda: group),
            "vllm.platforms": module("platforms", current_platform=SimpleNamespace(is_xpu=lambda: False)),
            "vllm.sequence": module("sequence", IntermediateTensors=object),
            "vllm.utils.torch_utils": module("torch_utils", async_tensor_h2d=copied),
            "vllm.v1.worker.gpu.buffer_utils": module("buffer_utils", async_copy_to_gpu=copied),
            "vllm.v1.worker.gpu.input_batch": module("input_batch", InputBatch=object),
        }

    def consume(self) -> object:
        got = self.handler.get_prev_sampled_outputs()
        if got is None:
            return None
        drafts, mapping = got.get("draft_tokens"), got["idx_mapping"]
        return self.steps[id(got["sampled_tokens"])], mapping.values, drafts and drafts.shape

    def batch(self, step: Step) -> SimpleNamespace:
        def numbers(name: str) -> Any:
            return np.array([getattr(row, name) for row in step.rows], np.int64)

        return SimpleNamespace(
            num_reqs=len(step.rows),
            num_computed_tokens_np=numbers("computed"),
            prefill_len_np=numbers("prefill"),
            num_scheduled_tokens=numbers("scheduled"),
            max_seq_len_np=None if step.rows[0].limit is None else numbers("limit"),
            is_prefilling_np=numbers("prefilling").astype(bool),
            idx_mapping=Memory(self.log, (len(step.rows),), "int64", step.slots),
            idx_mapping_np=np.array(step.slots, np.int64),
            num_draft_tokens=sum(row.drafts for row in step.rows),
        )

    def receive(self, number: int, step: Step) -> object:
        args = [step.drafts > 0] if hasattr(self.handler, "broadcast_drafts") else []
        whole = self.handler.receive(self.batch(step), *args)
        if self.handler.queue[-1] is not None:
            self.steps[id(self.handler.queue[-1].sampled_tokens)] = number
        return whole

    def send(self, number: int, step: Step) -> None:
        rows = len(step.rows)
        tokens = Memory(self.log, (rows, step.width), step.dtype)
        counts = [Memory(self.log, (rows,), "int32") for _ in range(2)]
        self.handler.broadcast(tokens, *counts, self.batch(step))
        if step.drafts and hasattr(self.handler, "broadcast_drafts"):
            self.handler.broadcast_drafts(Memory(self.log, (rows, step.drafts), "int64"))

    def freed(self, slot: int) -> None:
        self.handler.on_req_idx_freed(slot)

    def run(self) -> list[Noted]:
        return notes(self)


def notes(end: Any) -> list[Noted]:
    """Returns what the handler `end` does in each call of its case.

    The calls come in the worker's order: consume the oldest entry, free slots, then send or receive. A step without
    rows neither sends nor receives. A failed assertion ends the case.
    """
    case, log, done = end.case, end.log, []
    for number, step in enumerate(case.steps):
        if not case.is_last:
            done.append(log.noted(end.consume))
        for slot in step.freed:
            end.freed(slot)
        if step.rows:
            act = end.send if case.is_last else end.receive
            done.append(log.noted(lambda act=act, number=number, step=step: act(number, step)))
            if done[-1].result == "AssertionError":
                break
    return done
