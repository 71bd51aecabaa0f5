"""Pipelines: hidden states go forward, sampled tokens come back (specification 6 and 7).

batches.py          what goes through a pipeline: batches, their rows, results
scheduler.py        the engine's scheduler: the next batch, and what is known of earlier ones
pacing.py           requests with drafts that no rule paces, as 0.33 schedules them
history.py          scheduler and batch queue, played from the first request to the last
slots.py            which request has which slot of the table
request_table.py    the table of requests on the device, and its kernels
staging.py          numbers of the host on their way to the device
need_mask.py        which rows need their sampled token, in two published rules
sampled_tokens.py   the broadcast of sampled tokens, and the queue in which they wait
page_002.py         the same as source page 002 has it, word for word
transfer.py         hidden states from one stage to the next
witness.py          what goes into and comes out of a stage, held against the oracles
layers.py           the layers of a stage, in one kernel
graphs.py           the same, captured and replayed
worker.py           one rank's part of all this, as remote calls
stage.py            the calls that the engine makes, and what must come of them
"""
