"""The last accesses of each piece of memory.

shadow.py      the memory of all ranks: compares each new access with earlier ones of its buffer
cells.py       elements that ops always touched as a whole, and their last accesses
reuse.py       buffers that may share memory: compares accesses of one with writes of the other
own_order.py   whether the order that one rank makes alone orders all its accesses; a part of the certificate
touches.py     the last accesses, and whether a new one certainly comes after them; a part of own_order
"""
