"""The device calls of a rank, and the rank itself.

communicators.py   device communicators
streams.py         streams and events
graphs.py          graphs: capture and replay
inserted.py        the call that a fault inserts
rank.py            ranks and mailboxes
"""
