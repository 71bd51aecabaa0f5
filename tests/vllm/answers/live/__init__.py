"""Tests that put the same questions to vLLM's code and to dpsim's. vLLM is a stand-in package or files of released
wheels.

    engine_files.py                         runs one file of a wheel, with stand-ins for the modules that it imports
    baton_cases.py, _engine, _ours          contexts of microbatches, on real threads and in the simulation
    handler_cases.py, _engine, _ours        the handler of sampled tokens, on groups and streams that log their calls
"""
