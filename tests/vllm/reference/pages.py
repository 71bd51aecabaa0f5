"""The generated pages by path, each with the function that returns its text."""

from __future__ import annotations

from collections.abc import Callable

from tests.vllm.reference import commands, exit_codes, finding_classes, json_objects, keys, scenario_keys, vllm_flags

PAGES: dict[str, Callable[[], str]] = {
    "docs/commands.md": commands.page,
    "docs/exit-codes.md": exit_codes.page,
    "docs/finding-classes.md": finding_classes.page,
    "docs/json.md": json_objects.page,
    "docs/keys.md": keys.page,
    "docs/scenario-keys.md": scenario_keys.page,
    "docs/vllm-flags.md": vllm_flags.page,
}
