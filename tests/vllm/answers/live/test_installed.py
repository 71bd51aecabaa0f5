"""Tests how dpsim finds the installed release of vLLM."""

from __future__ import annotations

import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from dpsim_engine.live.installed import function, installed


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty folder on the import path, in a process where vllm is not imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    invalidate_caches()
    return tmp_path


@pytest.mark.parametrize(
    ("source", "info", "release"),
    [
        (None, None, None),
        ("raise RuntimeError", "0.33.0", "0.33.0"),
        ("__version__ = '0.34.0.dev1'", None, "0.34.0.dev1"),
        ("raise RuntimeError('no device')", None, "unknown (RuntimeError: no device)"),
    ],
)
def test_the_installed_release_comes_from_the_metadata_or_the_package(
    site: Path, source: str | None, info: str | None, release: str | None
) -> None:
    """The release is that of the package's metadata, else the package's own version attribute.

    A folder without `__init__.py` is not a package.
    """
    (site / "vllm").mkdir()
    if source is not None:
        (site / "vllm" / "__init__.py").write_text(source)
    if info is not None:
        (site / f"vllm-{info}.dist-info").mkdir()
        (site / f"vllm-{info}.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: vllm\nVersion: {info}\n"
        )
    invalidate_caches()
    try:
        assert installed() == release
    finally:
        sys.modules.pop("vllm", None)


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(ImportError, match="json has no nothing"):
        function("json", "nothing")
