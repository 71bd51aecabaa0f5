"""Values that the shell offers for arguments and options, after `dpsim --install-completion`.

    dpsim run qui<TAB>                  # quickstart
    dpsim run quickstart --backend <TAB>    # gloo nccl sim

A completer returns the values that begin with the typed text, and never imports torch or a module of `--module`. If
nothing fits, the shell offers files. A completer that raises would disturb the line that the user types, so any error
means no values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

Completer = Callable[[str], list[str]]


def _completer(values: Callable[[str], Iterable[str]]) -> Completer:
    @functools.wraps(values)
    def completed(incomplete: str) -> list[str]:
        found: list[str] = []
        with suppress(Exception):
            found += [one for one in dict.fromkeys(values(incomplete)) if one.startswith(incomplete)]
        return found

    completed.__annotations__ = {"incomplete": str, "return": list[str]}
    return completed


@_completer
def scenarios(incomplete: str) -> Iterator[str]:
    """The scenarios that come with dpsim, and the YAML files in the folder of the typed path."""
    from dpsim.scenario.locate import bundled_scenarios

    yield from bundled_scenarios()
    folder = incomplete[: incomplete.rfind("/") + 1]
    files = Path(folder or ".").glob("*.y*ml")  # none if there is no such folder
    yield from sorted(f"{folder}{path.name}" for path in files)


@_completer
def variants(incomplete: str) -> Iterator[str]:
    """The variants of installed packages."""
    from dpsim.contract import registry

    return (one.name for one in registry.variants())


@_completer
def backends(incomplete: str) -> Iterator[str]:
    """The installed backends."""
    from dpsim.contract.installed import entry_points

    return (one.name for one in entry_points(group="dpsim.backends"))


@_completer
def strategies(incomplete: str) -> Iterable[str]:
    """The strategies of a search."""
    from dpsim.explore import STRATEGIES

    return STRATEGIES


@_completer
def kinds(incomplete: str) -> Iterable[str]:
    """What `dpsim list` lists."""
    from dpsim.cli.list_text import KINDS

    return KINDS


@_completer
def names(incomplete: str) -> Iterator[str]:
    """What `dpsim show` explains, without the hooks and types: dpsim would read the sources of all protocols."""
    from dpsim.checks.classes import names as names_of_classes
    from dpsim.contract import registry
    from dpsim.contract.keys import keys
    from dpsim.scenario.locate import bundled_scenarios

    yield from bundled_scenarios()
    for protocol in registry.protocols():
        yield from (protocol.name, *(form for form in protocol.forms if form != "default"))
    yield from variants(incomplete)
    yield from (*names_of_classes(), *backends(incomplete), *keys())
