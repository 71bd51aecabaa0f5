"""The keys of each object that `--json` prints, with the types of their values and their meanings. docs/json.md lists
them.

    field.py    the class of a key, and the keys of several objects
    runs.py     the objects of `run`, `explore` and `replay`
    files.py    the objects of `compare` and `explain`
    names.py    the objects of `list`, `show` and `museum`
    nights.py   the objects of `campaign`, and the key of `--coverage`
    check_engine.py  the object of `check-engine`
    objects.py  all objects, by command

In a key, `findings[].class` means the key `class` of each object in the list `findings`. `figures.*` means any key of
the object `figures`, because the program chooses its names. Each object that a command prints also has the key
`schema_version`. A test compares the listed keys with those objects.
"""
