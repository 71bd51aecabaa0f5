"""Kinds of protocols. Each module has a function `draw`, as `tests.blame.drawn` describes.

ring.py  pieces travel around a ring of transfers
"""
