"""Dual-batch overlap: microbatches of a batch in host threads of their own, one computes while the other communicates.

state.py         what all threads of a rank share: who is which microbatch, and the forward context
barrier.py       where microbatches and the main thread meet before the first of them runs
baton.py         a microbatch's context: the right to run goes round the ring, streams change with it
hooks.py         the same for whoever does not know whether he is in a microbatch at all
routing.py       which expert each token goes to
all_to_all.py    dispatch and combine of the experts, high throughput and low latency
sm_control.py    streaming multiprocessors, shared out between computing and communicating
library.py       what a library allocates for each thread and stream that uses it
layers.py        the layers of a forward, which ask the forward context for all they need
graph_keys.py    under which key a graph of microbatches is stored, and under which it is looked up
wrapper.py       how a forward runs: in threads, alone, captured or replayed
forward.py       from a batch and an agreement to the microbatches
repaired.py      microbatches that let their siblings go when they raise, as in no release
forms.py         what releases and the V2 runner differ in, and the step around it

It stands on `dpsim.vllm.data_parallel`, whose steps and agreements it takes as they are.

Sources: specification chapters 3 and 4.
"""
