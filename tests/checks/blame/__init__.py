"""The layer that finds the cause of what checks found.

lines.py          a line of two stages, made by hand, and what goes wrong with it
test_astray.py    a call of a collective that met another call
test_uneven.py    a call that one of two sides left out or made twice
test_uneven_groups.py  the same of collectives of two members
test_small_programs.py rings, stages, orders and threads with one planted fault
test_shapes.py    of two calls that differ the one that is odd
test_plain_calls.py  plain lists of calls, without steps and sites
test_settings.py  the settings of single ranks, beside a difference of ranks
test_chain.py     who stands where, and for whom each waits
test_reached.py   the op that an actor reached and did not make
test_roots.py     an actor that died, raised or stands in no op, and who waits for it
test_waiters.py   who only waits is not to blame
test_lost_wakes.py  who is to blame for a message or key that does not come
wakes.py          small programs, and variants in which one wake gets lost
test_witnesses.py actors that raised because others did not act
test_cohorts.py   ranks that did the same so far, and the one that parts
"""
