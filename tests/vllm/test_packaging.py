"""Tests the contents of the wheels, and which package may import which.

The wheel contains the packages and the scenarios and nothing else, and works outside the clone. A second wheel has the
tool `check-engine`, which is an extra of the first. The import contracts of
pyproject.toml hold. On a copy of the tree, the tests break each contract once, to show that the linter notices.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from configparser import ConfigParser
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests import ROOT

KINDS = {".py", ".typed", ".yaml", ".json", ".csv", ".html", ".js"}

# Builds, installs and lints run in sequence, on one worker.
pytestmark = pytest.mark.xdist_group("packaging")


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COVERAGE"))} | environment
    return subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def files_of(folder: str, inside: str, *kinds: str) -> set[str]:
    """Returns the files under `folder` of the tree, by their names in the wheel."""
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    unknown = [str(path) for path in files if path.suffix not in {*KINDS, *kinds}]
    assert not unknown, f"no place in the wheel for {unknown}: take them out, or add their kind to KINDS"
    return {f"{inside}/{path.relative_to(ROOT / folder).as_posix()}" for path in files}


# ---- the wheel


def built(source: Path, folder: Path) -> Path:
    """Returns the wheel of a project, in a new folder."""
    pytest.importorskip("hatchling")
    done = run("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", folder, source, cwd=folder)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpacked(wheel: Path, target: Path) -> Path:
    """Returns the folder into which pip installs the wheel and nothing else."""
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
    done = run("-m", "pip", "install", *options, "--target", target, wheel, cwd=target)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the wheel of tools/engine."""
    return built(ROOT / "tools" / "engine", tmp_path_factory.mktemp("tool"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(wheel, tmp_path_factory.mktemp("installed"))


def test_wheel_holds_the_packages_and_the_scenarios_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not re.match(r"dpsim_ranks-[^/]*\.dist-info/", name)}
    scenarios = {name for name in files_of("scenarios", "dpsim/_scenarios") if not name.endswith(".py")}
    assert names == files_of("dpsim", "dpsim") | files_of("real", "real") | scenarios
    assert {"dpsim/py.typed", "real/py.typed", "dpsim/_scenarios/quickstart.yaml"} <= names
    assert {"dpsim/diagnose/pictures/page.html", "dpsim/diagnose/pictures/draw.js"} <= names


def test_entry_points_name_modules_of_the_wheel(wheel: Path, tool: Path) -> None:
    """An entry point with an extra names a module of the wheel that this extra installs."""
    archive = zipfile.ZipFile(wheel)
    (listing,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
    parser = ConfigParser()
    parser.read_string(archive.read(listing).decode())
    assert set(parser["dpsim.backends"]) == {"sim", "gloo", "nccl"}
    points = [EntryPoint("", value, "") for section in parser.sections() for value in parser[section].values()]
    files = {"": set(archive.namelist()), "engine": set(zipfile.ZipFile(tool).namelist())}
    paths = [("".join(point.extras), point.module.replace(".", "/")) for point in points]
    missing = [path for extra, path in paths if not files[extra] & {f"{path}.py", f"{path}/__init__.py"}]
    assert not missing
    assert {extra for extra, _ in paths} == files.keys()


def test_installed_wheel_finds_its_scenarios_outside_the_clone(installed: Path, tmp_path: Path) -> None:
    program = """
import dpsim
from dpsim.scenario.locate import scenario_path
print(dpsim.__file__, scenario_path("quickstart"))
"""
    done = run("-c", program, cwd=tmp_path, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    package, scenario = map(Path, done.stdout.split())
    assert package == installed / "dpsim" / "__init__.py"
    assert scenario == installed / "dpsim" / "_scenarios" / "quickstart.yaml"


@pytest.mark.slow
def test_no_module_of_dpsim_imports_torch(installed: Path, tmp_path: Path) -> None:
    program = """
import importlib, pkgutil, sys, dpsim
names = [module.name for module in pkgutil.walk_packages(dpsim.__path__, "dpsim.")]
for name in names:
    if not name.endswith("__main__") and not name.startswith("dpsim.torch.child"):  # the rank of a torch program
        importlib.import_module(name)
    assert "torch" not in sys.modules, f"{name} imports torch"
print(len(names))
"""
    done = run("-c", program, cwd=tmp_path, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


# ---- the extra `engine`


def test_wheel_of_the_tool_holds_its_package_with_the_stored_answers(tool: Path) -> None:
    names = zipfile.ZipFile(tool).namelist()
    package = {name for name in names if not re.match(r"dpsim_ranks_engine-[^/]*\.dist-info/", name)}
    assert package == files_of("tools/engine/dpsim_engine", "dpsim_engine", ".gz", ".md")
    assert "dpsim_engine/answers/decide.jsonl.gz" in package


def test_the_extra_is_the_tool_of_the_same_version() -> None:
    ours, its = (
        tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"] for path in ("", "tools/engine")
    )
    assert ours["optional-dependencies"]["engine"] == [f"{its['name']}=={its['version']}"]
    assert f"{ours['name']}=={ours['version']}" in its["dependencies"]
    assert ours["version"] == its["version"]


WITHOUT = "import sys; sys.path = [one for one in sys.path if not one.endswith('tools/engine')]; "
MAIN = "from dpsim.cli import main; main()"


def test_check_engine_without_the_extra_names_it(installed: Path, tmp_path: Path) -> None:
    done = run("-c", WITHOUT + MAIN, "check-engine", "--stored", cwd=tmp_path, PYTHONPATH=str(installed))
    said = "dpsim: the command check-engine needs the extra dpsim-ranks[engine], which is not installed here\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    done = run("-c", WITHOUT + MAIN, "--help", cwd=tmp_path, PYTHONPATH=str(installed))
    assert (done.returncode, "check-engine" in done.stdout) == (0, False)


@pytest.mark.slow
def test_check_engine_of_the_wheels_compares_the_stored_answers(installed: Path, tool: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(unpacked(tool, tmp_path)), str(installed)])
    done = run("-c", MAIN, "check-engine", "--stored", cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first == f"stored answers in {tmp_path}/dpsim_engine/answers"
    assert last.startswith("EQUAL  21,258 of 21,317 rows are equal; ")


# ---- import contracts

# A faulty import for every contract and every package that it covers: (contract, importing package, imported module).
FAULTY_IMPORTS = [
    ("contract", "dpsim.contract.words", "dpsim.vllm.config"),
    ("contract", "dpsim.contract.rules.wait_set", "dpsim.checks"),
    ("contract", "dpsim.contract.registry", "dpsim.vllm"),
    ("contract-floors", "dpsim.contract.ops", "dpsim.contract.interface"),
    ("contract-floors", "dpsim.contract.events", "dpsim.contract.ops"),
    ("contract-floors", "dpsim.contract.interface", "dpsim.contract.registry"),
    ("contract-floors", "dpsim.contract.program", "dpsim.contract.rules"),
    ("contract-floors", "dpsim.contract.interface", "dpsim.contract.collectives"),
    ("contract-floors", "dpsim.contract.collectives", "dpsim.contract.rules"),
    ("backend", "dpsim.backend", "dpsim.trace"),
    ("backend-floors", "dpsim.backend.journal", "dpsim.backend.hosts"),
    ("backend-floors", "dpsim.backend.memory", "dpsim.backend.calls"),
    ("sim", "dpsim.sim", "dpsim.vllm"),
    ("sim-floors", "dpsim.sim.graph", "dpsim.sim.hosts"),
    ("sim-floors", "dpsim.sim.wiring", "dpsim.sim.backend"),
    ("sim-floors", "dpsim.sim.collectives", "dpsim.sim.services"),
    ("real", "real", "dpsim.vllm.config"),
    ("alone", "dpsim.alone", "dpsim.sim"),
    ("judges", "dpsim.checks", "dpsim.explore"),
    ("judges", "dpsim.diagnose", "dpsim.scenario"),
    ("judges", "dpsim.trace", "dpsim.sim"),
    ("explore", "dpsim.explore", "dpsim.contract.ops"),
    ("scenario", "dpsim.scenario", "dpsim.vllm.museum"),
    ("scenario", "dpsim.scenario", "dpsim.checks"),
    ("runner", "dpsim.runner", "dpsim.cli"),
    ("runner", "dpsim.campaign", "dpsim.testing"),
    ("runner-users", "dpsim.scenario", "dpsim.runner"),
    ("no-torch", "dpsim.cli", "torch"),
    ("no-torch", "dpsim.sim", "real"),
    ("torch", "dpsim.torch.program", "dpsim.campaign"),
    ("torch-child", "dpsim.torch.nursery", "dpsim.torch.child.pipe"),
    ("mark", "dpsim.mark", "dpsim.contract.words"),
    ("wall", "dpsim", "dpsim.vllm.config"),
    ("wall", "dpsim.campaign.token", "dpsim.vllm.params.workload"),
    ("wall", "dpsim.scenario", "dpsim.vllm.config"),
    ("wall", "dpsim.testing", "dpsim.vllm.params.strategies"),
    ("wall", "real", "dpsim.vllm"),
    ("front", "dpsim.vllm.engine", "dpsim"),
    ("front", "dpsim.testing", "dpsim"),
    ("front", "real", "dpsim"),
    ("vllm", "dpsim.vllm.from_vllm", "dpsim.cli"),
    ("vllm", "dpsim.vllm.params", "dpsim.testing"),
    ("vllm", "dpsim.vllm.museum", "dpsim.checks.finding"),
    ("vllm-params", "dpsim.vllm.params", "dpsim.vllm.engine"),
    ("vllm-protocols", "dpsim.vllm.engine", "dpsim.sim"),
    ("vllm-protocols", "dpsim.vllm.pipeline", "dpsim.vllm.params.small"),
    ("vllm-protocols", "dpsim.vllm.config", "dpsim.vllm.from_vllm"),
    ("engine", "dpsim_engine.check", "dpsim.cli"),
    ("engine", "dpsim_engine.live.draws", "dpsim.sim"),
    ("engine-users", "dpsim.vllm.releases", "dpsim_engine"),
    ("engine-users", "dpsim.cli", "dpsim_engine.command"),
    ("engine-users", "real", "dpsim_engine.stored"),
    ("vllm-parts", "dpsim.vllm.data_parallel", "dpsim.vllm.pipeline"),
    ("vllm-parts", "dpsim.vllm.pipeline", "dpsim.vllm.data_parallel"),
    ("vllm-whole", "dpsim.vllm.engine", "dpsim.vllm.whole"),
    ("vllm-whole", "dpsim.vllm.data_parallel", "dpsim.vllm.whole"),
    ("vllm-releases", "dpsim.vllm.data_parallel", "dpsim.vllm.releases"),
    ("vllm-releases", "dpsim.vllm.museum", "dpsim.vllm.releases"),
    ("vllm-config", "dpsim.vllm.config", "dpsim.contract.ops"),
    ("vllm-graphs", "dpsim.vllm.graphs", "dpsim.vllm.model"),
    ("vllm-graphs", "dpsim.vllm.graphs", "dpsim.contract.registry"),
    ("vllm-capture", "dpsim.vllm.capture", "dpsim.vllm.model"),
    ("museum-visitors", "dpsim.checks", "dpsim.vllm.museum"),
    ("no-cycles", "dpsim.runner", "dpsim.campaign"),
    ("no-cycles-within", "dpsim.campaign.subject", "dpsim.campaign.explored"),
    ("no-cycles-within", "dpsim.checks.finding", "dpsim.checks.judge"),
    ("no-cycles-within", "dpsim.explore.order", "dpsim.explore.explorer"),
    ("no-cycles-within", "dpsim.scenario.errors", "dpsim.scenario.model"),
    ("no-cycles-within", "dpsim.sim.graph.op", "dpsim.sim.graph.machine"),
    ("no-cycles-within", "dpsim.vllm.pipeline.batches", "dpsim.vllm.pipeline.stage"),
    ("no-cycles-within", "dpsim_engine.comparison", "dpsim_engine.check"),
]


def lint_imports(root: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("importlinter")
    program = "from importlinter.cli import lint_imports_command as main; main()"
    options = [f"--contract={contract}" for contract in contracts]
    # The folder comes first on the path, so that it wins over the clone of an editable installation.
    return run("-c", program, "--no-cache", "--no-logo", *options, cwd=root, PYTHONPATH=str(root), COLUMNS="200")


def test_import_contracts_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_every_contract_has_a_faulty_import() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert {contract["id"] for contract in contracts} == {contract for contract, _, _ in FAULTY_IMPORTS}


# Lints the current folder once for each change: appends a line to one file, lints, and restores the file.
LINTS = """
import contextlib, io, json, sys
from pathlib import Path
from importlinter.cli import lint_imports

said = []
for contract, name, line in json.loads(sys.argv[1]):
    file, out = Path(name), io.StringIO()
    before = file.read_bytes() if file.exists() else None
    with file.open("a") as opened:
        opened.write(line)
    with contextlib.redirect_stdout(out):
        code = lint_imports(limit_to_contracts=(contract,), no_cache=True)
    file.unlink() if before is None else file.write_bytes(before)
    said.append((code, out.getvalue()))
print(json.dumps(said))
"""

TYPES_ALONE = "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import dpsim.sim.graph.machine\n"
Broken = tuple[str, str, str, str]
BROKEN: list[Broken] = [
    *((*faulty, f"\nimport {faulty[2]}\n") for faulty in FAULTY_IMPORTS),
    ("no-cycles-within", "dpsim.sim.graph.op", "dpsim.sim.graph.machine", TYPES_ALONE),
]
"""Contract, importing package, imported module, and the line. An import for types only also makes a cycle."""

ALONE = next(one for one in BROKEN if one[0] == "no-cycles")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Returns a copy of the packages that the linter reads."""
    for package in ("dpsim", "real", "tools/engine/dpsim_engine"):
        inside = tmp_path / Path(package).name
        shutil.copytree(ROOT / package, inside, ignore=shutil.ignore_patterns("__pycache__", "*.gz"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def linted(tree: Path, broken: Sequence[Broken]) -> list[tuple[int, str]]:
    """Returns for each line the linter's exit code and output. Starts the linter once for all lines."""
    pytest.importorskip("importlinter")
    changes = [(contract, faulty_file(tree, importer), line) for contract, importer, _, line in broken]
    done = run("-c", LINTS, json.dumps(changes), cwd=tree, PYTHONPATH=str(tree), COLUMNS="200")
    assert done.returncode == 0, done.stdout + done.stderr
    return [(code, out) for code, out in json.loads(done.stdout)]


def faulty_file(tree: Path, importer: str) -> str:
    """Returns the file that receives the import; a new module if the importer is a package."""
    part = tree / importer.replace(".", "/")
    return str((part / "faulty.py" if part.is_dir() else part.with_suffix(".py")).relative_to(tree))


def names(out: str, broken: Broken) -> bool:
    """Returns whether the linter's output names the faulty import."""
    _, importer, imported, _ = broken
    faulty = Path(faulty_file(ROOT, importer)).stem
    return re.search(rf"{faulty} -> \S*{imported.rpartition('.')[2]}\b", out) is not None


def test_faulty_imports_break_their_contracts(tree: Path) -> None:
    """Adds all faulty imports at once, except one: with the others, its import is in too many cycles for the linter to
    name it.
    """
    assert ALONE in BROKEN
    together = [one for one in BROKEN if one != ALONE]
    for _, importer, _, line in together:
        with (tree / faulty_file(tree, importer)).open("a") as file:
            file.write(line)
    done = lint_imports(tree)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    titles = {contract["name"]: contract["id"] for contract in contracts}
    _, *parts = re.split(r"^(.+)\n-{9,}\n", done.stdout, flags=re.MULTILINE)
    said = {titles[title]: text for title, text in zip(parts[::2], parts[1::2], strict=True) if title in titles}
    assert [one for one in together if not names(said.get(one[0], ""), one)] == []


def test_a_faulty_import_breaks_its_contract_alone(tree: Path) -> None:
    ((code, out),) = linted(tree, [ALONE])
    assert (code, names(out, ALONE)) == (1, True), out


@pytest.mark.slow
def test_each_faulty_import_breaks_its_contract_alone(tree: Path) -> None:
    for broken, (code, out) in zip(BROKEN, linted(tree, BROKEN), strict=True):
        assert code == 1, (broken, out)
        assert "0 kept, 1 broken" in out, broken
        assert names(out, broken), (broken, out)
