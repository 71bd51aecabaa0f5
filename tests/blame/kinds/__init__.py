"""Kinds of protocols. Each module has a function `draw`, as `tests.blame.drawn` describes.

    baton.py         two host threads of each rank take turns by flags
    commit.py        two-phase commits by messages, with roles and perhaps time-outs
    coordinator.py   a service starts some of the ranks in each step
    credits.py       a pipeline whose stages return credits
    election.py      numbers travel around a ring until one rank has won
    farm.py          a master hands out tasks to any source
    microbatches.py  a pipeline with unequal warm-ups, forward and backward
    prefetch.py      items are received steps after they were sent, perhaps on a side stream
    ring.py          pieces travel around a ring of transfers
    server.py        workers push gradients to parameter servers
    stealing.py      ranks without tasks ask others for some
    store.py         keys and counters of a store
    torus.py         groups of rows and columns, on hosts or devices
    tree.py          blocks go down a tree, and sums go up

The kinds differ in roles, directions, sizes, the order of calls, and time-outs.
"""
