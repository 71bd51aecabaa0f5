"""Dumps made by hand. The test lists the calls of each rank, and a call is over once all members have made it.

    made = MadeJob(4)
    made.call([0, 1, 2, 3], "all_reduce", 16)             # all four
    made.call([0, 1, 3], "all_reduce", 16)                # rank 2 omits the call
    made.explained().culprit.ranks                        # (2,)

The name of a group determines its members. A call that fewer ranks make is not over. The dumps are made without the
reader that the tests check.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps

START = 1_700_000_000_000_000_000

Entries = list[dict[str, Any]]


class MadeJob:
    """A job of some ranks. `library`: dumps of "gloo" list no ranks, and their calls have no state other than
    `scheduled`.
    """

    def __init__(self, ranks: int, library: str = "nccl", groups: Mapping[str, Iterable[int]] = {}) -> None:
        self.library = library
        self.groups: dict[str, list[int]] = {"default_pg": [*range(ranks)], **{k: [*v] for k, v in groups.items()}}
        self.entries: dict[int, Entries] = {rank: [] for rank in range(ranks)}
        self.version = "2.10"
        self.now = START
        self._seqs: Counter[tuple[int, str]] = Counter()
        self._met: dict[tuple[str, int], Entries] = defaultdict(list)

    def call(
        self,
        ranks: Iterable[int],
        op: str = "all_reduce",
        size: int = 16,
        group: str = "default_pg",
        line: int = 10,
        dtype: str = "Float",
    ) -> None:
        """Adds the next collective of these ranks on the group."""
        for rank in ranks:
            self._seqs[rank, group] += 1
            seq = self._seqs[rank, group]
            entry = self._entry(rank, group, op, size, line, dtype, seq, 0)
            met = self._met[group, seq]
            met.append(entry)
            if len(met) == len(self.groups[group]) and len({one["profiling_name"] for one in met}) == 1:
                for one in met:
                    self.over(one)

    def transfer(self, sender: int, receiver: int, size: int = 16, sides: str = "both", line: int = 20) -> None:
        """Adds a transfer on the default group, or only one side of it."""
        sent = f"send {sender}->{receiver}", f"recv {receiver}<-{sender}"
        made = []
        for rank, op, side in ((sender, sent[0], "send"), (receiver, sent[1], "recv")):
            if sides in ("both", side):
                made.append(self._entry(rank, "default_pg", op, size, line, "Float", 0, 1))
        if len(made) == 2:
            for one in made:
                self.over(one)

    def over(self, entry: dict[str, Any]) -> None:
        entry["retired"] = True
        if self.library != "gloo":
            entry["state"] = "completed"

    def _entry(
        self, rank: int, group: str, op: str, size: int, line: int, dtype: str, seq: int, p2p: int
    ) -> dict[str, Any]:
        self.now += 1_000_000
        frames = [
            {"name": op, "filename": "/x/site-packages/torch/distributed/distributed_c10d.py", "line": 3068},
            {"name": "step", "filename": "train.py", "line": line},
            {"name": "<module>", "filename": "train.py", "line": 99},
        ]
        own = self.entries[rank]
        entry = {
            "frames": frames,
            "record_id": len(own),
            "pg_id": [*self.groups].index(group),
            "process_group": (str([*self.groups].index(group)), group),
            "collective_seq_id": seq,
            "p2p_seq_id": p2p,
            "op_id": len(own) + 1,
            "profiling_name": f"{self.library}:{op}",
            "time_created_ns": self.now,
            "input_sizes": [[size]],
            "input_dtypes": [dtype],
            "output_sizes": [[size]],
            "output_dtypes": [dtype],
            "state": "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None,
            "retired": False,
            "timeout_ms": 600000,
            "is_p2p": bool(p2p),
        }
        own.append(entry)
        return entry

    def dump(self, rank: int) -> dict[str, Any]:
        """Returns the content of a rank's recorder."""
        config = {
            str(at): {"name": str(at), "desc": name, "ranks": json.dumps(members)}
            for at, (name, members) in enumerate(self.groups.items())
            if rank in members
        }
        if self.library == "gloo":
            config = {"": {"name": "", "desc": "", "ranks": "[]"}}
        return {"version": self.version, "pg_config": config, "pg_status": {}, "entries": self.entries[rank]}

    def write(self, folder: Path, without: Iterable[int] = (), as_json: bool = False) -> Path:
        """Writes a file for each rank, except for the ranks in `without`."""
        for rank in self.entries:
            if rank not in without:
                name = f"{self.library}_rank_{rank}"
                if as_json:
                    (folder / f"{name}.json").write_text(json.dumps(self.dump(rank)))
                else:
                    (folder / name).write_bytes(pickle.dumps(self.dump(rank), protocol=2))
        return folder

    def explained(self, without: Iterable[int] = (), as_json: bool = False) -> Explanation:
        with tempfile.TemporaryDirectory() as folder:
            return judge_dumps(read_dumps(self.write(Path(folder), without, as_json)))
