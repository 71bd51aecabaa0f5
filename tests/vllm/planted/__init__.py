"""Plants mistakes in the healthy protocols, one at a time, and tests which scenarios or tests notice each.

python -m tests.vllm.planted.campaign              # the table; an hour on one core
python -m tests.vllm.planted.campaign eplb-end     # one of them, with the first lines of what failed
"""
