"""What each piece of memory saw last.

shadow.py      the memory of all ranks: each new access is held against those before it
cells.py       byte ranges that were always touched as a whole, and who touched them last
"""
