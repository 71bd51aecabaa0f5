"""Pipeline parallelism: stages send hidden states forward, and the last stage sends sampled tokens back.

batches.py          the batches, their rows, and the results of a step
scheduler.py        the engine's scheduler, which gets results some steps late
pacing.py           requests with drafts that release 0.33 schedules too early
history.py          all calls of an engine, computed before the run
slots.py            which request has which slot of the request table
request_table.py    the table of requests on the device, and its kernels
staging.py          host numbers on their way to the device
need_mask.py        which rows need their sampled token, in two published rules
sampled_tokens.py   the broadcast of sampled tokens, and the queue in which they wait
page_002.py         the broadcast as source page 002 describes it
transfer.py         hidden states from one stage to the next
witness.py          a check of a stage's inputs and outputs against the expected tokens
layers.py           the layers of a stage, in one kernel
graphs.py           the layers of a stage, captured into CUDA graphs and replayed
worker.py           one rank of a stage, which runs the engine's remote calls
stage.py            one rank with the engine's calls, and the checks of their results

Source: specification chapters 6 and 7.
"""
