"""Tests that the documentation builds as a site: each page is in the navigation, and each link leads to a page and a
heading. The site renders the same lists, tables, pictures and code as GitHub, and each table fits its page.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests import ROOT

pytest.importorskip("mkdocs")

import markdown
from markdown_it import MarkdownIt

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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the site."""
    folder = tmp_path_factory.mktemp("site")
    made = built(ROOT, folder)
    assert made.returncode == 0, made.stderr
    return folder


def test_the_site_builds(site: Path) -> None:
    pages = {path.relative_to(site).with_suffix(".md").as_posix() for path in site.rglob("*.html")}
    sources = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - {"404.md"} == sources | {"index.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    first = (site / "index.html").read_text()
    assert 'href="your-own-protocol.html"' in first
    assert (site / "site.css").is_file()
    assert 'href="site.css"' in first, "the styles of docs/site.css make room for 120 columns"
    assert 'src="http' not in first, "a page loads nothing from another host"


def test_the_scripts_of_the_theme_work(site: Path) -> None:
    """The browser's `querySelector` raises at an address such as #1-the-protocol, and then no script goes on."""
    for page in site.rglob("*.html"):
        html = page.read_text()
        assert not re.search(r'href="[^"]*#\d', html), page.name
        assert "js/darkmode.js" in html
        assert 'id="hljs-light"' in html, "js/darkmode.js switches this element"
        assert 'id="hljs-dark"' in html
    assert 'id="_1-the-protocol"' in (site / "your-own-protocol.html").read_text()


def test_the_search_knows_each_part_of_a_class(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    [text] = [one["text"] for one in index["docs"] if one["location"] == "finding-classes.html#hang"]
    assert "MISSING_RANK" in re.split(index["config"]["separator"], text)


class Blocks(HTMLParser):
    """Collects the tags that structure a page, or the part of a page with the role `main`, and the text in code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.pictures: list[str] = []
        self._in_code = False
        self.feed(html.partition('role="main">')[2].partition("<footer")[0] or html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SHAPES:
            self.found.append(tag)
        self._in_code |= tag == "code"
        if tag == "img":
            self.pictures.append(dict(attrs)["src"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("li", "ol", "td", "ul"):
            self.found.append(f"/{tag}")
        self._in_code &= tag != "code"

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.found += data.split()


SHAPES = (
    "blockquote",
    "code",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "hr",
    "img",
    "li",
    "ol",
    "pre",
    "strong",
    "table",
    "td",
    "th",
    "tr",
    "ul",
)


def on_github(text: str) -> list[str]:
    """Returns the blocks of a page as GitHub renders it: a list needs no blank line before it."""
    return Blocks(MarkdownIt("commonmark").enable("table").render(text)).found


def test_a_page_has_the_same_blocks_on_the_site_as_on_github(site: Path) -> None:
    sources = {path.relative_to(ROOT / "docs"): path for path in (ROOT / "docs").rglob("*.md")}
    sources |= {Path(name): ROOT / name for name in OUTSIDE if name.endswith(".md")}
    for name, source in sources.items():
        page = site / ("index.html" if name == Path("README.md") else name.with_suffix(".html"))
        blocks = Blocks(page.read_text().replace("<wbr>", ""))
        assert blocks.found == on_github(source.read_text()), name
        assert all((page.parent / picture).is_file() for picture in blocks.pictures), name


@pytest.mark.parametrize(
    "text",
    [
        "Text before a list:\n* an item\n",
        "* an item:\n  * an inner item\n",
        "* an item:\n\n    more of it\n* the next item\n",
        "| a | b |\n|---|---|\n| `` | `` a `b` `` |\n",
    ],
)
def test_text_that_the_site_renders_otherwise_is_noticed(text: str) -> None:
    rendered = Blocks(markdown.markdown(text, extensions=["tables", "fenced_code"])).found
    assert rendered != on_github(text)


def test_a_wide_table_scrolls_and_its_code_breaks(site: Path) -> None:
    tables = 0
    for page in site.rglob("*.html"):
        html = page.read_text()
        tables += html.count("<table>")
        assert html.count('<div class="table-responsive"><table>') == html.count("<table>"), page.name
        for cell in re.findall(r"<td>.*?</td>", html, re.DOTALL):
            for code in re.findall(r"(?<=<code>).*?(?=</code>)", cell):
                longest = max(re.split(r"<wbr>|\s", code), key=len)
                assert len(longest) <= 45, f"{page.name}: {longest} makes its column too wide"
    assert tables > 50


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
