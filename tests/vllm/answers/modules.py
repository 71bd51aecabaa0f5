"""Sources of the modules of the stand-in package `vllm` (`stand_in.py`), whose functions return stored answers.

A shared module `_rows.py` reads the stored rows. Each function finds its row by its arguments.
"""

from __future__ import annotations

LOGGED = "INFO 11-22 [__init__.py:1] loading"
"""The line that the package prints when it is imported, as vLLM logs one."""

ROWS = """
import gzip, json

def rows(file):
    with gzip.open(f"{FOLDER}/{file}.jsonl.gz", "rt") as lines:
        return [row for row in map(json.loads, lines) if row["version"] == VERSION]

def key(*parts):
    return json.dumps(parts, sort_keys=True, default=lambda numbers: numbers.tolist())

def answer(value):
    if isinstance(value, dict) and "raises" in value:
        raise {"AssertionError": AssertionError, "ValueError": ValueError, "IndexError": IndexError}[value["raises"]]
    return value
"""

METADATA = """
from types import SimpleNamespace
from vllm import _rows

CUTS = {}
for row in _rows.rows("slices"):
    starts, lengths = [0], []
    for computed, scheduled in zip(row["num_computed_tokens"], row["num_scheduled_tokens"]):
        starts.append(starts[-1] + scheduled)
        lengths.append(computed + scheduled)
    padding = row["num_reqs_padded"] - len(lengths)
    whole = starts + starts[-1:] * padding, lengths + [0] * padding
    for one, metadata in zip(row["answer"]["padded"], row["answer"]["metadata"]):
        CUTS[_rows.key(*whole, one["requests"], one["tokens"])] = metadata

def split_attn_metadata(ubatch_slices, common_attn_metadata):
    parts = [[[part.start, part.stop] for part in (one.request_slice, one.token_slice)] for one in ubatch_slices]
    whole = common_attn_metadata.query_start_loc, common_attn_metadata.seq_lens
    return [SimpleNamespace(**_rows.answer(CUTS[_rows.key(*whole, *one)])) for one in parts]
"""

