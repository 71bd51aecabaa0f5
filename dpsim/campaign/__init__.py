"""Campaign: runs a scenario many times, under many schedules, and reports what these runs show together.

A schedule is one order of the steps of all ranks. A world is a scenario's program with fixed parameters and planted
faults. This package connects the explorer, which chooses schedules (`dpsim.explore`), with the simulation and the
checks. It also replays failures, splits explorations over processes and machines, and runs the museum of known bugs.

A file imports only files that are listed above it:

    subject.py    runs a program of one world under a schedule, and judges the run
    assumptions/  the table of what hardware may do and the simulation does not, which a verdict prints
    draws.py      finds the rank that draws random numbers without a seed
    reached.py    counts the probes, modes and table rows that runs reached
    repeats.py    repeats some runs, which must come out equal
    in_time.py    judges the timed run of a world before a search
    polling.py    finds a loop that polls, which makes a search endless
    learned.py    what each thread of a run learned, as lists that runs on all backends can compare
    searches.py   runs a world under one schedule after another, and collects the results
    pasts.py      records the results of all awaits of a rank, so that the rank can run again alone
    lone_ranks.py runs each rank again alone in a process, to find Python objects that ranks share
    elsewhere.py  further runs whose ranks differ as processes may
    unseen.py     what a run on another backend shows that the search did not see
    how_far.py    reports the progress of an exploration in a line
    to_prove.py   how a proof would be possible after a search that proved nothing
    explored.py   the result of an exploration: verdict, failures, and what the verdict assumes
    against.py    runs an explored world on another backend, and looks the outcomes up
    coverage.py   counts what worlds reached of all that programs declare
    repaired.py   runs the same world with one call of the culprit repaired
    units.py      executes a unit (some schedules of a world) in any process, and merges the results
    interrupts.py tells a user who pressed Ctrl-C what was done so far
    plans.py      decides which unit of a world comes next
    in_order.py   issues the units of a plan in one order for any number of processes
    unit_process.py  a process that executes units
    processes.py  explores several worlds with several processes, some of which may die
    sameness.py   identifies what an exploration explores, in words and digests
    work.py       a folder of results, with which an interrupted exploration can continue
    remote.py     sends a world and its units to another machine
    ray_units.py  executes units as tasks on a Ray cluster, and repeats lost ones
    ray_cluster.py  connects to a Ray cluster, and sends the user's modules there
    traces.py     writes the trace of a judged run, with its scenario and verdict
    pruning.py    keeps the folders of the last failures, and removes older ones
    results.py    writes the folder of a failure: report, picture, trace and scenario
    files.py      explores scenario files and writes traces of failures
    cut_short.py  which limit ended a search before it had tried every schedule
    whole.py      explores all worlds of a set, such as all small worlds of a scenario
    bounds.py     the bounds of an exploration, such as a number of preemptions
    deepening.py  explores within bounds, level by level
    swarm.py      plants random faults at the ops of a scenario's run
    token.py      encodes a failure as one word, for logs and command lines
    gate_turns.py finds the order in which threads, or ranks at a store, took turns
    gates.py      runs a scenario on another backend in the order of a simulated run
    rank_state.py describes where each rank of an unfinished run is
    stepping.py   stops a replay at a step or op, or opens a debugger there
    replay.py     repeats the run of a trace or token, and compares it
    calls.py      finds the calls that led to a culprit's line, by a second run
    alternatives.py  adds to a report which events to swap, and which culprit a world with one more rank has
    commands.py   writes the commands that repeat a failure of `holds`
    drawn.py      counts the worlds that Hypothesis drew for a test, by verdict
    saved.py      finds failures that earlier tests saved in files
    properties.py `dpsim.testing.holds`, which explores a scenario in a test
    museum_there.py  makes a row of the museum on another machine
    museum.py     measures which strategy finds each known bug, and how soon
    nights/       runs all of these in one night, and compares it with earlier nights
"""
