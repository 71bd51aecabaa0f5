"""A program of torch.distributed that calls vLLM's `dp_utils.py`: data-parallel ranks run the steps of WORLD.json.

    agreements.py:main -- PATH/TO/dp_utils.py WORLD.json

In each step a rank calls `coordinate_batch_across_dp` with its batch. It looks up its graph for the agreed count and
mode in WORLD.json. Then it calls the collectives of the experts, one for each microbatch, whose size is the number of
tokens of all ranks. The program replaces the modules that `dp_utils.py` imports by stand-ins. It reimplements two pure
functions of `ubatch_utils`.

WORLD.json may select a mistake. `forgets`: a rank without tokens leaves out the step. `own mode`, `own split` and `own
padding`: a rank decides these by its own batch. The museum contains the same mistakes.
"""

import contextlib
import importlib.util
import inspect
import json
import sys
import types
from pathlib import Path

import torch
import torch.distributed as dist

from dpsim import mark


class Log:
    """A logger that drops all messages."""

    def __getattr__(self, name):
        return lambda *args, **more: None


def wants(config, tokens, uniform_decode):
    """Returns what vLLM's `check_ubatch_thresholds` returns in all releases."""
    if not config.use_ubatching:
        return False
    return tokens >= (config.dbo_decode_token_threshold if uniform_decode else config.dbo_prefill_token_threshold)


def last_empty(tokens, padded, parts):
    """Returns what vLLM's `is_last_ubatch_empty` returns in all releases."""
    return padded // parts * (parts - 1) >= tokens


def group_of_all():
    world = dist.group.WORLD
    return types.SimpleNamespace(device_group=world, cpu_group=world, device=torch.device("cpu"), dead_dp_ranks=set())


STAND_INS = {
    "vllm": {},
    "vllm.config": {"ParallelConfig": object},
    "vllm.distributed": {},
    "vllm.distributed.parallel_state": {
        "get_dp_group": group_of_all,
        "is_global_first_rank": lambda: dist.get_rank() == 0,
    },
    "vllm.logger": {"init_logger": lambda name: Log()},
    "vllm.utils": {},
    "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
    "vllm.utils.torch_utils": {"PIN_MEMORY": False},
    "vllm.v1": {},
    "vllm.v1.worker": {},
    "vllm.v1.worker.ubatch_utils": {"check_ubatch_thresholds": wants, "is_last_ubatch_empty": last_empty},
}


def loaded(file):
    """Imports the file as a module, with stand-ins for the modules that it imports."""
    for name, content in STAND_INS.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(content)
    spec = importlib.util.spec_from_file_location("vllm.v1.worker.dp_utils", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mistaken(module, mistake, own):
    """Plants a mistake in the module. `own`: the batch of this rank in the current step."""
    split, pad = module._post_process_ubatch, module._post_process_dp_padding
    last = []

    def own_split(tensor, parts):
        wished = bool(torch.all(tensor[2] == 1).item())
        return wished and not last_empty(own["num_tokens_unpadded"], own["num_tokens_padded"], parts)

    def seen_split(tensor, parts):
        last[:] = [split(tensor, parts)]
        return last[0]

    if mistake == "own split":
        module._post_process_ubatch = own_split
    if mistake == "own padding":
        module._post_process_ubatch = seen_split
        module._post_process_dp_padding = lambda tensor, _: pad(tensor, own["cudagraph_mode"] != 0 or last[0])


def experts(counts, parts, tokens, group):
    """Calls the collectives of one layer. `tokens`: the rank's own tokens, without padding."""
    cuts = [[count // parts] * (parts - 1) + [count - count // parts * (parts - 1)] for count in counts]
    rank, start = dist.get_rank(), 0
    for sizes in zip(*cuts, strict=True):
        assert start < tokens, "an empty microbatch"
        dist.all_reduce(torch.zeros(sum(sizes)), group=group)
        start += sizes[rank]


def main(rank, size):
    module, world = loaded(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    config = types.SimpleNamespace(data_parallel_size=size, data_parallel_rank=rank, **world["config"])
    coordinate, own = module.coordinate_batch_across_dp, {}
    takes = inspect.signature(coordinate).parameters
    mistaken(module, world["mistake"], own)
    group = dist.new_group(list(range(size)))
    alone = [dist.new_group([one]) for one in range(size)][rank]
    for step, row in enumerate(world["steps"]):  # `new_group` is step 0
        mark.step(step + 1)
        idle = row[rank]["idle"]
        mark.decide("idle", idle, alone)  # the model of a rank records what it does before it agrees, too
        own.update({name: value for name, value in row[rank].items() if name in takes})
        if idle and world["mistake"] == "forgets":
            continue
        split, counts, mode = coordinate(parallel_config=config, **own)
        if world["mistake"] == "own mode":
            mode = own["cudagraph_mode"]
        mark.decide("plan", [split, counts.tolist(), mode])
        agreed = counts[rank].item()
        name, tokens = row[rank]["second"][f"{agreed} {mode}"]
        assert name, "no graph in the agreed mode"
        mark.decide("mode", [name, split])
        assert tokens == agreed, "the second dispatch has another count"
        parts = config.num_ubatches if split else 1
        experts(counts.tolist(), parts, own["num_tokens_unpadded"], group)
