"""Device memory, as journals name it.

pools.py           the memory pools of graphs
buffers.py         buffers and their views
"""
