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

`dpsim.explore.STRATEGIES` lists the strategies that a user can name with `--strategy`. Each strategy finds other kinds
of mistakes early. Without bounds, a proof needs `dpor`, which runs one schedule of every class of equivalent schedules.
The default, `portfolio`, runs `dpor` in turn with random strategies, so it can also give a proof.
"""
