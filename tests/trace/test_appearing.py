"""Tests that `appearing` writes a file completely or not at all, and changes no other file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.trace.appearing import appearing, temporary


def test_a_link_is_replaced_and_what_it_leads_to_is_not(tmp_path: Path) -> None:
    """Writes to a path that is a link, and with a temporary path that is a link. `appearing` replaces both links, and
    does not change the files to which they lead.
    """
    (tmp_path / "mine").write_text("mine")
    target = tmp_path / "new"
    for link in (target, temporary(target)):
        link.symlink_to(tmp_path / "mine")
    with appearing(target) as file:
        file.write(b"new")
    assert (target.read_text(), (tmp_path / "mine").read_text()) == ("new", "mine")
    assert not target.is_symlink()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine", "new"]


def test_a_file_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "new"
    target.write_text("old")
    with appearing(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_text() == "old"
    assert target.read_text() == "new"


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    target = tmp_path / "new"
    with pytest.raises(TypeError), appearing(target) as file:
        file.write(None)  # type: ignore[call-overload]
    assert not [*tmp_path.iterdir()]
