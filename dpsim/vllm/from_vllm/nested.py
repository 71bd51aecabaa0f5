"""The keys of flags whose values are JSON, with the use of each key in a scenario.

    --compilation-config '{"cudagraph_mode": "FULL", "pass_config": {"enable_sp": true}}'
    --compilation-config.cudagraph_mode FULL -cc.pass_config.enable_sp=true

Both give the same mapping of dotted keys. An unknown key is refused by name.

Source: vLLM's `CompilationConfig`, `SpeculativeConfig` and `EPLBConfig`; specification chapter 8.0 (fields).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.contract.words import did_you_mean
from dpsim.scenario.errors import ScenarioError

COMPILER = "of the compiler"

KEYS: dict[str, dict[str, str]] = {
    "compilation_config": {
        "cudagraph_mode": "used: config.cudagraph_mode",
        "cudagraph_capture_sizes": "used: config.cudagraph_capture_sizes",
        "max_cudagraph_capture_size": "used: config.max_cudagraph_capture_size",
        "cudagraph_specialize_lora": "used: config.cudagraph_specialize_lora",
        "pass_config.enable_sp": "used: config.enable_sp",
        "pass_config.enable_sequence_parallelism": "used: config.enable_sp",
        "mode": "used: config.cudagraph_mode, NONE below VLLM_COMPILE unless it is given",
        "level": "used: as mode",
        "use_cudagraph": "used: config.cudagraph_mode, NONE where it is false",
        "full_cuda_graph": "used: config.cudagraph_mode, FULL where it is true",
        **dict.fromkeys(
            (
                *(
                    "custom_ops",
                    "splitting_ops",
                    "backend",
                    "use_inductor",
                    "use_inductor_graph_partition",
                    "cache_dir",
                ),
                *(
                    "compile_sizes",
                    "inductor_compile_config",
                    "inductor_passes",
                    "debug_dump_path",
                    "compile_cache_save_format",
                ),
                *(
                    "cudagraph_num_of_warmups",
                    "cudagraph_copy_inputs",
                    "compile_mm_encoder",
                    "compile_ranges_split_points",
                ),
                *("cudagraph_mm_encoder", "fast_moe_cold_start", "dynamic_shapes_config", "local_cache_dir"),
                *("pass_config", "encoder_compilation_time", "max_capture_size"),
            ),
            COMPILER,
        ),
    },
    "speculative_config": {
        "method": "used: config.speculative_method",
        "num_speculative_tokens": "used: config.num_speculative_tokens",
        "max_model_len": "used: config.speculative_max_model_len",
        "disable_padded_drafter_batch": "used: config.async_scheduling, which is then off unless a flag sets it",
        "disable_by_batch_size": "refused: the number of drafts would change from step to step",
        "num_speculative_tokens_per_batch_size": "refused: the number of drafts would change from step to step",
        **dict.fromkeys(
            (
                *("model", "draft_tensor_parallel_size", "quantization", "revision", "code_revision", "enforce_eager"),
                *("prompt_lookup_max", "prompt_lookup_min", "suffix_decoding_max_tree_depth", "moe_backend"),
                *("suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor", "draft_load_config"),
                *("suffix_decoding_min_token_prob", "speculative_token_tree", "parallel_drafting", "attention_backend"),
                *("disable_logprobs", "rejection_sample_method", "use_local_argmax_reduction", "tensor_parallel_size"),
            ),
            "of the drafter: dpsim runs a stand-in for it",
        ),
    },
    "fault_tolerance_config": {"engine_recovery_timeout_sec": "used: config.fault_tolerance_config"},
    "eplb_config": dict.fromkeys(
        (
            *("window_size", "step_interval", "num_redundant_experts", "log_balancedness"),
            *("log_balancedness_interval", "use_async", "policy", "communicator", "enable_migration_batching"),
        ),
        "used: config.eplb_config",
    ),
}
"""The keys of each such flag, with the use of each key."""


def flat(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Returns the values by dotted key. Only `pass_config`, whose inner keys the table has, is flattened."""
    keys = KEYS[field]
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping) and any(known.startswith(f"{key}.") for known in keys):
            found |= {f"{key}.{name}": one for name, one in inner.items()}
        else:
            found[key] = inner
    return found


def fate(flag: str, field: str, key: str) -> str:
    """The use of a key, which inner keys share. ScenarioError for an unknown or a refused key."""
    keys = KEYS[field]
    while (fate_text := keys.get(key)) is None and "." in key:
        key = key.rpartition(".")[0]
    if fate_text is None:
        raise ScenarioError(f"{flag}: no key {key!r} is known{did_you_mean(key, keys)}")
    if fate_text.startswith("refused: "):
        raise ScenarioError(
            f"{flag}: the key {key} cannot be used: {fate_text.removeprefix('refused: ')}; leave it out"
        )
    return fate_text