MODULES = {
    "vllm/__init__.py": f"print({LOGGED!r})\n",
    "vllm/v1/__init__.py": "",
    "vllm/v1/attention/__init__.py": "",
    "vllm/v1/attention/backends/__init__.py": "",
    "vllm/v1/attention/backends/utils.py": METADATA,
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/worker/gpu/__init__.py": "",
    "vllm/platforms.py": "current_platform = None\n",
    "vllm/v1/worker/gpu/pp_utils.py": """
from vllm import _rows

FIELDS = ("num_computed_tokens", "num_scheduled_tokens", "prefill_len", "max_seq_len")
MASKS = {_rows.key(*[row[name] for name in FIELDS]): row["answer"] for row in _rows.rows("need_mask")}
if _rows.WRONG:
    first = next(iter(MASKS))
    MASKS[first] = [not one for one in MASKS[first]]

def compute_need_sampled_mask(batch):
    names = ("num_computed_tokens_np", "num_scheduled_tokens", "prefill_len_np", "max_seq_len_np")
    return MASKS[_rows.key(*[getattr(batch, name) for name in names])]
""",
    "vllm/v1/worker/ubatch_utils.py": """
from types import SimpleNamespace
from vllm import _rows

SPLITS = {}
EMPTY = {}
for row in _rows.rows("slices"):
    asked = [row[name] for name in ("num_tokens_padded", "num_reqs_padded", "num_ubatches", "split_point")]
    SPLITS[_rows.key(row["num_scheduled_tokens"], *asked)] = row["answer"]
    EMPTY[sum(row["num_scheduled_tokens"]), asked[0], asked[2]] = row["last_ubatch_empty"]

def as_slice(told):
    requests, tokens = slice(*told["requests"]), slice(*told["tokens"])
    return SimpleNamespace(request_slice=requests, token_slice=tokens, is_empty=lambda: told["empty"])

def maybe_create_ubatch_slices(
    should_ubatch, num_scheduled_tokens, num_tokens_padded, num_reqs_padded, num_ubatches, split_point=None
):
    told = SPLITS[_rows.key(num_scheduled_tokens, num_tokens_padded, num_reqs_padded, num_ubatches, split_point)]
    return [[as_slice(one) for one in told[name]] for name in ("slices", "padded")]

def is_last_ubatch_empty(orig_num_tokens, padded_num_tokens, num_ubatches):
    return EMPTY[orig_num_tokens, padded_num_tokens, num_ubatches]
""",
    "vllm/v1/worker/gpu/ubatch_utils.py": """
from vllm import _rows
from vllm.v1.worker.ubatch_utils import SPLITS, as_slice

def create_ubatch_slices(batch, num_ubatches):
    assert batch.num_reqs == len(batch.num_scheduled_tokens)
    asked = batch.num_tokens_after_padding, batch.num_reqs_after_padding, num_ubatches, None
    return [as_slice(one) for one in SPLITS[_rows.key(batch.num_scheduled_tokens, *asked)]["v2_runner"]]
""",
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/engine/core_client.py": """
from vllm import _rows

CHOSEN = {}
for row in _rows.rows("balance"):
    who = row["engines"], row["client_index"], row["client_count"]
    trail, chosen = [], iter(row["answer"]["chosen"])
    loads = [[0 * number for number in one] for one in row["answer"]["loads"][0]]
    for (what, told), after in zip(row["events"], row["answer"]["loads"]):
        if what == "REQUEST":
            trail.append([told, loads])
            CHOSEN[_rows.key(*who, trail)] = next(chosen), after
        elif what == "FINISHED":
            trail.append(sorted(map(str, told)))
        loads = after

class DPLBAsyncMPClient:
    def __init__(self):
        raise RuntimeError("there are no engines here")

    def get_core_engine_for_request(self, request):
        self.trail = [*vars(self).get("trail", []), [request.data_parallel_rank, self.lb_engines]]
        asked = len(self.core_engines), self.client_index, self.client_count, self.trail
        engine, self.lb_engines = CHOSEN[_rows.key(*asked)]
        return self.core_engines[engine]

    @staticmethod
    async def process_engine_outputs(self, outputs):
        self.trail = [*vars(self).get("trail", []), sorted(outputs.finished_requests)]
""",
    "vllm/v1/worker/dp_utils.py": """
from vllm import _rows

SENT, ANSWERS = {}, {}
for row in _rows.rows("decide"):
    columns = row["sent"]
    table = None if None in columns else [list(line) for line in zip(*columns)]
    for index, rank in enumerate(row["ranks"]):
        asks = _rows.key(row["config"], len(columns) > 1, rank)
        SENT[asks] = row["answers"][index] if columns[index] is None else columns[index]
        ANSWERS[_rows.key(table, index, asks)] = row["answers"][index]

dist = None

def get_dp_group():
    raise RuntimeError("there is no group here")

def coordinate_batch_across_dp(parallel_config, **rank):
    get_dp_group()
    names = ("enable_dbo", "ubatch_size", "dbo_decode_token_threshold", "dbo_prefill_token_threshold")
    config = {name: getattr(parallel_config, name) for name in names}
    size, index = parallel_config.data_parallel_size, parallel_config.data_parallel_rank
    asks = _rows.key(config, size > 1, rank)
    column, table = _rows.answer(SENT[asks]), None
    if size > 1:
        table = [[value * (place == index) for place in range(size)] for value in column]
        dist.all_reduce(table, group=None)
    told = _rows.answer(ANSWERS[_rows.key(table, index, asks)])
    return told["ubatch"], told["num_tokens_across_dp"], told["cudagraph_mode"]
""",
    "vllm/config/__init__.py": """
from enum import Enum

class CUDAGraphMode(Enum):
    NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE = 0, 1, 2, (2, 0), (2, 1)

    def separate_routine(self):
        return isinstance(self.value, tuple)

    def decode_mode(self):
        return CUDAGraphMode(self.value[0]) if self.separate_routine() else self

    def mixed_mode(self):
        return CUDAGraphMode(self.value[1]) if self.separate_routine() else self

class CompilationConfig:
    def __init__(self, cudagraph_mode, cudagraph_capture_sizes=(), max_cudagraph_capture_size=()):
        if None in (cudagraph_capture_sizes, max_cudagraph_capture_size):  # left out is no value
            raise ValueError("expected a valid list")
        cudagraph_capture_sizes, max_cudagraph_capture_size = (
            None if one == () else one for one in (cudagraph_capture_sizes, max_cudagraph_capture_size)
        )
        self.cudagraph_mode = cudagraph_mode
        self.cudagraph_capture_sizes = cudagraph_capture_sizes
        self.max_cudagraph_capture_size = max_cudagraph_capture_size

    def adjust_cudagraph_sizes_for_spec_decode(self, uniform_decode_query_len, *tensor_parallel_size):
        from vllm import _rows
        if bool(tensor_parallel_size) == _rows.VERSION.startswith("0.33"):
            raise TypeError("0.33 takes the tokens of a decode alone")
        self.hold(_rows.answer(self.told["v1_runner"]))

    def hold(self, told):
        self.cudagraph_capture_sizes, self.max_cudagraph_capture_size = told["sizes"], told["max"]
""",
    "vllm/config/vllm.py": """
from vllm import _rows

TOLD = {_rows.key(row["config"]): row["answer"] for row in _rows.rows("ladder")}

from vllm.platforms import current_platform

class VllmConfig:
    def _set_cudagraph_sizes(self):
        compilation, scheduler, drafts = self.compilation_config, self.scheduler_config, self.speculative_config
        if drafts and drafts.uses_dynamic_speculative_decoding():
            raise NotImplementedError
        told = TOLD[_rows.key({
            "cudagraph_mode": compilation.cudagraph_mode.name,
            "num_speculative_tokens": drafts.num_speculative_tokens if drafts else 0,
            "max_num_seqs": scheduler.max_num_seqs,
            "max_num_batched_tokens": scheduler.max_num_batched_tokens,
            "cudagraph_capture_sizes": compilation.cudagraph_capture_sizes,
            "max_cudagraph_capture_size": compilation.max_cudagraph_capture_size,
            "performance_mode": self.performance_mode,
            "enforce_eager": self.model_config.enforce_eager,
            "blackwell": current_platform.is_device_capability_family(100),
        })]
        _rows.answer(told)
        compilation.told = told
        compilation.hold(told["config_time"])
""",
    "vllm/v1/cudagraph_dispatcher.py": """
from types import SimpleNamespace
from vllm import _rows
from vllm.config import CUDAGraphMode

TOLD, REFUSED = {}, {}
for row in _rows.rows("dispatch_v1"):
    names = ("num_tokens", "uniform_decode", "has_lora", "disable_full", "valid_modes")
    asked = {name: row[name] for name in names if name in row}
    asked["valid_modes"] = sorted(asked["valid_modes"]) if asked.get("valid_modes") else None
    TOLD[_rows.key(row["config"], asked)] = row["answer"]
    if "when" in row["answer"]:
        REFUSED[_rows.key(row["config"])] = row["answer"]

class CudagraphDispatcher:
    def __init__(self, vllm_config):
        compilation, lora = vllm_config.compilation_config, vllm_config.lora_config
        self.config = {
            "cudagraph_mode": compilation.cudagraph_mode.name,
            "capture_sizes": compilation.cudagraph_capture_sizes,
            "query_len": 1 + vllm_config.num_speculative_tokens,
            "max_num_seqs": vllm_config.scheduler_config.max_num_seqs,
            "lora": "off" if lora is None else "both" if compilation.cudagraph_specialize_lora else "only",
        }

    def initialize_cudagraph_keys(self, cudagraph_mode, uniform_decode_query_len):
        assert cudagraph_mode.name == self.config["cudagraph_mode"]
        _rows.answer(REFUSED.get(_rows.key(self.config)))

    def dispatch(self, num_tokens, uniform_decode, has_lora, num_active_loras=0, valid_modes=None, **more):
        names = sorted(mode.name for mode in valid_modes) if valid_modes else None
        asked = dict(num_tokens=num_tokens, uniform_decode=uniform_decode, has_lora=has_lora, valid_modes=names, **more)
        told = _rows.answer(TOLD[_rows.key(self.config, asked)])
        return CUDAGraphMode[told["mode"]], SimpleNamespace(**told)
""",
    "vllm/v1/worker/gpu/cudagraph_utils.py": """
from vllm import _rows
from vllm.config import CUDAGraphMode

MAPS, CHOICES = {}, {}
for row in _rows.rows("graph_manager_004"):
    config = row["config"]
    maps = [
        {count: size for first, last, size in row[name] for count in range(first, last + 1)}
        for name in ("cudagraph_sizes", "uniform_decode_cudagraph_sizes")
    ]
    q = 1 + config["num_speculative_tokens"]
    names = ("cudagraph_capture_sizes", "max_num_seqs", "max_num_batched_tokens", "cudagraph_mode")
    MAPS[_rows.key(*[config[name] for name in names], q)] = maps
    for one in row["questions"]:
        asked = _rows.key(config["cudagraph_mode"], q, maps, one["num_reqs"], one["num_tokens"], one["max_query_len"])
        CHOICES[asked, "before"] = one["before"]
        CHOICES[asked, "after"] = one["after"]
    if row["graphs"]:
        CHOICES[_rows.key(config["cudagraph_mode"], q, maps)] = row["graphs"]

def get_cudagraph_sizes(capture_sizes, max_num_reqs, max_num_tokens, cudagraph_mode, q=1, decode=False):
    return MAPS[_rows.key(capture_sizes, max_num_reqs, max_num_tokens, cudagraph_mode.name, q)]

class CudaGraphManager:
    def __init__(self):
        raise RuntimeError("there is no device here")

    def get_cudagraph_runtime_mode(self, num_reqs, num_tokens, max_query_len):
        maps = [self.cudagraph_sizes, self.uniform_decode_cudagraph_sizes]
        asked = self.cudagraph_mode.name, self.uniform_decode_query_len, maps
        if self.graphs:
            assert sorted(self.graphs) == CHOICES[_rows.key(*asked)]
        when = "after" if self.graphs else "before"
        mode, size = CHOICES[_rows.key(*asked, num_reqs, num_tokens, max_query_len), when]
        return CUDAGraphMode[mode], size
""",
}
"""The source of each module, by its file."""

DRESSED = {
    "vllm/config/parallel.py": """
from dpsim.vllm.config import ParallelConfig, ParallelConfig033
from tests.vllm.answers.live.dressed import parallel
from vllm import _rows

globals().update(parallel(ParallelConfig if _rows.VERSION.startswith("0.14") else ParallelConfig033))
""",
    "vllm/v1/engine/core.py": """
import torch.distributed
from dpsim.vllm.engine.waves import Release014, Release033
from tests.vllm.answers.live.dressed import core
from vllm import _rows

globals().update(core(torch.distributed, Release014 if _rows.VERSION.startswith("0.14") else Release033))
""",
    "vllm/v1/engine/coordinator.py": """
from dpsim.vllm.engine.coordination import Coordination, Coordination033
from tests.vllm.answers.live.dressed import coordinator
from vllm import _rows

globals().update(coordinator(Coordination if _rows.VERSION.startswith("0.14") else Coordination033))
""",
}
"""Modules that put dpsim's code under vLLM's signatures, for releases with engine processes and a configuration."""

V2 = {
    f"vllm/v1/worker/gpu/{name}.py": f"""
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2
from tests.vllm.answers.live.dressed import v2

globals().update(v2(AgreementV2)[{place}])
"""
    for place, name in enumerate(("cudagraph_utils", "dp_utils"))
}
"""Modules that put dpsim's code under the signatures of the V2 runner of 0.33."""
