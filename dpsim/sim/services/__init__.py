"""What ranks share beside communicators: mailboxes, notices of deaths, ports, stores.

mailbox.py         mailboxes
notices.py         notices of an actor's death
ports.py           the ports of nodes, and what listens on them
waiting.py         waits at ports and stores
stores.py          stores, as one rank has them
"""
