"""Engines in lockstep: waves, the finish sync, pause and resume, the coordinator and its front ends (specification 2).

finish_sync.py    what ranks tell each other at the end of a step, how often, and what follows
waves.py          waves as one engine sees them
coordination.py   waves as the coordinator sees them
client.py         waves and load as a front end sees them
"""
