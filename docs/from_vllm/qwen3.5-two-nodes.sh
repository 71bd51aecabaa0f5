# vLLM recipes, Qwen/Qwen3.5: GB200 Deployment (2 Nodes x 4 GPUs)
vllm serve Qwen/Qwen3.5-397B-A17B \
  --tensor-parallel-size 8 \
  --reasoning-parser deepseek_r1 \
  --enable-prefix-caching \
  --attention-backend FLASH_ATTN \
  --nnodes 2 \
  --node-rank 0 \
  --master-addr <head_node_ip>

vllm serve Qwen/Qwen3.5-397B-A17B \
  --tensor-parallel-size 8 \
  --reasoning-parser deepseek_r1 \
  --enable-prefix-caching \
  --attention-backend FLASH_ATTN \
  --nnodes 2 \
  --node-rank 1 \
  --master-addr <head_node_ip> \
  --headless
