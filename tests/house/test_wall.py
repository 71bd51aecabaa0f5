"""Checks that the framework works without `dpsim.vllm`, the model of the vLLM engine, and uses none of the engine's
words.

Only entry points name modules of `dpsim.vllm`. Without that package, all other modules can be imported, and the
commands work. No other Python file of `dpsim` or `real` contains a word of the engine, except for the listed files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import ROOT

# ---- words

WORDS = re.compile(
    r"topolog|(?:data|tensor|pipeline)_parallel|cudagraph|eplb|vllm|max_num_|workload|dp_batch|pp_tokens|prompt_tokens"
    r"|config_by_rank|engineconfig|azure",
    re.IGNORECASE,
)
PLACES = re.compile(r"dpsim/vllm/[\w/]+\.py:\d+")
"""A source line that a record names, in an example."""

TORCH = re.compile(r"CU[DA]{2}Graph|CudaGraph|cudaGraph")

ALLOWED = {
    "dpsim/__init__.py": "the map of the package",
    "dpsim/cli/museum_card.py": "an example of what is printed: the museum shows variants of what is installed",
    "dpsim/contract/interface.py": "the text of the contract: a rank of the topology",
    "dpsim/contract/program.py": "Program.honours_config_by_rank, a name that programs have",
    "dpsim/pytest_plugin.py": "it recognises scenario files by their text, and imports nothing for it",
    "dpsim/runner.py": "an example that runs with the parameters that are installed",
    "dpsim/scenario/yaml/reader.py": "the advice for a file that is too large",
    "dpsim/testing/__init__.py": "where the strategies are that it offers",
    "dpsim/campaign/properties.py": "an example that runs with the parameters that are installed",
    "real/communicators.py": "prior art",
    "real/fork_server.py": "prior art",
}
"""Files that may have such words, each with a reason."""


def strangers(root: Path) -> Iterator[str]:
    """Yields words of the engine in files of the framework, and listed files without such a word."""
    for package in ("dpsim", "real"):
        for file in sorted((root / package).rglob("*.py")):
            name = file.relative_to(root).as_posix()
            if name.startswith("dpsim/vllm/"):
                continue
            found = list(_words(file))
            if found and name not in ALLOWED:
                yield from (f"{name}:{line}: {word!r} is a word of one engine" for line, word in found)
            elif name in ALLOWED and not found:
                yield f"{name}: has no such word; take it out of ALLOWED"


def _words(file: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file.read_text().splitlines(), 1):
        for found in WORDS.finditer(TORCH.sub("", PLACES.sub("", line))):
            yield number, found[0]


def test_the_framework_knows_no_word_of_the_engine() -> None:
    assert list(strangers(ROOT)) == []


@pytest.mark.parametrize("text", ["size = scenario.topology\n", "# as vLLM does\n", "enable_eplb: bool = False\n"])
def test_a_word_of_the_engine_in_the_framework_is_found(tmp_path: Path, text: str) -> None:
    for name in ALLOWED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# topology\n")
    (tmp_path / "dpsim" / "sim.py").write_text("# dpsim/vllm/engine/loop.py:7, a CUDAGraph\n" + text)
    (found,) = strangers(tmp_path)
    assert found.startswith("dpsim/sim.py:2: ")
    (tmp_path / "dpsim" / "sim.py").unlink()
    (tmp_path / "real" / "fork_server.py").write_text("")
    assert list(strangers(tmp_path)) == ["real/fork_server.py: has no such word; take it out of ALLOWED"]


# ---- tests

IMPORT = re.compile(r"^\s*(?:from|import) dpsim(?:\.vllm|_engine)", re.MULTILINE)


def strays(root: Path) -> Iterator[str]:
    """Yields tests outside of tests/vllm that import the engine."""
    for file in sorted((root / "tests").rglob("*.py")):
        name = file.relative_to(root).as_posix()
        if not name.startswith("tests/vllm/") and IMPORT.search(file.read_text()):
            yield f"{name}: move it to tests/vllm"


def test_tests_of_the_engine_lie_with_it() -> None:
    assert list(strays(ROOT)) == []


def test_a_test_of_the_engine_outside_its_folder_is_found(tmp_path: Path) -> None:
    for name in ("tests/vllm/test_a.py", "tests/sim/test_b.py", "tests/sim/test_c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("from dpsim.vllm.config import Topology\n" if name[-4] != "c" else "")
    assert list(strays(tmp_path)) == ["tests/sim/test_b.py: move it to tests/vllm"]
    (tmp_path / "tests/sim/test_b.py").write_text("import dpsim_engine.check\n")
    assert list(strays(tmp_path)) == ["tests/sim/test_b.py: move it to tests/vllm"]


# ---- sections and protocols in tests

SECTIONS = re.compile(
    r"^ *(?:topology|workload|config_by_rank):|\\n(?:topology|workload|config_by_rank): *[{\\]"
    r"|[\"\'](?:topology|workload|data_parallel_size|prompt_tokens)[\"\']: |\b(?:topology|workload)="
    r"|\b(?:dp_batch|pp_tokens|whole_engine)\b|[\"\'](?:quickstart|skip_one|startup)[\"\'/]",
    re.MULTILINE,
)
"""A section of vLLM in YAML or in a mapping, one of its protocols, or one of its scenario files."""

NEEDS_VLLM: dict[str, str] = {
    "tests/cli/test_errors.py": "the name of a shipped file, in an error",
    "tests/cli/test_explore.py": "the name of a shipped file, with options that are refused",
    "tests/house/test_wall.py": "these words themselves",
    "tests/plugin/test_scenarios.py": "files that the plugin knows by their text",
    "tests/scenario/test_locate.py": "a file of that name in a folder of the test",
    "tests/snapshot/files.py": "names of shipped files, which are left out",
}
"""Tests outside of tests/vllm that name one of these, each with a reason."""


def sections(root: Path) -> Iterator[str]:
    """Yields tests outside of tests/vllm that name a section or protocol of vLLM, and files of `NEEDS_VLLM`
    that do not.
    """
    for file in sorted((root / "tests").rglob("*.py")):
        name = file.relative_to(root).as_posix()
        found = SECTIONS.search(file.read_text())
        if not name.startswith("tests/vllm/") and (found is not None) != (name in NEEDS_VLLM):
            yield f"{name}: {'take it out of NEEDS_VLLM' if found is None else f'{found[0]!r} needs vLLM'}"


def test_tests_of_the_framework_name_no_section_of_the_engine() -> None:
    assert list(sections(ROOT)) == []


@pytest.mark.parametrize(
    "text", ["topology: {ranks: 2}\n", 'a = {"workload": {}}\n', 'run("dp_batch")\n', "x = 'name: x\\nworkload: {}'\n"]
)
def test_a_section_of_the_engine_in_a_framework_test_is_found(tmp_path: Path, text: str) -> None:
    for name in ("tests/vllm/test_a.py", "tests/sim/test_b.py", *NEEDS_VLLM):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [said.partition(":")[0] for said in sections(tmp_path)] == ["tests/sim/test_b.py"]
    (tmp_path / "tests/sim/test_b.py").write_text("params: {ranks: 2}\n")
    assert list(sections(tmp_path)) == []


# ---- without the engine

IMPORTS = """
import importlib, pkgutil, sys, dpsim
assert dpsim.__file__.startswith(sys.argv[1]), dpsim.__file__
names = [module.name for module in pkgutil.walk_packages(dpsim.__path__, "dpsim.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names), [name for name in sys.modules if name.startswith("dpsim.vllm")])
"""


GREETS = """
from dpsim import Program, register_protocol
from pydantic import BaseModel, Field

class Size(BaseModel):
    ranks: int = Field(default=2, ge=1, le=4)

@register_protocol("greets")
class Greets(Program):
    Params = Size

    @staticmethod
    def ranks(params):
        return params.ranks

    async def run(self, rank, args):
        await rank.host("world").barrier(site="meet")
        rank.decide("ranks", args.params.ranks, "world")
"""
"""A protocol with a parameter, as a user writes it."""


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy of the tree without the package `dpsim.vllm`. The entry points of the installation still name its
    modules.
    """
    tree = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__", "vllm")
    shutil.copytree(ROOT / "dpsim", tree / "dpsim", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / "scenarios").mkdir()
    (tree / "scenarios" / "quickstart.yaml").write_text("name: quickstart\ntopology: {data_parallel_size: 2}\n")
    (tree / "greets.py").write_text(GREETS)
    (tree / "greets.yaml").write_text("name: greets\nprotocol: {name: greets, params: {ranks: 3}}\n")
    return tree


def python(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COVERAGE"))}
    return subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env={**env, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


def imports(tree: Path) -> str:
    """Imports every module, and returns the errors, or an empty text."""
    done = python(tree, "-c", IMPORTS, str(tree))
    return done.stderr if done.returncode else "" if done.stdout.endswith(" []\n") else done.stdout


def a_scenario_of_the_engine(tree: Path) -> Path:
    return tree / "dpsim" / "scenario" / "model.py"


def a_command_of_the_engine(tree: Path) -> Path:
    return tree / "dpsim" / "cli" / "app.py"


@pytest.mark.slow
def test_every_module_imports_without_the_engine(without: Path) -> None:
    assert imports(without) == ""


@pytest.mark.parametrize(
    "part", [a_scenario_of_the_engine, pytest.param(a_command_of_the_engine, marks=pytest.mark.slow)]
)
def test_an_import_of_the_engine_is_found(without: Path, part: Callable[[Path], Path]) -> None:
    file = part(without)
    before = file.read_text()
    file.write_text(before + "\nimport dpsim.vllm.config\n")
    try:
        assert "No module named 'dpsim.vllm'" in imports(without)
    finally:
        file.write_text(before)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--help"], "Prove that a scenario holds"),
        pytest.param(["run", "--help"], "--trace FILE", marks=pytest.mark.slow),
        (["list"], "conformance"),
        pytest.param(["list", "--json"], '"protocols": ', marks=pytest.mark.slow),
        (["schema"], '"title": "dpsim scenario"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_commands_answer_without_the_engine(without: Path, words: list[str], says: str) -> None:
    done = python(without, "-m", "dpsim.cli", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout
    assert "--workload" not in done.stdout


def test_a_protocol_without_parameters_runs_without_the_engine(without: Path) -> None:
    """Parameters and protocols of the engine are reported as unknown, in one line each."""
    done = python(without, "-m", "dpsim.cli", "run", "quickstart")
    assert done.returncode == 2
    assert "unknown key 'topology'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "greets.yaml"], "params          ranks 3"),
        (["explore", "greets.yaml", "--all-up-to", "ranks=3"], "PROVEN  every one of these worlds"),
        (["list"], "  greets    ranks 1 to 4 (2)"),
        (["schema"], '"const": "greets"'),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_protocol_with_parameters_needs_no_engine(without: Path, words: list[str], says: str) -> None:
    done = python(without, "-m", "dpsim.cli", *words, "--module", "greets.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout
