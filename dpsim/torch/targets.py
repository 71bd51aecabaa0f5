"""Parses the target that a user types: a script, or a function of a file.

    split("train.py:main")        # ("train.py", "main")

A replay token may come from another person, and must not make this process run a file. So dpsim refuses a token that
names a target, unless the user of this process named the same file (`dpsim.scenario.params.files.allow`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from dpsim.contract.program import Unsuitable
from dpsim.scenario.params.files import OfFolder
from dpsim.torch.nursery import RanksJob

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*")


def split(target: str) -> tuple[str, str]:
    """Splits a target into file and function. The function is empty for a script.

    >>> split("train.py"), split("a:b/train.py:main")
    (('train.py', ''), ('a:b/train.py', 'main'))
    """
    file, colon, function = target.rpartition(":")
    return (file, function) if colon and _FUNCTION.fullmatch(function) and file.endswith(".py") else (target, "")


TargetFile = Annotated[str, OfFolder(lambda target: split(target)[0])]
"""A target. A relative file starts from the folder of the scenario file."""


def job_of(target: str, ranks: int, args: Sequence[str]) -> RanksJob:
    """Returns the job of a target, with an absolute path. Raises Unsuitable if the file does not exist."""
    file, function = split(target)
    path = Path(file)
    if not path.is_file():
        raise Unsuitable(f"torch.target: there is no file {file}; expected a script, or FILE.py:function")
    return RanksJob(ranks, str(path.resolve()), function, tuple(args))


def title(target: str) -> str:
    """Returns a scenario name for a target.

    >>> title("a/train.py:main"), title("my script.py")
    ('train.main', 'my_script')
    """
    file, function = split(target)
    name = ".".join([Path(file).stem, *([function] if function else [])])
    return re.sub("[^A-Za-z0-9_./-]", "_", name)[:100]
