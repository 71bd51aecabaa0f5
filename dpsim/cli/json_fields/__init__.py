"""The keys of each object that `--json` prints, with their values and meanings: for docs/json.md.

field.py    a key, and the keys that several objects share
runs.py     the objects of `run`, `explore` and `replay`
files.py    those of `compare` and `explain`
names.py    those of `list`, `show` and `museum`
nights.py   those of `campaign`, and the key of `--coverage`
objects.py  all of them, by command

`findings[].class` is the key `class` of each object in the list `findings`. `figures.*` is each key of the object
`figures`, which a program names. A test compares these keys with the objects of commands. Each object also has
`schema_version`. Commands of other packages describe their objects there.
"""
