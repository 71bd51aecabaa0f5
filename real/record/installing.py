"""Installs the recorder in a process: it wraps methods of torch's process group, with a record before and after each
call.

    install_when_imported("/var/recording")     # torch may be imported later, or never

The class of the groups and the path of each call stay torch's own. The recorder replaces:

* the methods of `ProcessGroup` in measures.METHODS, `Work.wait` and `Work.is_completed`;
* `init_process_group`, and the function in which torch creates a group (beginning.py);
* the functions of `torch.distributed._functional_collectives`, whose calls go to C++. While torch compiles a program,
  these do nothing else than before.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from dpsim import mark
from dpsim.contract.recording import OPS, SLOTS
from real.record.beginning import note_groups
from real.record.measures import FUNCTIONAL, METHODS, Method
from real.record.recorder import Recorder

C10D = "torch.distributed.distributed_c10d"
FUNCTIONS = "torch.distributed._functional_collectives"


def install_when_imported(folder: str) -> Importing:
    """Records this process as soon as it imports torch.distributed."""
    recorder = Recorder(Path(folder), int(os.environ.get("DPSIM_RECORD_CALLS", SLOTS)))
    importing = Importing(recorder)
    sys.meta_path.insert(0, importing)
    os.register_at_fork(after_in_child=recorder.start_again)
    return importing


class Importing(importlib.abc.MetaPathFinder):
    """Changes two modules of torch right after Python has executed them."""

    def __init__(self, recorder: Recorder) -> None:
        self.changes: dict[str, Callable[[ModuleType], None]] = {
            C10D: functools.partial(install, recorder),
            FUNCTIONS: functools.partial(install_functional, recorder),
        }

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        change = self.changes.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            change(module)

        spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


def install(recorder: Recorder, module: ModuleType) -> None:
    """Replaces the methods of torch's process group and Work, and receives the marks of the program (`dpsim.mark`)."""
    group, work = module.ProcessGroup, module.Work
    recorder.count = group._get_sequence_number_for_group
    open_works: dict[int, int] = {}
    for name, method in METHODS.items():
        real = getattr(group, name, None)
        if real is not None:
            setattr(group, name, _recorded(recorder, real, method, open_works))
    work.wait = _waited(recorder, work.wait, open_works)
    work.is_completed = _looked(recorder, work.is_completed, open_works)
    group.monitored_barrier = _monitored(recorder, group.monitored_barrier)
    note_groups(recorder, module)
    mark.listen(Marks(recorder))


def _recorded(recorder: Recorder, real: Any, method: Method, open_works: dict[int, int]) -> Any:
    record, miss, returned, failed = recorder.record, recorder.miss, recorder.returned, recorder.failed
    caller = sys._getframe
    op, measure = method

    @functools.wraps(real)
    def call(group: Any, *args: Any, **more: Any) -> Any:
        try:
            number = record(group, op, measure(args, more), caller(1))
        except Exception:  # an error of the recorder must not stop the job's call
            number = miss()
        try:
            work = real(group, *args, **more)
        except BaseException:
            failed(number)
            raise
        if work is None:
            returned(number)
        else:
            open_works[id(work)] = number  # a later Work may get this id and entry
        return work

    return call


def _monitored(recorder: Recorder, recorded: Any) -> Any:
    @functools.wraps(recorded)
    def monitored_barrier(group: Any, *args: Any, **more: Any) -> Any:
        with contextlib.suppress(Exception):
            recorder.monitored(group)
        return recorded(group, *args, **more)

    return monitored_barrier


def _waited(recorder: Recorder, real: Any, open_works: dict[int, int]) -> Any:
    number_of, forget, waits, returned = open_works.get, open_works.pop, recorder.waits, recorder.returned

    @functools.wraps(real)
    def wait(work: Any, *args: Any, **more: Any) -> Any:
        number = number_of(id(work))
        if not number:
            return real(work, *args, **more)
        waits(number)
        try:
            answer = real(work, *args, **more)
        except BaseException:
            recorder.failed(number)
            raise
        forget(id(work), 0)
        returned(number)
        return answer

    return wait


def _looked(recorder: Recorder, real: Any, open_works: dict[int, int]) -> Any:
    @functools.wraps(real)
    def is_completed(work: Any) -> Any:
        answer = real(work)
        if answer:
            recorder.returned(open_works.pop(id(work), 0))
        return answer

    return is_completed


def install_functional(recorder: Recorder, module: ModuleType) -> None:
    """Replaces functions whose calls go to C++ in one step, and the wait for their results."""
    open_tensors: dict[int, int] = {}
    for name, op in FUNCTIONAL.items():
        real = getattr(module, name, None)
        if real is not None:
            setattr(module, name, _functional(recorder, real, OPS.index(op), module, open_tensors))
    wait = module.wait_tensor

    @functools.wraps(wait)
    def wait_tensor(tensor: Any) -> Any:
        number = open_tensors.pop(id(tensor), 0)
        recorder.waits(number)
        answer = wait(tensor)
        recorder.returned(number)
        return answer

    module.wait_tensor = wait_tensor  # type: ignore[attr-defined]


def _functional(recorder: Recorder, real: Any, op: int, module: ModuleType, open_tensors: dict[int, int]) -> Any:
    inner: list[bool] = []  # one of these functions calls another

    @functools.wraps(real)
    def call(tensor: Any, *args: Any, **more: Any) -> Any:
        if inner or module.is_torchdynamo_compiling():
            return real(tensor, *args, **more)
        number = 0
        try:
            first = tensor[0] if type(tensor) is list else tensor
            group = _group_of(module, args, more)
            root = args[0] if op == BROADCAST and args else -1
            reduction = args[0] if args and type(args[0]) is str else more.get("reduceOp")
            size = first.numel()
            number = recorder.record(group, op, (size, size, first.dtype, reduction, root), sys._getframe(1))
        except Exception:
            recorder.miss()
        inner.append(True)
        try:
            answer = real(tensor, *args, **more)
        finally:
            inner.pop()
        if number:
            held = getattr(answer, "elem", answer)
            open_tensors[id(held)] = number
        return answer

    return call


BROADCAST = OPS.index("broadcast")


def _group_of(module: ModuleType, args: tuple[Any, ...], more: dict[str, Any]) -> Any:
    given = more.get("group")
    if given is None:
        given = next(one for one in reversed(args) if not isinstance(one, (int, str, list)) or _is_name(one))
    found = module._resolve_group_name(given, more.get("tag", ""))
    return module.c10d._resolve_process_group(found)


def _is_name(word: Any) -> bool:
    return isinstance(word, str) and word.isdigit()


class Marks(mark.Listener):
    """Writes the program's `dpsim.mark` calls into the recording."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def step(self, number: int) -> None:
        self.recorder.step(number)

    def decide(self, label: str, value: Any, group: Any) -> None:
        self.recorder.decided(label, value, group, sys._getframe(2))
