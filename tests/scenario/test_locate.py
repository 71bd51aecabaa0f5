"""Tests of where dpsim looks for a scenario: first by path, then by name in the clone or in the installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.scenario import locate


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a clone with two scenarios and one file of measured costs. The working folder is another one."""
    package = tmp_path / "clone" / "dpsim"
    package.mkdir(parents=True)
    (tmp_path / "clone" / "pyproject.toml").touch()
    for name in ("quickstart", "museum/stale_slot", "calibration/h200"):
        file = tmp_path / "clone" / "scenarios" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(locate, "_PACKAGE", package)
    return package


@pytest.mark.parametrize("name", ["museum/stale_slot", "museum/stale_slot.yaml", "scenarios/museum/stale_slot.yaml"])
def test_a_scenario_is_found_by_its_name(package: Path, name: str) -> None:
    assert locate.scenario_path(name) == package.parent / "scenarios" / "museum" / "stale_slot.yaml"
    assert locate.bundled_scenarios() == ["museum/stale_slot", "quickstart"]


def test_an_existing_file_is_found_before_a_name(package: Path) -> None:
    Path("quickstart.yaml").touch()
    assert locate.scenario_path("quickstart.yaml") == Path("quickstart.yaml")


def test_wheel_ignores_a_folder_beside_the_package(package: Path) -> None:
    (package.parent / "pyproject.toml").unlink()
    assert locate.bundled_scenarios() == []
    with pytest.raises(locate.ScenarioNotFound, match="no scenarios came with dpsim"):
        locate.scenario_path("quickstart")
    (package / "_scenarios").mkdir()
    (package / "_scenarios" / "quickstart.yaml").touch()
    assert locate.scenario_path("quickstart") == package / "_scenarios" / "quickstart.yaml"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("quikstart", "not among the 2 scenarios in .*scenarios; did you mean 'quickstart'"),
        ("stale_slot", "did you mean 'museum/stale_slot'"),
        ("museum/stale_slat.yaml", "did you mean 'museum/stale_slot'"),
        ("../scenarios/quickstart", "no file in .*elsewhere"),
        (".", "a folder, not a scenario file"),
        ("", "a folder, not a scenario file"),
        ("calibration/h200", "not among the 2 scenarios"),
    ],
)
def test_an_unknown_scenario_name_gives_suggestions(package: Path, name: str, said: str) -> None:
    with pytest.raises(locate.ScenarioNotFound, match=said):
        locate.scenario_path(name)
