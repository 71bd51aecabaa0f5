"""The proposer of tokens: `--speculative-config`, as far as ranks notice it.

Two kinds matter. If the host proposes (n-grams, suffixes), ranks run no further layers. If a drafter does (MTP,
EAGLE, a small model), all ranks run its layers after the target's, and agree on the number of tokens.

    >>> from dpsim.vllm.from_vllm.read import read
    >>> said = '{"method": "eagle3", "num_speculative_tokens": 3}'
    >>> settings = read(["vllm", "serve", "m", "--speculative-config", said])
    >>> drafts(settings).config
    {'num_speculative_tokens': 3, 'speculative_method': 'mtp'}

Sources: vLLM's `SpeculativeConfig`; specification chapters 1.2 and 10.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.contract.words import did_you_mean
from dpsim.scenario.errors import ScenarioError, shown
from dpsim.vllm.from_vllm.read import Settings

HOST = ("ngram", "ngram_gpu", "suffix")
ON_DEVICE = ("ngram_gpu",)
"""Those of `HOST` that propose on the device in spite of it, so that scheduling can run ahead."""
HEADS = ("medusa", "mlp_speculator")
DRAFTERS = ("eagle", "eagle3", "draft_model")


class Drafts(NamedTuple):
    """`config`: fields of the scenario. `notes`: settings that were taken as something else."""

    config: dict[str, Any]
    notes: tuple[str, ...] = ()


def drafts(settings: Settings) -> Drafts:
    """The drafts of a command. Raises ScenarioError for a method that is unknown, or has no number of tokens."""
    given = {name: value for name, value in settings.values.items() if name.startswith("speculative_config.")}
    if not given:
        return Drafts({})
    method = given.get("speculative_config.method") or _method_of(str(given.get("speculative_config.model", "")))
    number = given.get("speculative_config.num_speculative_tokens")
    if number is None:
        raise ScenarioError(
            "--speculative-config has no num_speculative_tokens; expected it: only the model knows what it is otherwise"
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
    """The method that vLLM chooses for a model without one, if its name decides it."""
    name = model.lower()
    for part, method in (("eagle3", "eagle3"), ("eagle", "eagle"), ("ngram", "ngram")):
        if part in name:
            return method
    raise ScenarioError("--speculative-config has no method; expected one such as mtp, eagle3, draft_model or ngram")


def _kind(method: str) -> tuple[str, tuple[str, ...]]:
    """dpsim's kind of a method, and the notes about it."""
    if method in HOST:
        return "ngram", () if method == "ngram" else (f"speculative method {method} as ngram: the host proposes",)
    if method in HEADS:
        return "ngram", (f"speculative method {method} as ngram: ranks agree on none of its heads",)
    if method == "mtp" or method.endswith("_mtp"):
        return "mtp", ()
    if method in DRAFTERS:
        return "mtp", (f"speculative method {method} as mtp: ranks agree on its layers; here these have experts",)
    known = (*HOST, *HEADS, "mtp", *DRAFTERS)
    expected = f"expected one of {', '.join(known)}{did_you_mean(method, known)}"
    raise ScenarioError(f"--speculative-config: unknown method {method!r}; {expected}")
