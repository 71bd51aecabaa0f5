# vLLM pull request 41223, DBO with the all2all backend nixl_ep: the dense model
# dpsim scenario from-vllm - --release 0.33, which has that backend
vllm serve Qwen/Qwen2-1.5B-Instruct \
  --trust-remote-code \
  --max-model-len 4096 \
  --max-num-seqs 64 \
  --enable-dbo \
  --dbo-decode-token-threshold 16 \
  --dbo-prefill-token-threshold 256 \
  --all2all-backend nixl_ep
