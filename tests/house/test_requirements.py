"""What `make` installs is pinned with hashes, and it is the whole closure of what dpsim and its tests need."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT

FILES = ("build", "core", "test")
LINE = re.compile(r"([A-Za-z0-9._-]+)==([0-9a-z.]+)((?: --hash=sha256:[0-9a-f]{64})+)")


def pinned(name: str) -> dict[str, str]:
    """The lines of a file by the names of their packages."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace(" \\\n   ", "")
    return {canonicalize_name(line.partition("==")[0]): line for line in text.splitlines() if not line.startswith("#")}


EVERY = {name: line for file in FILES for name, line in pinned(file).items()}


def lacking(names: dict[str, str], roots: list[str]) -> set[str]:
    """Packages of the closure that are not among the names. Extras and libraries for GPUs are left out."""
    seen: set[str] = set()
    found = set[str]()
    todo = [*roots]
    while todo:
        one = Requirement(todo.pop())
        name = canonicalize_name(one.name)
        if name in seen or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        if name not in names:
            found.add(name)
        try:
            todo += requires(name) or []
        except PackageNotFoundError:  # one for another system
            continue
    return {name for name in found if not name.startswith(("nvidia-", "cuda-", "triton"))}


def roots(*extras: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *[one for extra in extras for one in project["optional-dependencies"][extra]]]


def test_each_line_has_a_version_and_hashes() -> None:
    assert [line for line in EVERY.values() if LINE.fullmatch(line) is None] == []
    assert {"pip", "setuptools"} <= EVERY.keys()
    assert sum(len(pinned(file)) for file in FILES) == len(EVERY), "each package is in one file"


@pytest.mark.parametrize(("files", "extras"), [(("build", "core"), ()), (FILES, ("test", "real"))])
def test_the_closure_is_there(files: tuple[str, ...], extras: tuple[str, ...]) -> None:
    names = {name: line for file in files for name, line in pinned(file).items()}
    assert lacking(names, roots(*extras)) == set()
    assert lacking({}, roots(*extras)) >= {"numpy", "pydantic-core"}, "the twin"


def test_what_is_installed_here_is_within_the_bounds_of_the_project() -> None:
    for text in roots("test", "real"):
        one = Requirement(text)
        line = EVERY[canonicalize_name(one.name)]
        assert one.specifier.contains(line.partition("==")[2].split()[0]), line
