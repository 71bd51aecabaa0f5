"""From what a user types to a scenario file.

`dpsim run quickstart` works in a clone and after an installation from a wheel, in any working folder:

    scenario_path("my/own.yaml")        an existing file is taken as it is
    scenario_path("quickstart")         else the name of a scenario that comes with dpsim, with or without .yaml,
    scenario_path("museum/stale_slot")  with its folder if it lies in one

The scenarios that come with dpsim lie in `scenarios/` beside the package in a clone, and inside the package as
`_scenarios/` in a wheel. An editable installation imports from the clone as well. This module reads and parses no file.
"""

from __future__ import annotations

import os
from pathlib import Path

from dpsim.contract.words import BadInput, nearest, question

_PACKAGE = Path(__file__).resolve().parent.parent
_NOT_SCENARIOS = ("calibration",)  # subfolders whose YAML files are measured costs


class ScenarioNotFound(BadInput):
    """Neither a file nor the name of a scenario that comes with dpsim. The message says where it was looked for."""


def scenario_path(name: str) -> Path:
    """The file that `name` means. Raises ScenarioNotFound with the nearest names."""
    given = Path(name)
    if given.is_file():
        return given
    folder = _scenario_folder(_PACKAGE)
    names = _scenarios_in(folder)
    bare = given.as_posix().removeprefix("scenarios/").removesuffix(".yaml")
    if folder is not None and bare in names:
        return folder / f"{bare}.yaml"
    what = _what_is(given)
    if not names:
        raise ScenarioNotFound(f"no scenario {name!r}: {what}, and no scenarios came with dpsim in {_PACKAGE}")
    hint = question(_meant(bare, names))
    count = f"the {len(names)} scenarios" if len(names) > 1 else "the one scenario"
    raise ScenarioNotFound(f"no scenario {name!r}: {what}, and not among {count} in {folder}{hint}")


def bundled_scenarios() -> list[str]:
    """The names of the scenarios that come with dpsim, relative to their folder and without .yaml, sorted."""
    return _scenarios_in(_scenario_folder(_PACKAGE))


def bundled_files() -> dict[str, Path]:
    """The same, each name with its file."""
    folder = _scenario_folder(_PACKAGE)
    return {} if folder is None else {name: folder / f"{name}.yaml" for name in _scenarios_in(folder)}


def _scenario_folder(package: Path) -> Path | None:
    """Where the scenarios of the dpsim package at `package` lie; None if it has none.

    A folder `scenarios` beside the package counts only in a clone, which a pyproject.toml gives away: in site-packages
    it would be another package's.
    """
    in_wheel = package / "_scenarios"
    if in_wheel.is_dir():
        return in_wheel
    in_clone = package.parent / "scenarios"
    if in_clone.is_dir() and (package.parent / "pyproject.toml").is_file():
        return in_clone
    return None


def _scenarios_in(folder: Path | None) -> list[str]:
    if folder is None:
        return []
    files = (path.relative_to(folder) for path in folder.rglob("*.yaml"))
    return sorted(file.with_suffix("").as_posix() for file in files if file.parts[0] not in _NOT_SCENARIOS)


def _what_is(given: Path) -> str:
    """What is there in place of a file."""
    if given.is_dir():
        return "a folder, not a scenario file"
    if given.exists():
        return "not a regular file"
    if not given.is_symlink():
        return f"no file in {Path.cwd()}"
    try:
        given.stat()
    except OSError as error:
        return f"a link to {os.readlink(given)}, which cannot be followed ({error.strerror})"
    return "a link whose file came just now"


def _meant(bare: str, names: list[str]) -> list[str]:
    """Up to three names that `bare` may have meant: the same in a folder that it left out, then similar ones."""
    same = [name for name in names if name.rpartition("/")[2] == bare]
    last = {name.rpartition("/")[2]: name for name in names}
    similar = [*nearest(bare, names, 3), *(last[word] for word in nearest(bare, last, 3))]
    return list(dict.fromkeys([*same, *similar]))[:3]
