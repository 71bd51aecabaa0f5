"""Data-parallel ranks agree on how each step runs: the program `dp_batch` (specification chapters 1, 3 and 5).

timeline.py     requests to batches: the scheduler of each rank, on the step clock
graphs.py       which CUDA graph a batch runs in
microbatch.py   who may split a batch, and how it is cut
batch.py        the agreement itself: wire format and decision, in two published forms
step.py         the step around them, and the program
witness.py      whether a rank's tokens came out of its steps, all of them and no others
"""
