"""An installed vLLM, played by a stand-in, and files of released wheels, run beside our code.

engine_files.py                         one file of a wheel, with stand-ins in place of what it imports
baton_cases.py, _engine, _ours          the contexts of microbatches, on real threads and in the simulation
handler_cases.py, _engine, _ours        the handler of sampled tokens, on groups and streams that note
"""
