"""The command line: `dpsim`, one command a file.

app.py            the commands by name, errors and exit codes
run.py            `dpsim run`           run_text.py      what it prints
explore.py        `dpsim explore`       explore_text.py  what it and `dpsim replay` print
museum_text.py    what `dpsim museum` prints
list.py           `dpsim list`
options.py        options that several commands have
console.py        columns, progress, colours, one-line errors
"""

from dpsim.cli.app import main

__all__ = ["main"]
