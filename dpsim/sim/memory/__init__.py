"""Device memory of the simulated machine.

allocator.py       a caching allocator, as PyTorch's
device.py          the device of a rank: its memory, its chains, its communicators
buffers.py         buffers
"""
