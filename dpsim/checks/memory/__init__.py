"""What each piece of memory saw last.

shadow.py      the memory of all ranks: each new access is held against those of its buffer before it
cells.py       elements that were always touched as a whole, and who touched them last
reuse.py       buffers whose memory another one may have had: the accesses of the one against the writes of the other
"""
