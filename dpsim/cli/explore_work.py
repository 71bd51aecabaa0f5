"""The options `--work` and `--resume` of `dpsim explore`, which keep results in a folder, and `--cluster`.

    dpsim explore my.yaml --strategy dpor --work night        # interrupted by Ctrl-C, a kill or a power cut
    dpsim explore my.yaml --strategy dpor --resume night      # continues, with any number of --jobs

If the folder is of another scenario, program, search or version of dpsim, `--resume` ends with code 2, and the message
names the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from dpsim.cli.console import BAD_INPUT, fail

if TYPE_CHECKING:
    from dpsim.campaign.files import Options
    from dpsim.campaign.ray_cluster import RayCluster
    from dpsim.campaign.work import WorkFolder
    from dpsim.scenario import Scenario


@contextmanager
def opened(
    work: Path | None, resume: Path | None, chosen: Sequence[tuple[Scenario, Path]], options: Options, worlds: str
) -> Iterator[WorkFolder | None]:
    """Yields the locked folder of `--work` or `--resume`, or None. `worlds`: which are explored; others do not fit."""
    if work is not None and resume is not None:
        fail("--resume: not together with --work; --resume also keeps what it does", BAD_INPUT)
    if work is None and resume is None:
        yield None
        return
    from dpsim.campaign.sameness import head
    from dpsim.campaign.work import WorkFolder

    bounds = ", ".join(f"{key} {number}" for key, number in options.bounds._asdict().items() if number is not None)
    settings = {"strategy": options.strategy, "seed": options.seed, "keep_going": options.keep_going, "bounds": bounds}
    about = head(chosen, settings, worlds)
    with WorkFolder.begin(work, about) if work is not None else WorkFolder.resume(resume or Path(), about) as kept:
        yield kept


def on(cluster: str | None, jobs: int) -> AbstractContextManager[RayCluster | None]:
    """Returns the cluster of `--cluster`, or None. `jobs`: how many units run at the same time, if more than 1."""
    if cluster is None:
        return nullcontext()
    from dpsim.campaign.ray_cluster import NoCluster, RayCluster

    try:
        return RayCluster.at(cluster, jobs if jobs > 1 else None)
    except NoCluster as error:
        fail(f"--cluster: {error}", BAD_INPUT)
