"""Tests of the enumeration of small worlds of a scenario.

test_worlds.py    the small worlds of a model of parameters, compared with a count by hand
"""
