"""Dumps of flight recorders: read, judged, and explained.

from_runs.py   dumps made of simulated runs
"""
