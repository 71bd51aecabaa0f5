"""Tests of the parts of the real backends that need neither torch nor processes."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsim.contract.world import At, BackendUnavailable, Kill, World
from real import backend as backends
from real import folder as folders
from real.backend import GlooBackend, NcclBackend
from real.folder import PREFIX, PoolFolder, _remove_if_stale
from real.threads import thread_states
from tests.programs import world_of

# ---- the folder of a pool


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(folders, "MEMORY", tmp_path / "none")
    return tmp_path


@pytest.mark.parametrize(("room", "there"), [(1, True), (1 << 60, False)], ids=["room", "no room"])
def test_a_folder_lies_in_memory_if_there_is_room(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, room: int, there: bool
) -> None:
    """Checks that a pool's folder is in memory if there is room. First the pool removes the folders that ended pools
    left, because they may take the room.
    """
    left = PoolFolder()
    memory = temporary / "memory"
    memory.mkdir()
    monkeypatch.setattr(folders, "MEMORY", memory)
    monkeypatch.setattr(folders, "ROOM", 1)
    also_left = PoolFolder()
    os.close(left._held)
    os.close(also_left._held)
    monkeypatch.setattr(folders, "ROOM", room)
    folder = PoolFolder()
    assert folder.path.parent == (memory if there else temporary)
    assert not left.path.exists()
    assert not also_left.path.exists()
    folder.remove()
    assert list(temporary.iterdir()) == [memory]
    assert not list(memory.iterdir())


def test_a_new_pool_removes_the_folder_of_a_killed_one(temporary: Path) -> None:
    killed, alive = PoolFolder(), PoolFolder()
    (killed.path / "0").write_text("")
    os.close(killed._held)  # as the kernel does
    assert sorted(temporary.iterdir()) == sorted([killed.path, alive.path])
    last = PoolFolder()
    assert sorted(temporary.iterdir()) == sorted([alive.path, last.path])
    alive.remove()
    last.remove()
    assert list(temporary.iterdir()) == []


def test_files_and_links_named_like_a_pool_folder_stay(temporary: Path) -> None:
    precious = temporary / "precious"
    precious.mkdir()
    (temporary / f"{PREFIX}link").symlink_to(precious)
    (temporary / f"{PREFIX}file").write_text("")
    PoolFolder().remove()
    assert len(list(temporary.iterdir())) == 3


def test_folders_of_other_users_stay(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = temporary / f"{PREFIX}theirs"
    theirs.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: os.stat(theirs).st_uid + 1)
    _remove_if_stale(theirs)
    assert theirs.exists()
    monkeypatch.undo()
    _remove_if_stale(theirs)
    assert not theirs.exists()


# ---- missing parts


def test_importing_the_backends_imports_no_torch() -> None:
    program = "import real.backend, real.worker, real.cpu, real.cuda, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def a_world(size: int) -> World:
    return world_of(size, ["dp_cpu"])


@pytest.mark.parametrize("missing", ["torch", "msgspec"])
@pytest.mark.parametrize("backend", [GlooBackend, NcclBackend])
def test_a_backend_without_its_module_is_refused(
    backend: type[GlooBackend], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else name)
    with pytest.raises(BackendUnavailable, match=f"the {backend.name} backend needs the module {missing}"):
        backend().run(a_world(1), "t_program", {})


@pytest.mark.parametrize("backend", [GlooBackend, NcclBackend])
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kills": (Kill(1, 3_000),)}, "cannot kill rank 1 at 3000 ns.*--backend sim.*a fault of the kind"),
        ({"kills": (Kill(1, 0, At("x", 2)),)}, r"cannot kill rank 1 at x\[2\].*--backend sim.*a fault of the kind"),
        ({"residency": 2}, "cannot limit a device to 2 collectives at a time.*--backend sim"),
        ({"launch_queue": 8}, "cannot limit a launch queue to 8 ops.*--backend sim"),
        ({"alloc_synchronises": True}, "cannot make allocations wait for the device.*--backend sim"),
        ({"progress": 9}, "cannot bound the ops after a fault to 9 .*--backend sim"),
    ],
    ids=["kills", "kills at an op", "residency", "launch_queue", "alloc_synchronises", "progress"],
)
def test_real_backends_refuse_options_that_only_the_simulation_has(
    backend: type[GlooBackend], changes: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks that real backends reject options that only the simulation has. A run without the option would be healthy,
    and would say nothing about what the user requested.
    """
    monkeypatch.setattr(backend, "unavailable", lambda self, size: None)
    made = backend()
    with pytest.raises(BackendUnavailable, match=f"the {backend.name} backend {says}"):
        made.run(replace(a_world(2), **changes), "t_program", {})
    assert made.pool.processes == []


def test_nccl_without_enough_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    monkeypatch.setattr(backends, "version", lambda name: "2.13.0+cpu")
    reason = NcclBackend().unavailable(2)
    assert reason is not None
    assert "needs 2 CUDA devices" in reason
    assert reason.endswith("torch 2.13.0+cpu is built without CUDA")

    def absent() -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(backends, "version", lambda name: "2.13.0+cu130")
    monkeypatch.setattr(backends, "driver", absent)
    reason = NcclBackend().unavailable(2)
    assert reason is not None
    assert reason.endswith("this machine has no driver of CUDA")

    import torch

    monkeypatch.setattr(backends, "driver", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert NcclBackend().unavailable(2) is None
    reason = NcclBackend().unavailable(3)
    assert reason is not None
    assert reason.endswith("needs 3 CUDA devices, one for each rank, and found 2 (CUDA_VISIBLE_DEVICES=4,5)")


# ---- the lines of threads


def test_a_look_at_threads_keeps_no_frame() -> None:
    """Checks that the frames of a thread end with it, without the garbage collector. Python 3.12.1 crashes if the
    collector frees the frame of a `Connection.send`.
    """
    begun, over, held = threading.Event(), threading.Event(), list[weakref.ref[Any]]()

    def wait() -> None:
        local = threading.Event()
        held.append(weakref.ref(local))
        begun.set()
        over.wait()

    thread = threading.Thread(target=wait, name="u1")
    thread.start()
    begun.wait()
    gc.disable()
    try:
        states = thread_states([])
        over.set()
        thread.join()
        assert held[0]() is None
    finally:
        gc.enable()
    assert any(state.startswith("u1 at tests/real/test_parts.py:") for state in states)
