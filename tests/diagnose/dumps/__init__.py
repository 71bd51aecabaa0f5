"""Tests of dumps of flight recorders, which list the calls of each rank: reading, judging and explaining them.

made.py        dumps made by hand
from_runs.py   dumps made from simulated runs
gloo_hangs.py  a torch program whose ranks hang in eight ways and write dumps
"""
