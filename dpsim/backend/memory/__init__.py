"""Device memory.

pools.py           the memory pools of graphs
buffers.py         buffers and their views
"""
