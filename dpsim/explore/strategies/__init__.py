"""How schedules are chosen, one strategy a file. All but `base` can be read in any order.

    base.py       what they share: a search goes from run to run, a picker answers within a run
    walks.py      first-in-first-out, and the random walk
    pct.py        random priorities of actors
    pos.py        random priorities of ops
    places.py     where dpor stands: places, and both as plain data
    dpor.py       every class of schedules once
    branches.py   the tree of dpor in branches, for many processes
    within.py     every class that has a schedule within bounds
    frontier.py   what a search within bounds has still to run, shared out to many
    portfolio.py  dpor and those that draw random numbers in turn: the default
    replay.py     one run, along a schedule that was noted

`dpsim.explore.STRATEGIES` lists those that are chosen by name. They differ in what they find soon; only `dpor`, alone
or in the portfolio, can say that there is nothing left to find.
"""
