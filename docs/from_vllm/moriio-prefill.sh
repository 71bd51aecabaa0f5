# vLLM pull request 29304, add moriio kv connector: the prefill instance
export VLLM_ALL2ALL_BACKEND=naive 
export VLLM_USE_V1=1    
export VLLM_ROCM_USE_AITER=1 
MODEL_PATH=/mnt/m2m_nobackup/models/deepseek-ai/DeepSeek-V3
vllm serve $MODEL_PATH        \
 -tp 1  \
 -dp 8     \
 --enable-expert-parallel         \
 --port 20005     \
 --block-size 1          \
 --no-enable-prefix-caching \
 --max-num-batched-tokens 4096         \
 --distributed-executor-backend mp         \
 --gpu_memory_utilization 0.85         \
 --max-model-len 4096         \
 --enforce-eager \
 --max_num_seqs 64\
 --no-enable-prefix-caching \
 --kv-transfer-config '{"kv_connector":"MoRIIOConnector","kv_role":"kv_producer","kv_connector_extra_config":{"proxy_ip":"10.xxx.xxx.xx","proxy_ping_port":"36367","http_port":"20005"}}' \

