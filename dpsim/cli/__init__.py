"""The command line `dpsim`. Each command has a file, and a second file with what it prints, as text and as JSON.

    app.py        the typer application: all commands by name
    ending.py     the entry point: runs the application, and makes sure that the process ends with a message
    json_alone.py keeps stdout for the one JSON object of `--json`
    console.py    prints results and errors, and maps errors to exit codes
    exit_codes.py      the exit codes, each with its meaning
    streams.py    prints to stderr, and recognizes terminals
    progress.py   shows how far a command is
    misspelt.py   suggests commands and options for a misspelt name
    timer.py      a periodic signal, by which progress is shown during a long computation
    options.py    options of several commands
    completers.py    values that the shell offers
    torch_target.py    --torch: a program of torch.distributed instead of a scenario
    offered.py    commands, sources of scenarios and options of other packages
    protocol_errors.py      messages for errors in a protocol's own code, outside of a run

    run.py        run_text.py        runs a scenario on a backend, and judges it
    unchecked.py                     notes on what the checks cannot see, because the program does not record it
    explore.py    explore_text.py    searches the schedules of scenarios
    explore_worlds.py  explore_worlds_text.py    explores sets of worlds
    explore_display.py               prints and keeps what explore found
    explore_again.py                 the command that goes on after a limit
    two_lines.py                     the output with --quiet
    explore_options.py               the options of explore
    explore_against.py  the option `--against`: runs each explored world on a backend, and prints what no schedule shows
    explore_work.py                  the folder of --work and --resume, and the cluster of --cluster
    coverage_text.py                 which probes, modes and orders the schedules reached
    replay.py     replay_text.py     repeats the run of a trace
    debugger.py                      pdb at an op of a replay
    compare.py    compare_text.py    compares two traces
    record.py                        runs a job with a recorder in each of its processes
    explain.py                       explains a hung job from recordings or from flight recorder dumps
    export.py                        draws a run or a hung job
    import_job.py                    writes a hung job as a scenario
    museum.py     museum_text.py     shows which search finds each known mistake
    museum_card.py                   describes one known mistake
    campaign.py   campaign_text.py   runs a night of campaigns, and reports what is new
    list.py       list_text.py       lists scenarios, protocols, variants and backends; prints the schema
    show.py       show_text.py       explains a name, also a call of the contract
    hooks.py                         the classes of a program that a variant may replace
    named_types.py                   the types that the methods of these classes name
    new.py                           writes a new protocol, its scenario and its test

The modules of this package import only typer at their top, so that `dpsim --help` starts fast. A command imports other
modules when a user calls it.
"""

from dpsim.cli.ending import main

__all__ = ["main"]
