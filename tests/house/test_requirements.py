"""Checks the pinned requirements: `make` installs all packages that dpsim and its tests need, with versions and
hashes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT

FILES = ("build", "core", "test")
LINE = re.compile(r"([A-Za-z0-9._-]+)==([0-9a-z.]+)((?: --hash=sha256:[0-9a-f]{64})+)")


def pinned(name: str) -> dict[str, str]:
    """Returns the lines of a requirements file by the names of their packages."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace(" \\\n   ", "")
    return {canonicalize_name(line.partition("==")[0]): line for line in text.splitlines() if not line.startswith("#")}


EVERY = {name: line for file in FILES for name, line in pinned(file).items()}


def lacking(names: dict[str, str], roots: list[str]) -> set[str]:
    """Returns the packages that `roots` need, directly or not, and that are missing in `names`. It ignores extras and
    GPU libraries.
    """
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
        except PackageNotFoundError:  # a package for another system
            continue
    return {name for name in found if not name.startswith(("nvidia-", "cuda-", "triton"))}


def roots(*extras: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *[one for extra in extras for one in project["optional-dependencies"][extra]]]


def test_each_line_has_a_version_and_hashes() -> None:
    assert [line for line in EVERY.values() if LINE.fullmatch(line) is None] == []
    assert {"pip", "setuptools"} <= EVERY.keys()
    assert sum(len(pinned(file)) for file in FILES) == len(EVERY), "each package is in one file"


@pytest.mark.parametrize(("files", "extras"), [(("build", "core"), ("test",)), (FILES, ("test", "dev", "real"))])
def test_the_requirements_contain_the_closure_of_dependencies(files: tuple[str, ...], extras: tuple[str, ...]) -> None:
    names = {name: line for file in files for name, line in pinned(file).items()}
    assert lacking(names, roots(*extras)) == set()
    assert lacking({}, roots(*extras)) >= {"numpy", "pydantic-core"}, "the twin"


def test_the_package_brings_no_tools_for_tests() -> None:
    names = {canonicalize_name(Requirement(one).name) for one in roots()}
    assert names & {"pytest", "hypothesis"} == set()
    assert {canonicalize_name(Requirement(one).name) for one in roots("test")} - names == {"pytest", "hypothesis"}


def test_pinned_versions_are_within_the_bounds_of_the_project() -> None:
    assert len(roots("test", "dev", "real")) > 10
    for text in roots("test", "dev", "real"):
        one = Requirement(text)
        line = EVERY[canonicalize_name(one.name)]
        assert one.specifier.contains(line.partition("==")[2].split()[0]), line


def unhashed(makefile: str) -> list[str]:
    """Returns recipes that install packages from an index without hashes. It ignores torch's GPU libraries."""
    hashed = re.search(r"^HASHED := \$\(INSTALL\) .*--require-hashes", makefile, re.MULTILINE) is not None
    recipes = [line.strip() for line in makefile.splitlines() if line.startswith("\t@$(")]
    ours = [line for line in recipes if line.startswith(("@$(INSTALL)", "@$(HASHED)"))]
    return [
        line
        for line in ours
        if not (hashed and line.startswith("@$(HASHED) -r requirements/")) and "torch==" not in line
    ]


def test_make_installs_with_hashes() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert unhashed(makefile) == []
    assert makefile.count("@$(HASHED) -r requirements/") == len(FILES)
    assert len(unhashed(makefile.replace("--require-hashes", ""))) == len(FILES), "the twin"
    assert unhashed(makefile.replace("$(HASHED) -r requirements/core", "$(INSTALL) -r requirements/core")) != []


def advised(text: str) -> list[str]:
    """Returns the names that a text advises to install from an index."""
    return re.findall(r"pip install '?([A-Za-z][A-Za-z0-9._-]*)", text)


def test_no_message_advises_a_name_on_an_index() -> None:
    """A message must not advise to install dpsim by its name, because anyone may own that name on an index."""
    files = [
        file
        for folder in ("dpsim", "real", "tools", "docs")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".md")
    ]
    assert {str(file): names for file in [*files, ROOT / "README.md"] if (names := advised(file.read_text()))} == {}
    assert advised("pip install 'dpsim-ranks[real]'") == ["dpsim-ranks"], "the twin"


@pytest.mark.nightly
@pytest.mark.parametrize("name", FILES)
def test_no_pinned_version_has_a_known_hole(name: str) -> None:
    """Runs pip-audit, if it is installed and can load its data."""
    if find_spec("pip_audit") is None:
        pytest.skip("needs pip-audit")
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format", "json", "--requirement"]
    done = subprocess.run(
        [*command, ROOT / "requirements" / f"{name}.txt"], capture_output=True, text=True, check=False
    )
    try:
        told = json.loads(done.stdout)["dependencies"]
    except ValueError:
        pytest.skip(f"pip-audit has no data here: {done.stderr[-200:]}")
    unknown = [one["name"] for one in told if "vulns" not in one]
    if unknown:
        pytest.skip(f"pip-audit has no data here of {', '.join(unknown)}")
    assert {one["name"]: one["vulns"] for one in told if one["vulns"]} == {}
