"""Tests of `dpsim check-engine`, which compares the answers of vLLM's own functions with the answers of dpsim's.

stand_in.py    installs a package `vllm` whose functions return stored answers
modules.py     the sources of that package's modules
live/          tests that call an installed vLLM, or files of released wheels
"""
