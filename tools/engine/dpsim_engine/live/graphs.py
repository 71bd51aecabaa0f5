"""Calls vLLM's functions for capture sizes, and for the CUDA graph of a batch."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

from dpsim_engine.comparison import Row
from dpsim_engine.live.installed import function, module
from dpsim_engine.live.stand_ins import REFUSALS, refusal, replaced
from dpsim_engine.manager import runs


def mode_of(name: str) -> Any:
    return function("vllm.config", "CUDAGraphMode")[name]


# ---- the V1 dispatcher


def dispatch_014(row: Row) -> Row:
    """Puts the question to vLLM 0.14. There a caller can forbid FULL, and the dispatcher ignores adapter counts."""
    return _dispatch(row, disable_full=row["disable_full"])


def dispatch(row: Row) -> Row:
    """Puts the question to vLLM 0.17 to 0.33."""
    names = row["valid_modes"]
    modes = None if names is None else {mode_of(name) for name in names}
    return _dispatch(row, num_active_loras=row["num_active_loras"], valid_modes=modes)


def _dispatch(row: Row, **asked: Any) -> Row:
    dispatcher = function("vllm.v1.cudagraph_dispatcher", "CudagraphDispatcher")(_vllm_config(row["config"]))
    mode = mode_of(row["config"]["cudagraph_mode"])
    try:
        dispatcher.initialize_cudagraph_keys(mode, row["config"]["query_len"])
    except REFUSALS as error:
        return {"answer": refusal(error, "initialize_cudagraph_keys")}
    question = {name: row[name] for name in ("num_tokens", "uniform_decode", "has_lora")}
    try:
        mode, key = dispatcher.dispatch(**question, **asked)
    except REFUSALS as error:
        return {"answer": refusal(error)}
    fields = {name: getattr(key, name) for name in ("num_tokens", "num_reqs", "uniform", "has_lora")}
    return {"answer": {"mode": mode.name, **fields}}


def _vllm_config(question: Row) -> SimpleNamespace:
    """Returns the settings that a dispatcher reads; they declare attention as compiled piecewise."""
    sizes, drafts = question["capture_sizes"], question["query_len"] - 1
    padded = [sizes[bisect_left(sizes, count)] for count in range(max(sizes, default=-1) + 1)]
    lora = SimpleNamespace(max_loras=3, specialize_active_lora=False)
    compilation = SimpleNamespace(
        cudagraph_mode=mode_of(question["cudagraph_mode"]),
        cudagraph_capture_sizes=sizes,
        max_cudagraph_capture_size=max(sizes, default=0),
        bs_to_padded_graph_size=padded,
        compile_sizes=[],
        cudagraph_specialize_lora=question["lora"] == "both",
        is_attention_compiled_piecewise=lambda: True,
    )
    return SimpleNamespace(
        compilation_config=compilation,
        scheduler_config=SimpleNamespace(max_num_seqs=question["max_num_seqs"]),
        lora_config=None if question["lora"] == "off" else lora,
        speculative_config=_speculative(drafts),
        num_speculative_tokens=drafts,
        pad_for_cudagraph=padded.__getitem__,
    )


def _speculative(drafts: int) -> SimpleNamespace | None:
    """Returns a speculative configuration with the same number of drafts for every batch size; None without drafts."""
    if not drafts:
        return None
    return SimpleNamespace(num_speculative_tokens=drafts, uses_dynamic_speculative_decoding=lambda: False)


# ---- capture sizes


def ladder_017(row: Row) -> Row:
    """Puts the question to vLLM 0.17. Its V1 runner rounds sizes if decodes have separate FULL graphs.

    It also passes the tensor-parallel size to the rounding.
    """
    mode = mode_of(row["config"]["cudagraph_mode"])
    return _ladder(row, mode.decode_mode() == mode_of("FULL") and mode.separate_routine(), 1)


def ladder_033(row: Row) -> Row:
    """Puts the question to vLLM 0.33. Its V1 runner rounds sizes if decodes have FULL graphs."""
    return _ladder(row, mode_of(row["config"]["cudagraph_mode"]).decode_mode() == mode_of("FULL"))


def ladder_024(row: Row) -> Row:
    """Puts the question to vLLM 0.24. It rounds as 0.33 does, and passes the tensor-parallel size as 0.17 does."""
    return _ladder(row, mode_of(row["config"]["cudagraph_mode"]).decode_mode() == mode_of("FULL"), 1)


def _ladder(row: Row, rounds: bool, *tokens: int) -> Row:
    """Returns the capture sizes before and after the rounding.

    `tokens` contains arguments of the rounding besides the tokens of a decode.
    """
    config, place = row["config"], module("vllm.config.vllm")
    drafts = config["num_speculative_tokens"]
    sizes = {name: config[name] for name in ("cudagraph_capture_sizes", "max_cudagraph_capture_size")}
    given = {name: value for name, value in sizes.items() if value is not None}  # 0.24 refuses None as a value
    compilation = function("vllm.config", "CompilationConfig")(
        cudagraph_mode=mode_of(config["cudagraph_mode"]), **given
    )
    settings = place.VllmConfig.__new__(place.VllmConfig)  # its constructor needs a model
    vars(settings).update(
        compilation_config=compilation,
        model_config=SimpleNamespace(enforce_eager=config["enforce_eager"]),
        scheduler_config=SimpleNamespace(
            max_num_seqs=config["max_num_seqs"], max_num_batched_tokens=config["max_num_batched_tokens"]
        ),
        parallel_config=SimpleNamespace(tensor_parallel_size=1),
        speculative_config=_speculative(drafts),
        performance_mode=config["performance_mode"],
    )
    platform = SimpleNamespace(
        is_device_capability_family=lambda family, *_: bool(config["blackwell"]) and family == 100,
        is_cuda=lambda: True,
        is_cuda_alike=lambda: True,
        support_static_graph_mode=lambda: True,
    )
    reads = [one for one in (place, module("vllm.platforms")) if hasattr(one, "current_platform")]
    try:
        with ExitStack() as stack:
            for one in reads:
                stack.enter_context(replaced(one, current_platform=platform))
            settings._set_cudagraph_sizes()
    except REFUSALS as error:
        return {"answer": refusal(error)}
    at_config_time = _held(compilation)
    if not rounds or not drafts:
        return {"answer": {"config_time": at_config_time, "v1_runner": at_config_time}}
    try:
        compilation.adjust_cudagraph_sizes_for_spec_decode(1 + drafts, *tokens)
    except REFUSALS as error:
        return {"answer": {"config_time": at_config_time, "v1_runner": refusal(error)}}
    return {"answer": {"config_time": at_config_time, "v1_runner": _held(compilation)}}


def _held(compilation: Any) -> Row:
    sizes = [int(size) for size in compilation.cudagraph_capture_sizes or ()]
    return {"sizes": sizes, "max": int(compilation.max_cudagraph_capture_size or 0)}


# ---- the graph manager of source page 004


def _maps(question: Row) -> tuple[dict[int, int], dict[int, int]]:
    mode = mode_of(question["cudagraph_mode"])
    general, decodes = function("vllm.v1.worker.gpu.cudagraph_utils", "get_cudagraph_sizes")(
        question["cudagraph_capture_sizes"],
        question["max_num_seqs"],
        question["max_num_batched_tokens"],
        mode,
        1 + question["num_speculative_tokens"],
        mode.decode_mode() == mode_of("FULL") and mode.separate_routine(),
    )
    return general, decodes


def sizes_004(row: Row) -> Row:
    """Puts the question to vLLM 0.17."""
    general, decodes = _maps(row["config"])
    maps = {"cudagraph_sizes": runs(general), "uniform_decode_cudagraph_sizes": runs(decodes)}
    return {"needs_capture": bool(general), **maps}


def choices_004(row: Row) -> Row:
    """Puts the question to vLLM 0.17, on a manager without its constructor, which needs a device.

    Its graphs are those that a capture would create.
    """
    asked = row["config"]
    mode = mode_of(asked["cudagraph_mode"])
    kind = function("vllm.v1.worker.gpu.cudagraph_utils", "CudaGraphManager")
    manager = kind.__new__(kind)
    manager.uniform_decode_query_len = 1 + asked["num_speculative_tokens"]
    manager.cudagraph_mode = mode
    manager.cudagraph_sizes, manager.uniform_decode_cudagraph_sizes = _maps(asked)

    def choose(one: Row) -> list[Any]:
        names = ("num_reqs", "num_tokens", "max_query_len")
        chosen, size = manager.get_cudagraph_runtime_mode(*[one[name] for name in names])
        return [chosen.name, size]

    manager.graphs = {}
    before = [choose(one) for one in row["questions"]]
    captured = [*manager.uniform_decode_cudagraph_sizes.values()]
    if mode.mixed_mode() == mode_of("FULL"):
        captured += manager.cudagraph_sizes.values()
    manager.graphs = dict.fromkeys(captured)
    after = [choose(one) for one in row["questions"]]
    both = zip(row["questions"], before, after, strict=True)
    return {"questions": [{**one, "before": first, "after": second} for one, first, second in both]}
