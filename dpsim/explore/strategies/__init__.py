"""How schedules are chosen, one strategy a file. All but `base` can be read in any order.

    base               what they share: a search goes from run to run, a picker answers within a run
    walks              first-in-first-out, and the random walk
    pct, pos           random priorities: of actors, of ops
    dpor               every class of schedules once
    portfolio          dpor and those that draw random numbers in turn: the default
    replay             one run, along a schedule that was noted
    determinism_check  each run of another search twice: it has to be the same again

`dpsim.explore.STRATEGIES` lists those that are chosen by name. They differ in what they find soon; only `dpor`, alone
or in the portfolio, can say that there is nothing left to find.
"""
