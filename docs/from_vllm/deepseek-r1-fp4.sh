# vLLM recipes, DeepSeek/DeepSeekR1-B200: Serve with AllGather-ReduceScatter
VLLM_ALL2ALL_BACKEND="allgather_reducescatter" \
CUDA_VISIBLE_DEVICES=0,1,2,3 \
VLLM_USE_STANDALONE_COMPILE=0 \
VLLM_USE_FLASHINFER_MOE_FP4=1 \
VLLM_FLASHINFER_MOE_BACKEND="latency" \
  vllm serve nvidia/DeepSeek-R1-FP4 
    --quantization="modelopt_fp4" \
    --trust-remote-code \
    --max-model-len=2048 \
    --block-size=128 \
    --max-num-seqs=256 \
    --enable-expert-parallel \
    --gpu-memory-utilization=0.8 \
    --tensor-parallel-size=1 \
    --data-parallel-size=4
