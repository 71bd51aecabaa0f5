# vLLM documentation, serving/data_parallel_deployment: Internal Load Balancing
vllm serve $MODEL --data-parallel-size 4 --data-parallel-size-local 2 \
                  --data-parallel-backend=ray
