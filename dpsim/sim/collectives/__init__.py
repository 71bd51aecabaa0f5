"""Communicators as their members share them.

contribution.py    what one member brings to a collective or transfer
results.py         what each member of a collective gets
broken.py          a machine that follows what lies behind an abort
groups.py          a communicator, as its members share it
lazy.py            communicators that are made at their first use
residency.py       how many collectives and transfers of a rank run at once
membership.py      a rank in a communicator, which it may abort
transfers.py       with time: sends and receives, eager or rendezvous,
joint.py           and collectives, each a joint op of all members
parts.py           without time: each member's part is a separate op
"""
