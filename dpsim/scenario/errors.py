"""What is wrong with a scenario, in words for the person who wrote it.

All problems of a scenario, its file or a file that it names are one exception, `ScenarioError`. A command can show its
text as it is. The text has one line a problem: its place, what is wrong, what was expected, and the nearest name for an
unknown one. So no author of a scenario has to read a traceback.

    bad.yaml:3:3: faults[0].kind: unknown kind 'skp'; expected one of skip, repeat, ...; did you mean 'skip'?

Prior art: dagster's located YAML errors; pyaml issue 11 ("I would expect something simple such as: sr.yaml:
'array' unexpected keyword at line 11"); Rust's did-you-mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpsim.contract.words import BadInput

SHOWN = 10
"""How many problems of one scenario are shown; the rest is counted."""


class ScenarioError(BadInput):
    """A scenario that cannot be used. The text has one line for each problem."""


class FileMissing(ScenarioError):
    """A file that a scenario names is not there. The text names the places where it was looked for."""


def refuse_pipes(path: Path, expected: str) -> None:
    """Raise ScenarioError, unread, for what is there and is no file: opening a pipe would wait for its writer."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ScenarioError(f"{path}: not a regular file; expected {expected}")


def scenario_error(lines: Sequence[str], untold: int = 0) -> ScenarioError:
    """One error for several problems: at most `SHOWN` of them, and how many more there are, `untold` included."""
    shown = list(dict.fromkeys(lines))
    more = len(shown) + untold - SHOWN
    if more > 0:
        shown[SHOWN:] = [f"... and {more} more problem{'s' if more > 1 else ''}"]
    return ScenarioError("\n".join(shown))


def shown(value: object, length: int = 60) -> str:
    """A value as it is quoted in a message: on one line, cut where it is long."""
    text = repr(value)
    return text if len(text) <= length else f"{text[: length - 4]}...{text[-1]}"


def path_text(path: Sequence[str | int]) -> str:
    """A path into a scenario as people write it.

    >>> path_text(("faults", 0, "at", "site"))
    'faults[0].at.site'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
