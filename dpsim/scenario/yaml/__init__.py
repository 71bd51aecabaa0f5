"""Scenarios as YAML files: a reader that knows the place of every value, and a writer for people.

    reader.py     bytes in, a valid scenario or one readable error out
    nodes.py      text to a tree of nodes with their lines: strict, bounded, without a surprise
    messages.py   pydantic's errors in the words of a scenario
    writer.py     a scenario as text: only what differs from the defaults

What is written and read again is the same scenario. Errors of scenarios that are made in Python get their words from
`messages` too.
"""
