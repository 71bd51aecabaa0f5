"""Many runs: a world explored whole, over processes, replayed from a file, or as an exhibit of the museum.

Upwards, each file knows those above it:

    subject.py    a program on a world: a run under a schedule, judged by all checks
    assumptions/  what a verdict takes for granted: one table of what hardware may do, by what runs did
    draws.py      the rank that draws random numbers without a seed
    reached.py    the probes, modes and rows of tables that runs reached
    repeats.py    some runs are made again, and have to come out the same
    in_time.py    the run of a world as written, judged before a search
    polling.py    a loop that polls, of which a search of a world has no end in sight
    searches.py   run after run under a strategy, and what is noted of them
    pasts.py      a run that keeps what each rank has learned
    lone_ranks.py each rank of a run that holds once more alone in a process: do ranks share anything in Python?
    how_far.py    how far an exploration is, in a line
    explored.py   what is known of a subject in the end: each failure with its run; is it as expected; what it assumes
    coverage.py   what worlds reached of all that is declared, and what no world did
    one_more.py   the rank that the same run blames in a world with one rank more
    turns.py      of a failure, what to swap so that the run finishes, and the point of no return
    alternatives.py  these two, for the report of a failure
    units.py      some schedules of a subject, done in any process, and their results merged
    interrupts.py what was done before Ctrl-C
    plans.py      which units of a subject are still to be done
    in_order.py   the units of a plan in one order, for any number of processes
    unit_process.py  a process that does units
    processes.py  several subjects over several processes: which worker does which unit, and what if one dies
    sameness.py   what an exploration is of, in words and digests
    work.py       a folder of results, from which an exploration goes on after a cut
    remote.py     a subject that another machine makes again, and its units done there
    ray_units.py  tasks on a cluster of Ray: several units in one, and what becomes of lost ones
    ray_cluster.py  the cluster of Ray: where it is, and which modules travel to it
    traces.py     the trace of a judged run, with its scenario and verdict
    pruning.py    the folders of the last failures stay, and older ones go
    results.py    the folder of a failure: report, picture, trace and scenario
    files.py      scenarios in, outcomes out, traces of failures on disk; and all small scenarios like one
    bounds.py     bounds of an exploration, each with its number
    deepening.py  explorations within bounds, level by level
    swarm.py      worlds like a scenario's, with faults drawn at the ops of its run
    token.py      a failure as one word, for logs and command lines
    gates.py      a run on another backend, in the order of this one
    gate_turns.py which calls came after which, where threads or ranks at a store take turns
    stalled.py    at which gates a real run stands
    unforced.py   what of a run no gate can force
    standing.py   where each rank of a run that goes on stands, in words
    stepping.py   looking on at a replay: stop at a step or an op, and who waits for whom
    replay.py     the run of a trace or of a token made again: is it the same?
    calls.py      the calls that led to a culprit's line, from a second run
    drawn.py      the worlds that Hypothesis drew for a test, counted by verdict
    properties.py `dpsim.testing.holds`: does a scenario hold, in a test?
    saved.py      failures of it that earlier runs left in files
    museum_there.py  a row of the museum, made on another machine
    museum.py     what finds each known mistake, how soon, and does its healthy twin hold?
    nights/       all of these in one night, kept beside the nights before, and what is new

Which schedules there are and which are worth a run is the business of `dpsim.explore`, which knows nothing of programs,
worlds and checks. Here the two meet.
"""
