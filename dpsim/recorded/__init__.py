"""The calls of a job that hung, as a program of the contract: `dpsim import FOLDER -o scenario.yaml`.

rows.py       one call as a line of text, which a scenario file has
program.py    the protocol `recorded`, whose ranks make the calls of their rows
inferred.py   steps of a job whose program names none
importing.py  from the dumps or recordings of a job to a scenario
"""
