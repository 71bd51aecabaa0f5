"""Generates docs/vllm-flags.md, from the tables that `dpsim scenario from-vllm` uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpsim.vllm.from_vllm import environment
from dpsim.vllm.from_vllm.flags import FLAGS, CommandFlag, Verdict
from dpsim.vllm.from_vllm.nested import KEYS
from dpsim.vllm.from_vllm.rules import RULES

_TAKES = {"switch": "", "value": " VALUE", "optional": " [VALUE]", "values": " VALUE...", "json": " JSON"}

_HEAD = """\
# How dpsim reads vLLM's flags

    dpsim scenario from-vllm "vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --enable-expert-parallel" -o v3.yaml
    dpsim scenario from-vllm - < serve.sh        # the commands of all nodes of a deployment

`python -m tests.vllm.reference` writes this page from the table that `dpsim scenario from-vllm` uses. A flag may have
underscores instead of dashes, and `=` before its value. A switch `--x` has a form `--no-x`, and a flag with a JSON
value also accepts `--flag.key value`. The command refuses a flag that is in none of the tables, and names it.
`docs/from_vllm` contains command lines from vLLM's documentation, each with its scenario.
"""

_ABOUT: tuple[tuple[Verdict, str, str], ...] = (
    ("used", "Used", "The field of the scenario that it sets"),
    ("checked", "Checked, without further effect", "Subject, and why it has no further effect"),
    ("refused", "Refused", "Reason"),
)


def page() -> str:
    return "\n".join([_HEAD, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    for verdict, title, about in _ABOUT:
        yield f"## {title}\n\n| flag | {about.lower()} |\n|---|---|"
        yield from (f"| {_spelled(flag)} | {flag.about} |" for flag in FLAGS if flag.verdict == verdict)
        yield ""
    yield "## Ignored\n\n| reason | flags |\n|---|---|"
    ignored = [flag for flag in FLAGS if flag.verdict == "ignored"]
    for reason in dict.fromkeys(flag.about for flag in ignored):
        yield f"| {reason} | {_joined(_spelled(flag) for flag in ignored if flag.about == reason)} |"
    yield "\n## Keys of flags with JSON\n\n| flag | use | keys |\n|---|---|---|"
    for field, keys in KEYS.items():
        for fate in dict.fromkeys(keys.values()):
            fate_text = fate if ":" in fate else f"ignored: {fate}"
            named = _joined(f"`{key}`" for key, one in keys.items() if one == fate)
            yield f"| `--{field.replace('_', '-')}` | {fate_text} | {named} |"
    yield "\n## Variables before the command\n\n| variable | use |\n|---|---|"
    yield from (f"| `{name}` | used: as `--{field.replace('_', '-')}` |" for name, field in environment.USED.items())
    yield from (f"| `{name}` | refused: {why} |" for name, why in environment.REFUSED.items())
    yield f"| any other | ignored: {environment.OTHER} |"
    yield "\n## Rules by which vLLM itself refuses a command\n\n| class of vLLM | rule |\n|---|---|"
    yield from (f"| {rule.owner} | {rule.says} |" for rule in RULES)
    yield "| VllmConfig | PIECEWISE graphs need compilation mode VLLM_COMPILE |"


def _spelled(flag: CommandFlag) -> str:
    return f"`{' '.join(flag.names)}{_TAKES[flag.takes]}`"


def _joined(words: Iterable[str]) -> str:
    return "<br>".join(words)
