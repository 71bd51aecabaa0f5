"""Kinds of protocols whose author has not seen the checks. Each module has a function `draw` (`tests.blame.drawn`).

buckets.py     each step reduces its gradients on a second stream, within nodes and among their leaders
checkpoint.py  a host thread of each rank saves snapshots, while the ranks train on
elastic.py     an agent forms the group of each generation anew, from the ranks that want to be in it
experts.py     attention ranks and experts exchange unequal pieces on devices, by a table that they gather
gossip.py      in each round the ranks tell others what they know; the partners are drawn
handover.py    a router deals requests to prefill ranks; decoders receive their blocks from any source
lease.py       one rank claims the build of a kernel at a store, and the others give up after a time
"""
