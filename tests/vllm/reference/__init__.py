"""Generates the pages of the reference from the code. `python -m tests.vllm.reference` writes all of them.

pages.py            the pages, by path
tables.py           a table of Markdown
commands.py         docs/commands.md, from the parameters of each command
scenario_keys.py    docs/scenario-keys.md, from the JSON Schema of scenario files
finding_classes.py  docs/finding-classes.md, from the classes of findings, their meanings and the usual fixes
exit_codes.py       the first table of docs/exit-codes.md, from `dpsim.cli.exit_codes`
keys.py             docs/keys.md, from the invariants, the registered mutants, and the files that name them
vllm_flags.py       docs/vllm-flags.md, from the tables of `dpsim scenario from-vllm`
json_fields/        the keys of those objects, with their types and meanings
json_objects.py     docs/json.md, from the fields of each object that `--json` prints
"""
