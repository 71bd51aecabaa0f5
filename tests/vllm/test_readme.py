"""Tests the commands and links of the README and of pages in `docs/`: runs each `$` line and compares its output.

    $ dpsim run quickstart        # runs in this process
    $ dpsim run a.yaml --module a.py    # runs in another process, because this one would keep the module
    ...                           # stands for any text

The commands of one block run in order, in a folder with the files of their page. Commands that take more than two
seconds are slow tests. A page whose diffs build on each other has its own test (`tests/test_own_protocol.py`,
`tests/test_a_test_fails.py`).

The README has at most 130 lines, a page of `PAGES` fewer than 250 lines, and neither has odd words. Each relative link
leads to a file, and to a heading of it. Each program of vLLM has a line in the README.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpsim.cli.app import app
from dpsim.contract.registry import protocols
from tests import ROOT, documents
from tests.house.words import findings

README = "README.md"
PAGES = (
    *("docs/command-line.md", "docs/gpus.md", "docs/in-your-tests.md", "docs/museum.md", "docs/scenarios.md"),
    *("docs/a-job-hangs.md", "docs/pictures.md", "docs/stepping.md", "docs/verdicts.md", "docs/explore-long.md"),
    *("docs/nightly.md", "docs/ci.md", "docs/cluster.md", "docs/from-a-vllm-command-line.md", "docs/output.md"),
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/programs/*.md")),
)
MOST_LINES = {README: 130} | dict.fromkeys(PAGES, 249)


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


# ---- commands


SLOW = (
    *("pytest ", "dpsim record ", "dpsim explain calls", "dpsim museum --module "),
    *("dpsim explore dp2_captured ", "dpsim explore filled.yaml ", "dpsim campaign "),
)
"""The beginnings of commands that take more than two seconds."""


def consoles(page: str) -> Iterator[list[tuple[str, str]]]:
    """Yields groups of commands that depend on each other, with their output."""
    for language, block in documents.blocks(text_of(page)):
        if language == "console":
            for _, commands in groupby(documents.commands(block), lambda command: command[0].startswith(SLOW)):
                yield [*commands]


def typed_here(command: str, folder: Path) -> str:
    """Returns the output of a command. `dpsim` runs in this process, unless it imports a module of the folder."""
    program, *words = shlex.split(command)
    if program != "dpsim" or "--module" in words or words[0] == "record":  # `dpsim record` replaces its process
        return documents.typed(command, folder, ROOT)
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, words, prog_name="dpsim").output


def difference(commands: Iterable[tuple[str, str]], folder: Path) -> str | None:
    """Returns the first command whose output differs, with its output; None if all are equal."""
    for command, shown in commands:
        printed = typed_here(command, folder)
        if not documents.fits(printed, shown):
            return f"$ {command}\n{printed}\n---- the page shows:\n{shown}"
    return None


def parameters() -> Iterator[Any]:
    for page in (README, *PAGES):
        for commands in consoles(page):
            first = commands[0][0]
            yield pytest.param(page, commands, id=f"{page}: {first}", marks=[pytest.mark.slow] * first.startswith(SLOW))


@pytest.mark.parametrize(("page", "commands"), [*parameters()])
def test_commands_print_what_a_page_shows(
    page: str, commands: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in documents.files(text_of(page)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = difference(commands, tmp_path)
    assert found is None, found


def test_each_page_but_one_shows_a_command() -> None:
    """Each page but docs/gpus.md has a console block.

    Commands in indented blocks would not be tested, so pages have none.
    """
    assert [page for page in (README, *PAGES) if not [*consoles(page)]] == ["docs/gpus.md"]
    unseen = [page for page in (README, *PAGES) for line in text_of(page).split("\n") if line.startswith("    $ ")]
    assert unseen == []


LIES = ["1.2.3\n", "", "...\ndpsim\n", "...\nHELD\n...\n"]


@pytest.mark.parametrize("command", ["dpsim --version", "echo one; echo two"])
@pytest.mark.parametrize("lie", LIES)
def test_a_page_that_lies_is_found(command: str, lie: str, tmp_path: Path) -> None:
    """Faulty twin: a page with wrong output fails, if the command runs in this process or in another."""
    assert (difference([(command, lie)], tmp_path) or "").startswith(f"$ {command}\n")
    assert difference([(command, "...\n")], tmp_path) is None


def test_a_lie_after_a_true_command_is_found(tmp_path: Path) -> None:
    """The comparison covers each command of a block, and the order of its output lines."""
    true = "echo one; echo two", "one\ntwo\n"
    assert difference([true, true], tmp_path) is None
    assert difference([true, (true[0], "two\none\n")], tmp_path) is not None


# ---- lengths and words


@pytest.mark.parametrize("page", MOST_LINES)
def test_a_page_is_short_and_plain(page: str) -> None:
    assert text_of(page).count("\n") <= MOST_LINES[page]
    assert [str(finding) for finding in findings(page, text_of(page))] == []


# ---- links

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """Returns the fragments of links to the headings of a page, as GitHub forms them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(pages: Mapping[str, str], root: Path) -> list[str]:
    """Returns the relative links to a missing file or heading. `pages`: the text of each page by path."""
    dead = []
    for page, text in pages.items():
        for link in LINK.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = (root / page).parent / path if path else root / page
            if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
                dead.append(f"{page}: {link}")
    return dead


def test_links_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    assert len(pages) > 15
    assert dead_links({page.relative_to(ROOT).as_posix(): page.read_text() for page in pages}, ROOT) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One `b`\n\n## C, and d\n")
    healthy = "[a](docs/a.md) [b](docs/a.md#one-b) [c](docs/a.md#c-and-d) [d](https://nowhere) [e](#here)\n\n# Here\n"
    (tmp_path / "README.md").write_text(healthy)
    assert dead_links({"README.md": healthy}, tmp_path) == []
    for dead in ("a.md", "docs/a.md#two", "#there", "docs"):
        links = [] if dead == "docs" else [f"README.md: {dead}"]
        assert dead_links({"README.md": f"{healthy}[x]({dead})"}, tmp_path) == links


# ---- programs


def unnamed(readme: str) -> list[str]:
    """Returns the programs of vLLM that lack a line in the README's table."""
    own = [entry.name for entry in protocols() if entry.program.__module__.startswith("dpsim.vllm.")]
    return [name for name in own if f"\n| [`{name}`](docs/programs/" not in readme]


def test_the_readme_names_each_program() -> None:
    readme = text_of(README)
    assert unnamed(readme) == []
    assert unnamed(readme.replace("| [`eplb`]", "| [eplb]")) == ["eplb"]


def test_the_readme_has_the_forms_of_each_program() -> None:
    rows = [line for line in text_of(README).splitlines() if line.startswith("| [`")]
    shown = {line.split("`")[1]: line.rsplit(" | ", 1)[1].removesuffix(" |") for line in rows}
    assert shown == {entry.name: ", ".join(entry.forms) for entry in protocols() if entry.name in shown}
