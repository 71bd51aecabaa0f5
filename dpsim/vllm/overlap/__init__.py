"""Dual-batch overlap: host threads run microbatches of a batch, and one computes while the other communicates.

state.py         what all threads of a rank share: which thread is which microbatch, and the forward context
barrier.py       where microbatches and the main thread meet before the first of them runs
baton.py         a microbatch's context: the right to run goes round the ring, streams change with it
hooks.py         the same for code that runs with and without microbatches
routing.py       which expert each token goes to
all_to_all.py    dispatch and combine of the experts, high throughput and low latency
sm_control.py    streaming multiprocessors, shared out between computing and communicating
library.py       what a library allocates for each thread and stream that uses it
layers.py        the layers of a forward, which ask the forward context for all they need
graph_keys.py    under which key a graph of microbatches is stored, and under which it is looked up
wrapper.py       how a forward runs: in threads, alone, captured or replayed
forward.py       from a batch and an agreement to the microbatches
repaired.py      microbatches that let their siblings go when they raise, as in no release
forms.py         the differences of releases and the V2 runner, and the step around them

It builds on `dpsim.vllm.data_parallel`, whose steps and agreements it uses unchanged.

Sources: specification chapters 3 and 4.
"""
