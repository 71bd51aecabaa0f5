"""The command line: `dpsim`. A command is a file, and so is what it prints, as text and as JSON.

    app.py        the commands by name, and how the program ends
    ending.py     how the process ends: never without a word
    json_alone.py what `--json` prints is alone on stdout
    console.py    what commands print with: exit codes, errors in one line, columns, colours, progress
    exit_codes.py     exit codes, each with its outcome
    json_fields/      the keys of each object that --json prints
    streams.py    stderr; whether a stream is a terminal
    progress.py   how far a command is
    exit_codes.py the exit codes that `--help` shows
    misspelt.py   suggestions for commands and options
    timer.py      what has progress shown where no step is reported
    options.py    options that several commands have
    torch_target.py    --torch: a program of torch.distributed in place of a scenario
    offered.py    commands, sources of scenarios and options of other packages
    protocol_errors.py      what a protocol's own code raised outside of a run

    run.py        run_text.py        a scenario on a backend, judged
    unchecked.py                     what a program keeps from the checks
    explore.py    explore_text.py    every schedule of scenarios
    two_lines.py                     what --quiet prints
    explore_options.py               its options
    explore_bounds.py                what its bounds exclude
    explore_work.py                  the folder of its --work and --resume
    coverage_text.py                 what its schedules reached, and what none did
    replay.py     replay_text.py     the run of a trace made again
    debugger.py                      pdb at one of its ops
    compare.py    compare_text.py    two traces
    record.py                        a job, with a recorder in each of its processes
    explain.py                       a hung job, from its recordings or the dumps of its flight recorders
    export.py                        a run or a hung job as a picture
    import_job.py                    a hung job as a scenario
    museum.py     museum_text.py     what finds each known mistake
    museum_card.py                   what one of them is, and how to run it
    campaign_options.py              the options of a night of campaigns
    campaign.py   campaign_text.py   a night of campaigns, and what is new in the newest
    list.py       list_text.py       what there is to run; the schema of scenario files
    show.py       show_text.py       what a name means
    hooks.py                         what a variant of a program may replace
    new.py        new_files.py       a protocol to begin with

Nothing but typer is imported before a command runs, so a command imports its text when it is called.
"""

from dpsim.cli.ending import main

__all__ = ["main"]
