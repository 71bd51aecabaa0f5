"""Communicators as their members share them.

contribution.py    what one member brings to a collective or transfer
results.py         what each member of a collective gets
broken.py          a machine that tracks the ops behind an aborted part
groups.py          a communicator, as its members share it
lazy.py            communicators that are made at their first use
residency.py       how many collectives and transfers of a rank run at once
membership.py      a rank in a communicator, which it may abort
transfers.py       sends and receives in timed mode, eager or rendezvous
joint.py           collectives in timed mode, each a joint op of all members
any_source.py      receives from any source, a choice of the schedule
parts.py           collectives and transfers in untimed mode, one op for each member's part
served.py          the part of a member whose peers may die in it, where there is no time
"""
