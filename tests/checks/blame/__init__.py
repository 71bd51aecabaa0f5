"""Tests of `dpsim.checks.blame`, which finds the cause behind the findings of the checks.

lines.py          pipelines of two stages as handmade journals, and faults in them
test_alike.py     equal ranks that the checks compare only once
test_extra_calls.py a call of a collective that met another call
test_beside.py    the message that a sleeping culprit took before
test_broken_off.py  a rank that ended because another actor closed its store
test_circles.py   crossed groups, or a missing call
test_uneven.py    a call that one of two sides left out or made twice
test_uneven_groups.py  the same for collectives of two members
test_small_programs.py rings, stages, orders and threads with one planted fault
test_shapes.py    which of two calls with different shapes is odd
test_plain_calls.py  plain lists of calls, without steps and sites
test_settings.py  the settings of single ranks, in a finding about a difference of ranks
test_chain.py     the op in which each actor is blocked, and the actors for which it waits
test_reached.py   the op that an actor reached and did not make
test_roots.py     an actor that died, raised or stopped between two ops, and the actors that wait for it
test_waiters.py   an actor that only waits is not to blame
test_lost_wakes.py  the culprit if a message or key does not arrive
wakes.py          small programs, and variants in which one wake gets lost
test_witnesses.py actors that raised because others did not act
test_cohorts.py   ranks with the same history, and the one that differs
"""
