"""Tests that the documentation builds as a site: each page is in the navigation, and each link leads to a page and a
heading.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

pytest.importorskip("mkdocs")
OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "mkdocs.yml")


def built(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(root / "mkdocs.yml"), "-d", str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copies the pages into a folder in which the test may change them."""
    ignored = shutil.ignore_patterns("from_vllm", "__pycache__")
    shutil.copytree(ROOT / "docs", tmp_path / "copy" / "docs", ignore=ignored)
    for name in OUTSIDE:
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    for name in ("dpsim", "tests", "LICENSE"):
        (tmp_path / "copy" / name).symlink_to(ROOT / name)
    return tmp_path / "copy"


def test_the_site_builds(tmp_path: Path) -> None:
    made = built(ROOT, tmp_path)
    assert made.returncode == 0, made.stderr
    pages = {path.relative_to(tmp_path).with_suffix(".md").as_posix() for path in tmp_path.rglob("*.html")}
    sources = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - {"404.md"} == sources | {"index.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    first = (tmp_path / "index.html").read_text()
    assert 'href="your-own-protocol.html"' in first
    assert 'src="http' not in first, "a page loads nothing from another host"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[no page](no-page.md)", "'no-page.md', but the target is not found"),
        ("[no heading](scenarios.md#no-heading)", "does not contain an anchor '#no-heading'"),
        ("[no file](../dpsim/no_file.py)", "'../dpsim/no_file.py', but the target is not found"),
    ],
)
@pytest.mark.slow
def test_a_dead_link_breaks_the_site(text: str, says: str, copy: Path, tmp_path: Path) -> None:
    page = copy / "docs" / "gpus.md"
    page.write_text(f"{page.read_text()}\n{text}\n")
    made = built(copy, tmp_path / "site")
    assert made.returncode != 0
    assert says in made.stderr


@pytest.mark.slow
def test_a_page_outside_the_navigation_breaks_the_site(copy: Path, tmp_path: Path) -> None:
    (copy / "docs" / "new.md").write_text("# New\n")
    made = built(copy, tmp_path / "site")
    assert made.returncode != 0
    assert "new.md" in made.stderr
