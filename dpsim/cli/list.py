"""`dpsim list` and `dpsim schema`: what there is to run, and what a scenario file may say.

dpsim schema > docs/scenario.schema.json
"""

from __future__ import annotations

import json

from dpsim.cli.console import one_line_errors, say
from dpsim.cli.options import AsJson, Modules, import_modules


def schema(module: Modules = None) -> None:
    """Print the JSON Schema of scenario files, for editors."""
    with one_line_errors():
        from dpsim.contract.registry import of_others
        from dpsim.scenario.schema import schema_text

        import_modules(module)
        say(schema_text(of_others()).rstrip("\n"))


def list_all(module: Modules = None, as_json: AsJson = False) -> None:
    """List scenarios, protocols, variants and backends."""
    with one_line_errors():
        from dpsim.cli import list_text as text

        import_modules(module)
        found = {
            "scenarios": text.scenarios(),
            "protocols": text.protocols(),
            "variants": text.variants(),
            "backends": text.backends(),
        }
        say(json.dumps(found) if as_json else text.as_text(found))
