"""Twelve kinds of trouble and their reports, as files beside this one: what an engineer reads first.

    python -m tests.vllm.reports        # writes the files again; read the difference before you keep it

kinds.py     the twelve worlds
"""
