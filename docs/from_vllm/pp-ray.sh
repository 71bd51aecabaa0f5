# vLLM documentation, serving/parallelism_scaling: Running vLLM on a Ray cluster
vllm serve /path/to/the/model/in/the/container \
    --tensor-parallel-size 8 \
    --pipeline-parallel-size 2 \
    --distributed-executor-backend ray
