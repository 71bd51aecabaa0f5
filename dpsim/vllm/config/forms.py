"""The parallel configuration of each release, by name, and its construction from sizes and settings.

    source-003   release 0.14.0, with its two defects in counting nodes
    0.33         release 0.33: more rules and fields, and nodes that must divide exactly
    exact-nodes  source-003 without the defects: it refuses the nodes that source-003 counts wrongly

    >>> from dpsim.vllm.config.topology import Topology
    >>> made = parallel_config(FORMS["0.33"], Topology(data_parallel_size=2), ParallelSettings(), Surroundings())
    >>> made.release, made.world_size_across_dp
    ('0.33.0', 2)

Source: specification chapter 8 (the configuration).
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from dpsim.vllm.config.fields import ParallelSettings, Settings033
from dpsim.vllm.config.parallel import RULE, ExactNodes, ParallelConfig
from dpsim.vllm.config.parallel_033 import ParallelConfig033
from dpsim.vllm.config.rules import Broken
from dpsim.vllm.config.surroundings import Surroundings
from dpsim.vllm.config.topology import ParallelSizes

FORMS: dict[str, type[ParallelConfig]] = {
    "source-003": ParallelConfig,
    "0.33": ParallelConfig033,
    "exact-nodes": ExactNodes,
}
"""The classes by name; the first one is the default. Release records (`dpsim.vllm.releases`) refer to the classes."""


def add_rules(name: str, form: type[ParallelConfig]) -> None:
    """Registers a class by name, unless it has a name already; `config.parallel_rules` then accepts this name."""
    if form not in FORMS.values():
        FORMS[name] = form


def rules_of(form: type[ParallelConfig]) -> str:
    """Returns the name of a class."""
    return next(name for name, one in FORMS.items() if one is form)


def parallel_config(
    form: type[ParallelConfig], sizes: ParallelSizes, settings: ParallelSettings, around: Surroundings
) -> ParallelConfig:
    """Returns the parallel configuration of class `form` with these sizes and settings.

    Raises ValidationError for a broken rule, and for a setting that the class lacks, unless it has its default.
    """
    fields: dict[str, Any] = {}
    known, later = form.model_fields, Settings033.model_fields
    for part in (sizes, settings):
        for name, field in type(part).model_fields.items():
            value = getattr(part, name)
            if name in known or (name in later and value != field.get_default()):
                fields[name] = value
    return form.model_validate(fields, context=around)


def broken_in(error: ValidationError) -> list[Broken]:
    """Returns the broken rules that an error contains. A field that the class does not have counts as a broken rule."""
    return [found for detail in error.errors() for found in _broken(detail)]


def _broken(detail: Any) -> tuple[Broken, ...]:
    if detail["type"] == RULE:
        broken: tuple[Broken, ...] = detail["ctx"]["broken"]
        return broken
    name = ".".join(map(str, detail["loc"]))
    what = (
        "its default, as the release whose rules hold has no such field; config.parallel_rules names it"
        if detail["type"] == "extra_forbidden"
        else detail["msg"]
    )
    return (Broken(name, detail["input"], what),)
