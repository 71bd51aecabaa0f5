# vLLM recipes, MiniMax/MiniMax-M2: DP8+EP
vllm serve MiniMaxAI/MiniMax-M2.5 \
  --data-parallel-size 8 \
  --enable-expert-parallel \
  --tool-call-parser minimax_m2 \
  --reasoning-parser minimax_m2_append_think  \
  --enable-auto-tool-choice
