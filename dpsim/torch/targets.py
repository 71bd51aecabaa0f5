"""What is run: a file, or a function of a file, by the word that a user types.

    split("train.py:main")        # ("train.py", "main")

The word of a stranger runs no file. A token that names a target is refused, unless the user of this process named the
same one (`allow`).
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
    """File and function; an empty function for a script.

    >>> split("train.py"), split("a:b/train.py:main")
    (('train.py', ''), ('a:b/train.py', 'main'))
    """
    file, colon, function = target.rpartition(":")
    return (file, function) if colon and _FUNCTION.fullmatch(function) and file.endswith(".py") else (target, "")


TargetFile = Annotated[str, OfFolder(lambda target: split(target)[0])]
"""A target whose file is looked for in the folder of the scenario."""


def job_of(target: str, ranks: int, args: Sequence[str]) -> RanksJob:
    """The job of a target. Raises Unsuitable for a file that is not there."""
    file, function = split(target)
    path = Path(file)
    if not path.is_file():
        raise Unsuitable(f"torch.target: there is no file {file}; expected a script, or FILE.py:function")
    return RanksJob(ranks, str(path.resolve()), function, tuple(args))


def title(target: str) -> str:
    """A name for the scenario of a target.

    >>> title("a/train.py:main"), title("my script.py")
    ('train.main', 'my_script')
    """
    file, function = split(target)
    name = ".".join([Path(file).stem, *([function] if function else [])])
    return re.sub("[^A-Za-z0-9_./-]", "_", name)[:100]
