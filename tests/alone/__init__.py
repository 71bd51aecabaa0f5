"""Tests of `dpsim.alone`, which runs a rank again alone in its own process, and of `dpsim.campaign.lone_ranks`, which
uses it.
"""
