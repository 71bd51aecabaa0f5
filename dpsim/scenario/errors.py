"""The exception for all problems of a scenario, in words for its author.

dpsim collects all problems of a scenario, or of a file that it names, in one `ScenarioError`. Its text has a line for
each: the place, what is wrong, what is expected, and the nearest name.

    bad.yaml:3:3: faults[0].kind: unknown kind 'skp'; expected one of skip, repeat, ...; did you mean 'skip'?
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpsim.contract.words import BadInput

SHOWN = 10
"""How many problems the text of a ScenarioError shows. It only counts the others."""


class ScenarioError(BadInput):
    """A scenario has problems. The text has one line for each problem."""


class FileMissing(ScenarioError):
    """A file that a scenario names does not exist. The text names the folders in which dpsim searched."""


def refuse_pipes(path: Path, expected: str) -> None:
    """ScenarioError for a path that is no regular file, not opened: a pipe blocks until it has a writer."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ScenarioError(f"{path}: not a regular file; expected {expected}")


def scenario_error(lines: Sequence[str], untold: int = 0) -> ScenarioError:
    """One error: the first `SHOWN` lines, and how many more there are. `untold`: problems without a line."""
    shown = list(dict.fromkeys(lines))
    more = len(shown) + untold - SHOWN
    if more > 0:
        shown[SHOWN:] = [f"... and {more} more problem{'s' if more > 1 else ''}"]
    return ScenarioError("\n".join(shown))


def shown(value: object, length: int = 60) -> str:
    """Returns a value as a message quotes it: on one line, with at most `length` characters."""
    text = repr(value)
    return text if len(text) <= length else f"{text[: length - 4]}...{text[-1]}"


def path_text(path: Sequence[str | int]) -> str:
    """Returns a path into a scenario as text.

    >>> path_text(("faults", 0, "at", "site"))
    'faults[0].at.site'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
