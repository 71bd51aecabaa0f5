"""Flags of vLLM that do not affect the coordination of ranks, grouped by the reason.

The sign after a name describes the value of the flag. `=` is one value, `=?` an optional value, and `=*` one or several
values. `=json` is JSON, or the form `--flag.key value`. A flag without a sign is a switch, and also has a form with
`--no-`. Other spellings of a flag follow after a slash.
"""

from __future__ import annotations

IGNORED = {
    "of the API server": """
        --host= --port= --uds= --api-key=* --served-model-name=* --response-role=
        --tool-server= --grpc --root-path= --middleware= --allow-credentials --allowed-origins= --allowed-methods=
        --allowed-headers= --ssl-keyfile= --ssl-certfile= --ssl-ca-certs= --ssl-cert-reqs= --ssl-ciphers=
        --enable-ssl-refresh --h11-max-incomplete-event-size= --h11-max-header-count= --disable-fastapi-docs
        --enable-offline-docs --enable-request-id-headers --enable-server-load-tracking
        --enable-tokenizer-info-endpoint --enable-force-include-usage --enable-prompt-tokens-details
        --enable-per-request-metrics --return-tokens-as-token-ids --disable-frontend-multiprocessing --tokens-only
        --stream-interval= --shutdown-timeout= --renderer-num-workers=
    """,
    "of prompts and answers: templates, tools, sampling": """
        --chat-template= --chat-template-content-format= --trust-request-chat-template
        --default-chat-template-kwargs=json --enable-auto-tool-choice
        --tool-call-parser= --tool-parser-plugin= --exclude-tools-when-tool-choice-none
        --reasoning-parser= --reasoning-parser-plugin= --reasoning-config=json --enable-reasoning
        --structured-outputs-config=json --guided-decoding-backend= --guided-decoding-disable-fallback
        --guided-decoding-disable-any-whitespace --guided-decoding-disable-additional-properties
        --logits-processor-pattern= --logits-processors=* --generation-config= --override-generation-config=json
        --max-logprobs= --logprobs-mode= --io-processor-plugin= --enable-return-routed-experts
    """,
    "of the model and its weights: shapes and numbers are stand-ins here": """
        --tokenizer= --tokenizer-mode= --tokenizer-revision= --skip-tokenizer-init --trust-remote-code --dtype= --seed=
        --hf-config-path= --hf-token=? --hf-overrides=json --revision= --code-revision= --config-format=
        --quantization/-q= --quantization-config=json --allow-deprecated-quantization --load-format= --download-dir=
        --safetensors-load-strategy= --model-loader-extra-config=json --ignore-patterns=* --use-tqdm-on-load
        --pt-load-map-location= --model-impl= --model-class-overrides=json --override-attention-dtype=
        --rope-scaling=json --rope-theta= --enable-prompt-embeds --max-parallel-loading-workers=
        --language-model-only --convert= --pooler-config=json --device=
    """,
    "of the kernels": """
        --attention-backend= --attention-config/-ac=json --moe-backend= --linear-backend= --kernel-config=json
        --disable-custom-all-reduce --disable-cascade-attn --disable-sliding-window --kv-cache-dtype=
        --calculate-kv-scales --mamba-cache-dtype= --mamba-ssm-cache-dtype= --mamba-block-size= --mamba-cache-mode=
        --mamba-backend= --gdn-prefill-backend= --enable-flashinfer-autotune --mm-encoder-attn-backend=
    """,
    "of memory, of which there is enough here": """
        --gpu-memory-utilization= --kv-cache-memory-bytes= --swap-space= --cpu-offload-gb= --cpu-offload-params=*
        --offload-backend= --offload-group-size= --offload-num-in-group= --offload-prefetch-step= --offload-params=*
        --kv-offloading-size= --kv-offloading-backend= --kv-sharing-fast-prefill --enable-sleep-mode
        --disable-hybrid-kv-cache-manager --enable-prefix-caching --prefix-caching-hash-algo= --numa-bind
        --numa-bind-nodes=* --numa-bind-cpus=*
    """,
    "of the scheduler: it decides which tokens are in a batch, and not how ranks agree on batches": """
        --enable-chunked-prefill --max-num-partial-prefills= --max-long-partial-prefills=
        --long-prefill-token-threshold= --scheduling-policy= --disable-chunked-mm-input --num-lookahead-slots=
        --scheduler-reserve-full-isl
    """,
    "of the transfer of caches or weights between deployments": """
        --kv-transfer-config=json --kv-events-config=json --ec-transfer-config=json --weight-transfer-config=json
    """,
    "of images, sound and video": """
        --limit-mm-per-prompt=json --enable-mm-embeds --media-io-kwargs=json --mm-processor-kwargs=json
        --mm-processor-cache-gb= --mm-processor-cache-type= --disable-mm-preprocessor-cache
        --mm-shm-cache-max-object-size-mb= --mm-encoder-tp-mode= --enable-multimodal-encoder-data-parallel
        --interleave-mm-strings --skip-mm-profiling --video-pruning-rate= --mm-tensor-ipc= --allowed-local-media-path=
        --allowed-media-domains=*
    """,
    "of adapters: only whether there are any matters": """
        --lora-modules=* --max-loras= --max-lora-rank= --max-cpu-loras= --lora-dtype= --lora-extra-vocab-size=
        --lora-target-modules=* --fully-sharded-loras --default-mm-loras=json --enable-tower-connector-lora
        --specialize-active-lora
    """,
    "of logs and measurements": """
        --disable-log-stats --enable-log-requests --disable-log-requests --enable-log-outputs --enable-log-deltas
        --max-log-len= --log-config-file= --log-error-stack --uvicorn-log-level= --disable-uvicorn-access-log
        --disable-access-log-for-endpoints= --aggregate-engine-logging --show-hidden-metrics-for-version=
        --otlp-traces-endpoint= --collect-detailed-traces=* --kv-cache-metrics --kv-cache-metrics-sample=
        --cudagraph-metrics --enable-mfu-metrics --enable-layerwise-nvtx-tracing --enable-logging-iteration-details
        --profiler-config=json
    """,
    "of where ranks run and how they find each other: a scenario is the whole deployment": """
        --data-parallel-address/-dpa= --data-parallel-rpc-port/-dpp= --master-addr= --master-port=
    """,
}
"""The flags by reason. A scenario file and `dpsim scenario from-vllm` print the reason after the flag."""
