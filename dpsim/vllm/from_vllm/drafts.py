"""Speculative decoding in a scenario: translates `--speculative-config`.

For the coordination of ranks there are two kinds of proposers of draft tokens. If the host proposes drafts (n-grams,
suffixes), ranks run no additional layers. If a drafter model does (MTP, EAGLE), all ranks run its layers after those of
the target model, and agree on their token counts.

    >>> from dpsim.vllm.from_vllm.read import read
    >>> said = '{"method": "eagle3", "num_speculative_tokens": 3}'
    >>> settings = read(["vllm", "serve", "m", "--speculative-config", said])
    >>> drafts(settings).config
    {'num_speculative_tokens': 3, 'speculative_method': 'mtp'}

Sources: vLLM's `SpeculativeConfig`; specification chapters 1.2 (state of the agreement) and 10.3 (further agreements).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.contract.words import did_you_mean
from dpsim.scenario.errors import ScenarioError, shown
from dpsim.vllm.from_vllm.read import Settings

HOST = ("ngram", "ngram_gpu", "suffix")
ON_DEVICE = ("ngram_gpu",)
"""Methods of `HOST` that nevertheless propose on the device, so that scheduling can run ahead."""
HEADS = ("medusa", "mlp_speculator")
DRAFTERS = ("eagle", "eagle3", "draft_model")


class Drafts(NamedTuple):
    """`config`: fields of the scenario. `notes`: remarks about methods that the scenario replaces by another kind."""

    config: dict[str, Any]
    notes: tuple[str, ...] = ()


def drafts(settings: Settings) -> Drafts:
    """Raises ScenarioError for an unknown method, and for settings without a number of draft tokens."""
    given = {name: value for name, value in settings.values.items() if name.startswith("speculative_config.")}
    if not given:
        return Drafts({})
    method = given.get("speculative_config.method") or _method_of(str(given.get("speculative_config.model", "")))
    number = given.get("speculative_config.num_speculative_tokens")
    if number is None:
        raise ScenarioError(
            "--speculative-config has no num_speculative_tokens; expected a number, as its default depends on the model"
        )
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ScenarioError(
            f"--speculative-config: num_speculative_tokens: expected a whole number from 1, got {shown(number)}"
        )
    kind, notes = _kind(str(method))
    config: dict[str, Any] = {"num_speculative_tokens": number, "speculative_method": kind}
    if (longest := given.get("speculative_config.max_model_len")) is not None:
        config["speculative_max_model_len"] = longest
    return Drafts(config, notes)


def _method_of(model: str) -> str:
    name = model.lower()
    for part, method in (("eagle3", "eagle3"), ("eagle", "eagle"), ("ngram", "ngram")):
        if part in name:
            return method
    raise ScenarioError("--speculative-config has no method; expected one such as mtp, eagle3, draft_model or ngram")


def _kind(method: str) -> tuple[str, tuple[str, ...]]:
    if method in HOST:
        return "ngram", () if method == "ngram" else (
            f"speculative method {method} as ngram: the host proposes drafts",
        )
    if method in HEADS:
        return "ngram", (f"speculative method {method} as ngram: ranks agree on none of its heads",)
    if method == "mtp" or method.endswith("_mtp"):
        return "mtp", ()
    if method in DRAFTERS:
        return "mtp", (f"speculative method {method} as mtp: ranks agree on its layers, which have experts in dpsim",)
    known = (*HOST, *HEADS, "mtp", *DRAFTERS)
    expected = f"expected one of {', '.join(known)}{did_you_mean(method, known)}"
    raise ScenarioError(f"--speculative-config: unknown method {method!r}; {expected}")
