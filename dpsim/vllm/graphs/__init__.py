"""CUDA graphs before any capture: which sizes there are, and which graph a batch runs in. Pure functions.

sizes.py        token counts with a graph: the ladder of each release, and its rounding
dispatcher.py   the V1 runner's dispatcher, in the forms of three releases
manager.py      source page 004: its maps of sizes, its choice at run time, its captures and their order
managed.py        the same behind the V1 runner's dispatcher, so that it may take its place
capture.py      the inputs of a capture: query starts, sequence lengths, inert tails
candidates.py   the V2 runner's graphs and its choice among them

They know the configuration and nothing of ranks, so that data-parallel steps and pipeline stages may use them alike
(specification chapter 5).
"""
