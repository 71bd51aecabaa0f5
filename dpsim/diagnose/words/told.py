"""Told: a finding with texts in place of its facts, and the facts as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpsim.checks.finding import Fact, Finding, Part
from dpsim.contract.ops import Record
from dpsim.contract.words import step_words, with_services
from dpsim.contract.world import Run, World
from dpsim.diagnose.words.template import text


@dataclass(frozen=True)
class Told(Finding):
    """A finding whose parts are texts, with names of services and words for special step numbers. `of`: the finding
    with its facts, for a reader that needs a value.
    """

    message: str
    details: tuple[str, ...] = ()
    ground: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    why: str = ""
    of: Finding = field(kw_only=True)

    @property
    def grounds(self) -> tuple[str, ...]:
        return self.ground or ((self.why,) if self.culprit is not None and self.why else ())


def told(run: Run | World, finding: Finding) -> Told:
    """Returns the finding as text. `run` names the services."""

    def line(part: Part) -> str:
        return in_words(run, text(part))

    details, ground, waits = (tuple(map(line, parts)) for parts in (finding.details, finding.ground, finding.waits))
    head = (finding.check, finding.klass, line(finding.message), finding.culprit, finding.position)
    return Told(*head, details, ground, waits, finding.ops, line(finding.why), of=finding)


def in_words(run: Run | World, line: str) -> str:
    """Returns a text with names of services, and with words for special step numbers."""
    return step_words(with_services(line, run.size, run.services))


def facts_json(finding: Finding) -> list[dict[str, Any]]:
    """Returns the facts of a finding as JSON data, each with the part (`in`) that says it. Sentences are left out."""
    named = [(name, getattr(finding, name)) for name in ("message", "details", "ground", "waits", "why")]
    parts = [(name, part) for name, own in named for part in (own if isinstance(own, tuple) else (own,))]
    return [{"in": name, **_json(part)} for name, part in parts if isinstance(part, Fact)]


def _json(value: Any) -> Any:
    if isinstance(value, Fact):
        return {"fact": value.name, **{name: _json(one) for name, one in value.values}}
    if isinstance(value, Record):
        return {name: _json(one) for name, one in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [_json(one) for one in value]
    return value if isinstance(value, int | float | str | None) else str(value)
