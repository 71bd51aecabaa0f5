"""Before each forward, data-parallel ranks agree on how they run it: the batch agreement of vLLM (specification
chapter 1).

prefixes.py           the tokens that requests of one prefix share on a rank
timeline.py           requests to batches: the scheduler of each rank, on the step clock
own_part.py           the part of a timeline that one rank may read
live.py               the batches of a rank whose requests arrive as messages during the run
microbatch.py         which ranks may split a batch, and which requests and tokens each microbatch gets
microbatch_inputs.py  the inputs of each microbatch: attention metadata, inputs of the model
batch.py              the agreement of the V1 runner: wire format and decision, in two published forms
one_graph.py          checks that all ranks can run an agreement in one graph, also in runs without captures
doubling.py           the sum by point-to-point swaps that reduces the table of the V2 runner
batch_v2.py           the agreement of the V2 runner, and the record that a later dispatch may reuse
flow.py               what a rank decides by itself, before and after the agreement, by release
forward.py            the stand-in for a forward: an attention kernel and the collective of the experts
drafter.py            the drafter, and its own agreements
expert_balance.py     experts that move by their load, between two steps
async_balance.py      experts that move in a separate thread while steps run
attention.py          the kernels of a captured forward
layers.py             the layers of a captured forward, cut into pieces around attention
captured.py           the forward that a rank captures, and replays if the ranks agreed on a graph
captured_v2.py        the captured forward of the V2 runner, whose session needs no agreement
figures.py            padded tokens, graph modes and moves of experts, for the report of a run
step.py               one step of the V1 runner: dispatch, agreement, forward, drafter
step_v2.py            the step of the V2 runner in release 0.33
drafter_v2.py         the drafter of the V2 runner, which reuses the agreement of the step
step_v2_017.py        the step of the V2 runner in release 0.17, whose ranks send graph sizes
witness.py            a check that a rank's steps return exactly its tokens
"""
