"""Rules of the contract that both the machines and the checks use.

wait_set.py        the ranks that a member of a collective waits for
made_groups.py     communicators that ranks make during a run
sources.py         the sender of the message that a receive from any source took
floats.py          NaNs in a maximum, and sums whose value depends on the order
store_changes.py   changes of a store's key in one step
replay_frame.py    the graph replay to which a record belongs
kernel_constants.py  globals that kernels read, which no run may set
shared_state.py    the state that ranks of one process share, which no run may change
unordered.py       unordered uses of one Python variable by two host threads
"""
