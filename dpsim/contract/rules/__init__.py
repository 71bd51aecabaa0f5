"""Rules of the contract that both the machines and the checks use.

wait_set.py        the ranks that a member of a collective waits for
made_groups.py     communicators that ranks make during a run
sources.py         the rank whose message a receive from any source took
floats.py          NaNs that are compared, and sums whose order matters
store_changes.py   changes of a key of a store in one step
replay_frame.py    the replay of a graph that a record belongs to
kernel_constants.py  globals that kernels read, which no run may set
shared_state.py    what the ranks of one process share, which no run may change
unordered.py       uses of one thing by two host threads, which nothing orders
"""
