"""Dual-batch overlap: host threads run the microbatches of a batch, and one computes while another communicates.

state.py         what all threads of a rank share: their microbatches, and the forward context
barrier.py       the barrier at which microbatches and the main thread meet at the start
baton.py         the context of a microbatch: its yields, its streams, its turn to run
hooks.py         these operations for code that also runs without microbatches
routing.py       the expert of each token
all_to_all.py    dispatch and combine of the experts: high throughput and low latency
sm_control.py    the streaming multiprocessors of computing and of communicating
library.py       memory that a library allocates for each thread and stream
layers.py        the layers of a forward, which read their inputs from the forward context
graph_keys.py    the keys under which graphs of microbatches are stored and looked up
wrapper.py       how a forward runs: in threads, in the main thread, captured or replayed
forward.py       a batch and its agreement, cut into microbatches
repaired.py      a repair that no release has: a microbatch that raises releases the others
forms.py         the differences of releases and of the V2 runner, and the step

Source: specification chapters 3 and 4.
"""
