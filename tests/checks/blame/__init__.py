"""The layer that finds the cause of what checks found.

lines.py          a line of two stages, made by hand, and what goes wrong with it
test_astray.py    a call of a collective that met another call
test_uneven.py    a call that one of two sides left out or made twice
test_shapes.py    of two calls that differ the one that is odd
test_settings.py  the settings of single ranks, beside a difference of ranks
"""
