"""Mistakes that are planted in the healthy protocols, one at a time, and what of the project notices each.

python -m tests.vllm.planted.campaign              # the table; an hour on one core
python -m tests.vllm.planted.campaign eplb-end     # one of them, with the first lines of what failed
"""
