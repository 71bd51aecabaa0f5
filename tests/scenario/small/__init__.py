"""Every small world like a scenario.

test_worlds.py    the worlds of a model of parameters, compared with a count by hand
"""
