"""Dumps of flight recorders: read, judged, and explained.

made.py        dumps made by hand
from_runs.py   dumps made of simulated runs
gloo_hangs.py  a program of torch whose ranks hang in eight ways, and dump
"""
