"""Memory: records the last accesses of each range of a buffer, so that checks find unordered and stale accesses.

shadow.py      the memory of all ranks: compares each access with earlier ones of the same buffer
cells.py       ranges of elements that ops always accessed as a whole, and their last accesses
reuse.py       buffers that may share memory: compares accesses of one with writes of the other
own_order.py   a fast test whether a rank's own program order orders all its accesses
touches.py     the last accesses for own_order, and whether a new one certainly comes after them
"""
