"""The forms of the parallel configuration, by name, and how sizes and settings become one.

    source-003   release 0.14.0: what it accepts is accepted, its two defects in counting nodes included
    0.33         release 0.33: more rules and fields, and nodes that have to divide exactly
    exact-nodes  source 003 that refuses the nodes which it would miscount: its healthy twin

    >>> from dpsim.vllm.config.topology import Topology
    >>> made = parallel_config(FORMS["0.33"], Topology(data_parallel_size=2), ParallelSettings(), Surroundings())
    >>> made.release, made.world_size_across_dp
    ('0.33.0', 2)

Source: specification chapter 8.
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
"""By name; the first is the default. Records of releases (`dpsim.vllm.releases`) refer to the classes."""


def add_rules(name: str, form: type[ParallelConfig]) -> None:
    """Make a form known by name, unless it has one already: `config.parallel_rules` then accepts it."""
    if form not in FORMS.values():
        FORMS[name] = form


def rules_of(form: type[ParallelConfig]) -> str:
    """The name of a form."""
    return next(name for name, one in FORMS.items() if one is form)


def parallel_config(
    form: type[ParallelConfig], sizes: ParallelSizes, settings: ParallelSettings, around: Surroundings
) -> ParallelConfig:
    """The configuration that sizes and settings make in a form. Raises ValidationError: settings that the form does not
    know and that are not their defaults are refused, as by a command line.
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
    """The broken rules that an error tells of; a field that the form does not know is one, too."""
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
