"""Nights: runs many campaigns in one night, writes the results to a file, and compares them with earlier nights.

    run_night(Night(Path("nights"), "2026-11-27"))      # nights/2026-11-27.jsonl
    report_of(Path("nights")).new                       # failures that no earlier night had

    rows.py       a row of a night (one result), and the files of nights
    sizes.py      how much work a night does
    idle.py       explains why a part of a night ran nothing
    worlds.py     the parts that explore: as written, with random faults, all small sizes, and the known bugs
    night.py      runs all parts, one after another; the last part reads the results of a pytest run
    report.py     compares the newest night with earlier ones

A file imports only files that are listed above it.
"""
