"""Finds the scenario file that a user names.

`dpsim run quickstart` works in a clone and after an installation from a wheel, in any working folder:

    scenario_path("my/own.yaml")        # an existing file
    scenario_path("quickstart")         # a scenario that comes with dpsim, with or without .yaml
    scenario_path("museum/stale_slot")  # a scenario in a subfolder

In a clone, the scenarios that come with dpsim are in `scenarios/` beside the package. In a wheel, they are in the
package, in `_scenarios/`. An editable installation imports from the clone.
"""

from __future__ import annotations

import os
from pathlib import Path

from dpsim.contract.words import BadInput, nearest, question

_PACKAGE = Path(__file__).resolve().parent.parent
_NOT_SCENARIOS = ("calibration",)  # subfolders whose YAML files are measured costs


class ScenarioNotFound(BadInput):
    """The name is neither a file nor a scenario that comes with dpsim. The message names the searched folder."""


def scenario_path(name: str) -> Path:
    """Returns the file that `name` means. Raises ScenarioNotFound with the nearest names."""
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
    """Returns the sorted names of the scenarios that come with dpsim: paths in their folder, without .yaml."""
    return _scenarios_in(_scenario_folder(_PACKAGE))


def bundled_files() -> dict[str, Path]:
    """Returns the same names, each with its file."""
    folder = _scenario_folder(_PACKAGE)
    return {} if folder is None else {name: folder / f"{name}.yaml" for name in _scenarios_in(folder)}


def _scenario_folder(package: Path) -> Path | None:
    """Without a pyproject.toml (a clone has one), `scenarios` beside the package is of another package in
    site-packages.
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
    """First the same name in a subfolder, then similar names."""
    same = [name for name in names if name.rpartition("/")[2] == bare]
    last = {name.rpartition("/")[2]: name for name in names}
    similar = [*nearest(bare, names, 3), *(last[word] for word in nearest(bare, last, 3))]
    return list(dict.fromkeys([*same, *similar]))[:3]
