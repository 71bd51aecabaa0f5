# vLLM documentation, serving/data_parallel_deployment: Internal Load Balancing
vllm serve $MODEL --data-parallel-size 4 --tensor-parallel-size 2
