"""CUDA graphs as numbers: which sizes have a graph, and which graph a batch runs in. All functions are pure.

sizes.py        the token counts that have a graph, by release
dispatcher.py   the V1 runner's dispatcher, which chooses a graph for a batch, in four releases
manager.py      the graph manager of source page 004: its sizes, its choice at run time, its captures
capture.py      the inputs of a capture: query starts, sequence lengths, inert requests
candidates.py   the V2 runner's graphs, and its choice among them

The package captures nothing, and its functions depend on the configuration only, not on a rank. Source: specification
chapter 5.
"""
