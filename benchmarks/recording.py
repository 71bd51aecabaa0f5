"""Measures the cost of the recorder per call: the CPU time of the recorder alone, and of an all_reduce with it.

    python -m benchmarks.recording

The first figure is the CPU time of three calls of the recorder: before a call of torch, before its wait, and after it.
The second figure uses a gloo group of one rank, whose all_reduce only passes through torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS, CALLS = 7, 2_000

PASSING = """
import time
import torch, torch.distributed as dist

dist.init_process_group("gloo", init_method="file://" + {store!r}, rank=0, world_size=1)
x = torch.ones(16)
best = 1e9
for _ in range({rounds}):
    began = time.process_time()
    for _ in range({calls}):
        dist.all_reduce(x)
    best = min(best, time.process_time() - began)
print(best / {calls} * 1e6)
"""


def own_us() -> float:
    """Returns the CPU microseconds of the recorder per call."""
    import torch
    import torch.distributed as dist

    from real.record.measures import METHODS
    from real.record.recorder import Recorder

    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        recorder = Recorder(Path(folder))
        recorder.count = dist.ProcessGroup._get_sequence_number_for_group
        options = dist.AllreduceOptions()
        group, method, words = dist.group.WORLD, METHODS["allreduce"], ([torch.ones(16)], options)

        def torchs(group: object) -> None:
            """Calls the recorder. Its distance from the user's line is that of torch's own function."""
            number = recorder.record(group, method.op, method.measure(words, {}), sys._getframe(1))
            recorder.waits(number)
            recorder.returned(number)

        best = min(_seconds(torchs, group) for _ in range(ROUNDS))
        dist.destroy_process_group()
    return best / CALLS * 1e6


def _seconds(call: object, group: object) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        call(group)  # type: ignore[operator]
    return time.process_time() - began


def passing_us(recorded: bool) -> float:
    """Returns the CPU microseconds of an all_reduce of one rank."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if recorded:
            from dpsim.cli.record import variables

            environment |= variables(Path(folder), 65_536, 15.0)
        script = PASSING.format(store=f"{folder}/store", rounds=ROUNDS, calls=CALLS)
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
    return float(done.stdout)


def main() -> None:
    print(f"recorder alone: {own_us():.2f} us a call")
    plain, recorded = (min(passing_us(how) for _ in range(3)) for how in (False, True))
    print(f"all_reduce of one rank: {plain:.1f} us plain, {recorded:.1f} us recorded, {recorded - plain:+.1f} us")


if __name__ == "__main__":
    main()
