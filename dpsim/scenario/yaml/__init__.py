"""Scenarios as YAML files: a reader that knows the line of every value, and a writer.

    reader.py     reads bytes; returns a valid scenario or raises one readable error
    nodes.py      parses text into a tree of nodes with their lines, strictly and with limits
    messages.py   words pydantic's errors for the author of a scenario
    writer.py     writes a scenario as text, without defaults

A scenario that dpsim writes and reads again is equal.
"""
