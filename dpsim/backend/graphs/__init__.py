"""CUDA graphs: the calls that a capture keeps, and how a replay issues them again.

kernel_globals.py  the globals that a kernel may read
kernel_call.py     a kernel with the arguments of its launch
replaying.py       the memory and the streams that kept calls use, in a capture and in each replay
kept.py            the calls that a capture keeps, and how a replay issues them again
branches.py        the streams that join a capture
capture_pool.py    the blocks of a graph's pool
capture.py         a capture in progress, and the calls that it refuses
"""
