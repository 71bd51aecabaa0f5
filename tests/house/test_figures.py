"""Checks that no figure of the house grows, and that each kind of growth causes a complaint that names the figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import ROOT
from tests.house.__main__ import FILE, complaints, held, hold, main, write
from tests.house.figures import Measured, arrows, circles, floors, imports, measured, part_of

pytest.importorskip("grimp")


@pytest.fixture(scope="module")
def house() -> Measured:
    """The figures of this repository."""
    return measured(ROOT)


def test_no_figure_of_the_house_grows(house: Measured) -> None:
    found = complaints(house, FILE)
    assert not found, "\n".join(found)


def test_each_room_of_the_house_is_held(house: Measured) -> None:
    """No room is held that is gone."""
    assert held(FILE)[0].keys() == house.numbers.keys()


# ---- small trees

SOURCES = {
    "dpsim/__init__.py": "",
    "dpsim/runner.py": "from dpsim.sim.machine import RUN\n",
    "dpsim/contract/__init__.py": "",
    "dpsim/contract/ops.py": "OPS = 1\n",
    "dpsim/sim/__init__.py": "",
    "dpsim/sim/graph.py": "from dpsim.contract import ops\n",
    "dpsim/sim/machine.py": "from dpsim.sim import graph\n\nRUN = 1\n",
    "dpsim/sim/parts/__init__.py": "",
    "dpsim/sim/parts/one.py": "from dpsim.sim.graph import ops\n",
    "dpsim/cli/__init__.py": "import dpsim.runner\n",
    "real/__init__.py": "from dpsim.contract.ops import OPS\n",
    "benchmarks/__init__.py": "import dpsim.cli\n",
}


def add(tree: Path, name: str, text: str) -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    with (tree / name).open("a") as file:
        file.write(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree, and its held figures in the file `held.toml`."""
    for name, text in SOURCES.items():
        add(tmp_path, name, text)
    now = measured(tmp_path)
    write(tmp_path / "held.toml", now.numbers, now.arrows)
    return tmp_path


def test_the_figures_of_a_small_tree(tree: Path) -> None:
    """The chain is benchmarks, cli, runner, sim, contract. Of the real package, only one arrow leads to dpsim."""
    now = measured(tree)
    assert now.numbers == {
        "rooms": 5,
        "floors": 5,
        "arrows": 5,
        "circles": 0,
        "arrows in circles": 0,
        "lines of dpsim/ in all": 8,
        "lines of cli": 1,
        "lines of contract": 1,
        "lines of sim": 5,
        "lines of real": 1,
        "lines of benchmarks": 1,
    }
    assert now.floors == {"__init__": 1, "contract": 1, "sim": 2, "real": 2, "runner": 3, "cli": 4, "benchmarks": 5}
    assert complaints(now, tree / "held.toml") == []
    assert held(tree / "held.toml") == (now.numbers, {one: others for one, others in now.arrows.items() if others})


def a_line(tree: Path) -> None:
    add(tree, "dpsim/cli/__init__.py", "x = 1\n")


def a_room(tree: Path) -> None:
    add(tree, "dpsim/utils/__init__.py", "")


def a_line_of_a_new_room(tree: Path) -> None:
    add(tree, "dpsim/utils/__init__.py", "x = 1\n")


def an_import_upward(tree: Path) -> None:
    add(tree, "dpsim/contract/ops.py", "import dpsim.cli\n")


def an_import_of_types_in_a_function(tree: Path) -> None:
    text = (
        "def f():\n    from typing import TYPE_CHECKING\n    if TYPE_CHECKING:\n        from dpsim.sim import machine\n"
    )
    add(tree, "dpsim/contract/ops.py", text)


def a_floor(tree: Path) -> None:
    add(tree, "real/__init__.py", "import benchmarks\n")


def a_circle_of_two_modules(tree: Path) -> None:
    add(tree, "dpsim/sim/graph.py", "import dpsim.sim.machine\n")


def a_circle_of_a_module_and_a_folder(tree: Path) -> None:
    add(tree, "dpsim/sim/graph.py", "import dpsim.sim.parts.one\n")


LINE = "lines of dpsim/ in all: "


