"""Environment variables before a command: the translation uses the few that concern coordination, and ignores others.

    VLLM_ALL2ALL_BACKEND=deepep_low_latency vllm serve ...

An environment variable overrides the flag of the same setting (specification chapter 8.0). The translation refuses a
name that is similar to a known one, because vLLM would only print a warning about a misspelt variable.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from dpsim.scenario.errors import ScenarioError
from dpsim.vllm.releases import of_name

USED = {"VLLM_ALL2ALL_BACKEND": "all2all_backend"}
"""Variables that replace a flag. Release 0.33 reads none of them."""

REFUSED = {
    **dict.fromkeys(
        ("VLLM_DP_SIZE", "VLLM_DP_RANK", "VLLM_DP_RANK_LOCAL", "VLLM_DP_MASTER_IP", "VLLM_DP_MASTER_PORT"),
        "it is for ranks that a program of yours starts; expected --data-parallel-size",
    ),
    "VLLM_USE_V1": "engine V0 has no such protocols",
}
"""Variables that would make a deployment that dpsim does not model, with the reasons. VLLM_USE_V1=1 is allowed."""

RUNNER = "the release determines the runner, see --release"
OTHER = "of the environment, such as kernels, logs and devices"


def read_environment(
    environment: Mapping[str, str], ignored: dict[str, str], release: str | None
) -> dict[str, tuple[str, str]]:
    """Returns settings, each with its variable and value; adds others to `ignored`.

    Raises ScenarioError for a refused variable, and for a name that is similar to a known one.
    """
    record, found = of_name(release), dict[str, tuple[str, str]]()
    for name, value in environment.items():
        if name in USED and not (record is None or record.variables):
            ignored[name] = f"of releases before {release}; expected --{USED[name].replace('_', '-')}"
        elif name in USED:
            found[USED[name]] = name, value
        elif name in REFUSED and (name, value) != ("VLLM_USE_V1", "1"):
            raise ScenarioError(f"{name}={value} cannot be used: {REFUSED[name]}")
        else:
            _refuse_misspelt(name)
            ignored[name] = RUNNER if name == "VLLM_USE_V2_MODEL_RUNNER" else OTHER
    return found


def _refuse_misspelt(name: str) -> None:
    for known in (*USED, *REFUSED):
        if name not in REFUSED and difflib.SequenceMatcher(None, name, known).ratio() > 0.92:
            raise ScenarioError(f"unknown variable {name}; did you mean {known!r}?")
