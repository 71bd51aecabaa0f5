"""What each piece of memory saw last.

shadow.py      the memory of all ranks: each new access is held against those of its buffer before it
cells.py       elements that were always touched as a whole, and who touched them last
reuse.py       buffers whose memory another one may have had: the accesses of the one against the writes of the other
own_order.py   whether what a rank orders by itself already orders all its accesses; a part of the certificate
touches.py     who touched what last, and whether what comes then is certain to come behind; a part of own_order
"""
