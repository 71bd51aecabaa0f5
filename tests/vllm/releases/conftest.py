"""Fixtures that remove the releases that a test registered."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

import pytest

from dpsim.contract import registry
from dpsim.vllm.config import forms
from dpsim.vllm.releases import places

MODULE = "tests.vllm.releases.v0_99"


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registry.protocols()
    monkeypatch.setattr(registry, "_more_forms", {})
    monkeypatch.setattr(places, "_more", {})
    monkeypatch.setattr(places, "_records", dict(places._records))
    rules = dict(forms.FORMS)
    yield
    forms.FORMS.clear()
    forms.FORMS.update(rules)
    sys.modules.pop(MODULE, None)


@pytest.fixture
def v0_99() -> None:
    """Registers release 0.99, as an entry point or `--module` would."""
    importlib.import_module(MODULE)
