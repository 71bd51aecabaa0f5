"""Captured graphs: what a capture keeps, and what a replay issues again.

kernel_call.py     a kernel with the arguments of its launch
replaying.py       the calls that a replay issues
kept.py            the calls that a capture keeps
branches.py        the streams that join a capture
capture_pool.py    the blocks of a graph's pool
capture.py         a capture in progress, and the calls that it refuses
"""
