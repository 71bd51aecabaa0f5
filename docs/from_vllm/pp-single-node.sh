# vLLM documentation, serving/parallelism_scaling: Single-node deployment
# Eight GPUs total
vllm serve gpt2 \
     --tensor-parallel-size 4 \
     --pipeline-parallel-size 2
