"""Turns the calls of a hung job into a scenario: `dpsim import FOLDER -o scenario.yaml`.

rows.py       one call of a job as a line of text in a scenario file
program.py    the program `recorded`, whose ranks make the calls of these lines
repeatable.py which calls of a job a simulation can repeat, with those of a rank without a dump
importing.py  from the dumps or recordings of a job to a scenario
"""
