"""How an exploration chooses its schedules, one strategy a file. Read `base` first, and the others in any order.

    base.py       what all strategies share: a search continues from run to run, a picker answers within a run
    walks.py      first-in-first-out, and the random walk
    pct.py        random priorities of actors
    pos.py        random priorities of ops
    places.py     the state of dpor between two runs, as plain data
    dpor.py       every class of schedules once
    branches.py   divides the tree of dpor into branches for many processes
    within.py     every class that has a schedule within bounds
    frontier.py   shares out the open choices of a search within bounds
    portfolio.py  alternates dpor and the random strategies: the default
    replay.py     one run along a given schedule

`dpsim.explore.STRATEGIES` lists the strategies that a user can name. They differ in the mistakes that they find soon.
Only `dpor`, alone or in the portfolio, can prove that no schedule is left.
"""
