"""The engine's answers, compared: `dpsim check-engine` below its command line.

stand_in.py    a package `vllm` that answers from stored rows
"""
