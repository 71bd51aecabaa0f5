"""Data-parallel ranks agree on how each step runs (specification chapters 1, 3, 5).

prefixes.py           the tokens that requests of one prefix share on a rank
timeline.py           requests to batches: the scheduler of each rank, on the step clock
live.py               the batches of a rank whose scheduler runs live
microbatch.py         which ranks may split a batch, and which requests and tokens each part gets
microbatch_inputs.py  the inputs of each part: attention metadata, inputs of the model
batch.py              the agreement itself: wire format and decision, in two published forms
one_graph.py          whether an agreement fits one graph on all ranks, also without captures
doubling.py           a sum by point-to-point swaps, as the V2 runner's table is reduced
batch_v2.py           the agreement of the V2 runner, and the record that a later dispatch may reuse
flow.py               decisions of a rank alone, before the agreement and after it, by release
forward.py            the stand-in for a forward: a layer and its experts
drafter.py            the drafter, and its own agreements
expert_balance.py     experts that move by their load, between two steps
async_balance.py      the same while steps run, in a thread
attention.py          what the layers of a captured forward compute
layers.py             those layers, cut into pieces
captured.py           the forward that a rank captures, and replays if the ranks agreed on a graph
figures.py            tokens and modes of a finished run
captured_v2.py        the same of the V2 runner, whose ranks need no agreement for a capture
step.py               the step around them
step_v2.py            the same with the agreement of the V2 runner
drafter_v2.py         the drafter of the V2 runner, under the record of the step
step_v2_017.py        the step of the V2 runner in release 0.17, whose ranks send sizes
witness.py            a check that a rank's steps return exactly its tokens
"""
