"""What ranks share beside communicators: mailboxes, notices of deaths, ports, stores.

mailbox.py         mailboxes
notices.py         notices that a rank or service has ended
ports.py           the ports of nodes, and their listeners
waiting.py         waits at ports and stores
stores.py          stores, as one rank has them
"""
