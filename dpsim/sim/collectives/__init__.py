"""Communicators of the simulated machine: all members of a communicator share one `Group`.

contribution.py    what one member sends in a collective or transfer, and where it receives
results.py         the elements that each member of a collective receives
broken.py          a machine that tracks the ops behind an aborted part
groups.py          a communicator, as its members share it, and its creation at its first use
residency.py       how many collectives and transfers of a rank run at once
membership.py      a rank in a communicator, which it may abort
joint.py           timed mode: collectives, each a joint op of all members, and transfers, eager or rendezvous
any_source.py      receives from any source, a choice of the schedule
parts.py           collectives and transfers in untimed mode, one op for each member's part
"""
