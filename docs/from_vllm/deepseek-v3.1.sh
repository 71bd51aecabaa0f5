# vLLM recipes, DeepSeek/DeepSeek-V3_1: Launching DeepSeek-V3.1
vllm serve deepseek-ai/DeepSeek-V3.1 \
  --enable-expert-parallel \
  --tensor-parallel-size 8 \
  --served-model-name ds31 
