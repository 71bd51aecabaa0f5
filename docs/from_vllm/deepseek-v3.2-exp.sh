# vLLM recipes, DeepSeek/DeepSeek-V3_2-Exp: Launching DeepSeek-V3.2-Exp
vllm serve deepseek-ai/DeepSeek-V3.2-Exp -dp 8 --enable-expert-parallel