@pytest.mark.parametrize(
    ("grown", "says"),
    [
        (a_line, [f"{LINE}held 8, now 9;", "lines of cli: held 1, now 2;"]),
        (a_room, ["rooms: held 5, now 6;"]),
        (a_line_of_a_new_room, ["rooms: held 5, now 6;", LINE, "lines of utils: held 0, now 1;"]),
        (
            an_import_upward,
            [
                "arrows: held 5, now 6 (new: contract -> cli);",
                "circles: held 0, now 1 (between rooms: cli, contract, runner, sim);",
                "arrows in circles: held 0, now 4;",
                LINE,
                "lines of contract: ",
            ],
        ),
        (
            an_import_of_types_in_a_function,
            ["arrows: held 5, now 6 (new: contract -> sim);", "circles: ", "arrows in ", LINE, "lines of contract: "],
        ),
        (a_floor, ["floors: held 5, now 6;", "arrows: held 5, now 6 (new: real -> benchmarks);", "lines of real: "]),
        (
            a_circle_of_two_modules,
            ["circles: held 0, now 1 (dpsim.sim: graph, machine);", "arrows in circles: ", LINE, "lines of sim: "],
        ),
        (
            a_circle_of_a_module_and_a_folder,
            ["circles: held 0, now 1 (dpsim.sim: graph, parts);", "arrows in circles: ", LINE, "lines of sim: "],
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_grows_is_reported(tree: Path, grown: Callable[[Path], None], says: list[str]) -> None:
    grown(tree)
    found = complaints(measured(tree), tree / "held.toml")
    assert [one[: len(begin)] for one, begin in zip(found, says, strict=True)] == says


def test_a_circle_that_grows_has_more_arrows() -> None:
    small = arrows({"dpsim.a": ["dpsim.b"], "dpsim.b": ["dpsim.a"], "dpsim.c": ["dpsim.a"]})
    assert (circles(small), floors(small)) == ([["a", "b"]], {"a": 2, "b": 2, "c": 3})
    grown = arrows({"dpsim.a": ["dpsim.b", "dpsim.c"], "dpsim.b": ["dpsim.a"], "dpsim.c": ["dpsim.a"]})
    assert (circles(grown), floors(grown)) == ([["a", "b", "c"]], {"a": 3, "b": 3, "c": 3})


def test_what_fell_is_held_and_what_grew_is_not(tree: Path) -> None:
    """`--hold` writes fewer lines and arrows, forgets a room that is gone, and raises nothing."""
    file = tree / "held.toml"
    (tree / "dpsim/cli/__init__.py").unlink()
    (tree / "benchmarks/__init__.py").write_text("")
    add(tree, "dpsim/sim/graph.py", "\n\n")
    assert main(["--hold"], tree, file) == 0
    numbers, between = held(file)
    assert (numbers["rooms"], numbers["arrows"], numbers["lines of sim"]) == (4, 3, 5)
    assert "lines of cli" not in numbers
    assert "benchmarks" not in between
    assert [one.partition(":")[0] for one in complaints(measured(tree), file)] == [LINE[:-2], "lines of sim"]
    add(tree, "dpsim/contract/ops.py", "import dpsim.sim.parts.one\nimport dpsim.runner\n")
    assert hold(measured(tree), file) == []
    assert held(file) == (numbers, between), "a new arrow is not held"


def test_the_table_names_each_figure(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    an_import_upward(tree)
    main([], tree, tree / "held.toml")
    shown = capsys.readouterr().out.splitlines()
    assert [line.split() for line in shown if line.startswith(("rooms", "arrows "))] == [
        ["rooms", "5", "5"],
        ["arrows", "6", "5"],
        ["arrows", "in", "circles", "4", "0"],
    ]
    assert "circle    between rooms: cli, contract, runner, sim" in shown


def test_a_file_that_cannot_be_read_is_named(tree: Path) -> None:
    add(tree, "dpsim/sim/graph.py", "def\n")
    with pytest.raises(ValueError, match="graph"):
        imports(tree, "dpsim")


def test_each_module_has_its_part() -> None:
    modules = ("dpsim", "dpsim.runner", "dpsim.sim", "dpsim.sim.graph.op", "real.record.x", "benchmarks")
    assert [part_of(one) for one in modules] == ["__init__", "runner", "sim", "sim", "real", "benchmarks"]
