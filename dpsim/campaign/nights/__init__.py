"""One night of campaigns, a file of its rows, and what is new in it against the nights before.

    run_night(Night(Path("nights"), "2026-11-27"))      # nights/2026-11-27.jsonl
    report_of(Path("nights")).new                       # failures that no earlier night had

    rows.py       a row of a night, and the files of nights
    sizes.py      how much a night does
    idle.py       the parts that ran nothing, and why
    worlds.py     the parts that explore worlds: scenarios, swarm, small worlds
    mistakes.py   the part that visits the museum
    pytest_report.py  the part that reads what pytest reports of fuzzers, soaks and planted mistakes
    night.py      all parts, one after another
    report.py     the newest night against the nights before

Each file knows those above it.
"""
