"""Compares the capture sizes of a configuration, before and after the V1 runner rounds them (specification 5.11)."""

from __future__ import annotations

from dpsim.vllm.config import CUDAGraphMode, EngineConfig
from dpsim.vllm.graphs.sizes import Ladder, Ladder033
from dpsim.vllm.releases import V0_17, V0_24, V0_33, Absent, Release
from dpsim_engine.comparison import Comparison, Row, ours_of


def of_row(row: Row, kind: type[Ladder]) -> tuple[Ladder, EngineConfig]:
    """Returns the class for capture sizes, and the configuration of a row.

    Fields have vLLM's names. Nothing validates them, because some rows have a smaller token budget than an engine may
    have.
    """
    config = dict(row["config"])
    blackwell = config.pop("blackwell")
    config["cudagraph_mode"] = CUDAGraphMode(config["cudagraph_mode"])
    return kind(1024 if blackwell and issubclass(kind, Ladder033) else 512), EngineConfig().model_copy(update=config)


def answered(row: Row, kind: type[Ladder]) -> Row:
    rungs, config = of_row(row, kind)
    answer: Row = {}
    for name, sizes in (("config_time", rungs.configured), ("v1_runner", rungs.sizes)):
        try:
            held = sizes(config)
        except ValueError:
            refused = {"raises": "ValueError"}
            return answer | {name: refused} if answer else refused
        answer[name] = {"sizes": list(held), "max": max(held, default=0)}
    return answer


def expected(row: Row) -> Row:
    answer: Row = row["answer"]
    return answer


def ladder_of(release: Release) -> type[Ladder] | Absent:
    return release.dispatcher if isinstance(release.dispatcher, Absent) else type(release.dispatcher.ladder)


LADDER: Comparison[type[Ladder]] = Comparison(
    "ladder",
    "ladder",
    "vllm.config.vllm.VllmConfig._set_cudagraph_sizes",
    ours_of(ladder_of, V0_17, V0_24, V0_33),
    answered,
    expected,
    piece=ladder_of,
)
