"""Ranks that run alone in a process: `dpsim.alone`, and what `dpsim.campaign.lone_ranks` makes of it."""
