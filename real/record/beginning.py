"""The beginning of a recorded job and of its groups: the recording exists, and contains the groups, before the first
call.

    note_groups(recorder, torch.distributed.distributed_c10d)

Some ranks make all their calls from C++, as DDP does, so the recorder sees none of them. Such a rank still has a file
from `init_process_group` on, with the library's own call counts for its groups. The order of `new_group` calls decides
which ranks get a group's name. So the recorder writes the ranks of each name as a decision, on which all processes must
agree.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from types import ModuleType
from typing import Any

from real.record.recorder import Recorder


def note_groups(recorder: Recorder, module: ModuleType) -> None:
    """Replaces torch's `init_process_group` and the function that creates each group."""
    initialize, make = module.init_process_group, module._new_process_group_helper
    parameters = inspect.signature(initialize)

    @functools.wraps(initialize)
    def init_process_group(*args: Any, **more: Any) -> Any:
        try:
            recorder.begins(_rank_of(parameters.bind(*args, **more).arguments))
        except Exception:  # an error of the recorder must not stop the job's call
            recorder.miss()
        return initialize(*args, **more)

    @functools.wraps(make)
    def made(size: int, me: int, ranks: list[int], *args: Any, **more: Any) -> Any:
        try:
            name = more["group_name"] if "group_name" in more else args[2]
            if ranks:
                recorder.decided(f"group_{name}", [*ranks], None, sys._getframe(1))
        except Exception:
            recorder.miss()
        answer = make(size, me, ranks, *args, **more)
        try:
            recorder.meets(answer[0], ranks)
        except Exception:
            recorder.miss()
        return answer

    module.init_process_group = init_process_group  # type: ignore[attr-defined]
    module._new_process_group_helper = made  # type: ignore[attr-defined]


def _rank_of(given: dict[str, Any]) -> int | None:
    """Returns the rank of this process in the default group; None as long as only the library will know it."""
    if given.get("rank", -1) >= 0:
        return int(given["rank"])
    method = given.get("init_method")
    if "RANK" in os.environ and given.get("store") is None and (method is None or method.startswith("env:")):
        return int(os.environ["RANK"])
    return None
