"""The layer that finds the cause of what checks found.

test_astray.py    a call of a collective that met another call
test_settings.py  the settings of single ranks, beside a difference of ranks
"""
