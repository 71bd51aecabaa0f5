"""Translates a command line of vLLM to a scenario, with remarks about the flags.

    >>> translated = from_vllm("vllm serve org/model -dp 2 --enable-expert-parallel --port 80")
    >>> print(translated.text(), end="")   # doctest: +ELLIPSIS
    # Made by `dpsim scenario from-vllm` from a command line of vLLM.
    ...
    # ignored: --port: of the API server
    name: model
    ...

The program is `dp_batch` without pipeline stages, and `pp_tokens` with them, unless the user names another one
(`worlds.py`). The rules are those of the newest release, unless the user names another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from dpsim.scenario.edit import scenario_from
from dpsim.scenario.errors import ScenarioError
from dpsim.scenario.model import Scenario
from dpsim.scenario.to_world import prepare
from dpsim.scenario.yaml.writer import dump_scenario
from dpsim.vllm.config import EngineConfig, Topology
from dpsim.vllm.config.forms import rules_of
from dpsim.vllm.from_vllm.drafts import ON_DEVICE, drafts
from dpsim.vllm.from_vllm.flags import USED
from dpsim.vllm.from_vllm.graphs import graphs
from dpsim.vllm.from_vllm.nodes import by_rank, nodes
from dpsim.vllm.from_vllm.read import Settings, plain
from dpsim.vllm.from_vllm.rules import ASYNC_EXECUTORS, parallel_problems, problems
from dpsim.vllm.from_vllm.worlds import NEWEST, RACING, adapted, candidates, checked, form_of, load, main_protocol
from dpsim.vllm.releases import Absent, of_name

TITLE = "Made by `dpsim scenario from-vllm` from a command line of vLLM."
OLD_EPLB = {
    "num_redundant_experts": "num_redundant_experts",
    "eplb_window_size": "window_size",
    "eplb_step_interval": "step_interval",
    "eplb_log_balancedness": "log_balancedness",
}
SIZES = ("data_parallel_size", "pipeline_parallel_size", "tensor_parallel_size")
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class Translated(NamedTuple):
    """A scenario, and remarks about its translation, one line each."""

    scenario: Scenario
    remarks: tuple[str, ...]

    def text(self) -> str:
        """Returns the scenario as YAML, with the remarks as comments at its head."""
        head = "".join(f"# {line}\n" for line in (TITLE, *self.remarks))
        return head + dump_scenario(self.scenario)


def from_vllm(text: str, release: str | None = None, protocol: str | None = None) -> Translated:
    """Returns the scenario of a deployment.

    `text`: its command, or the commands of all its nodes, as in a shell script. `release`: the release whose rules
    apply; None is the newest one. `protocol`: the program; None is the one that runs the steps. Raises ScenarioError
    for unknown or contradictory flags, and for settings that vLLM or the program refuses.
    """
    every = nodes(text, release or NEWEST)
    settings = every[0]
    protocol = checked(protocol or main_protocol(settings.values))
    newest = [f"vLLM {NEWEST}, the newest release that dpsim models; --release selects another one"] * (release is None)
    release = release or NEWEST
    of_each = [_config(one, protocol, release) for one in every]
    config, notes = of_each[0]
    config = adapted(protocol, every, config)
    topology = {name: settings.values[name] for name in Topology.model_fields if name in settings.values}
    _refuse(every, config, topology)
    _refuse_unknown_here(settings, protocol)
    form = form_of(protocol, release)
    scenario = _scenario(settings, {"name": protocol, "form": form}, config, topology)
    own, of_ranks = by_rank(every, [each for each, _ in of_each], scenario.topology)
    if own:
        scenario = scenario_from({**dict(scenario), "config_by_rank": own})
        notes = [*notes, *of_ranks]
    notes = [*newest, *notes, *_of_environment(settings), *_of_models(every), *_of_defaults(settings, config)]
    return Translated(scenario, tuple(_remarks(every, notes)))


def all_of(text: str, release: str | None = None) -> tuple[list[Translated], list[str]]:
    """The scenarios of `--protocol all`, that of the steps first, and why it leaves out other programs."""
    sizes = nodes(text, release or NEWEST)[0].values
    first, *others = candidates(sizes)
    made, left_out = [from_vllm(text, release, first)], []
    for protocol in others:
        try:
            made.append(from_vllm(text, release, protocol))
        except ScenarioError as error:
            left_out.append(f"left out: {protocol}: {error}")
    return made, left_out


def _refuse(every: Sequence[Settings], config: Mapping[str, Any], topology: Mapping[str, Any]) -> None:
    """Wrong types pass, because the scenario reports them later."""
    found = [line for settings in every for line in problems(settings)]
    try:
        of_all, sizes = EngineConfig.model_validate(config), Topology.model_validate(topology)
        found += [line for settings in every for line in parallel_problems(settings, of_all, sizes)]
    except ValidationError:
        pass
    if found:
        raise ScenarioError("\n".join(dict.fromkeys(found)))


def _refuse_unknown_here(settings: Settings, protocol: str) -> None:
    if settings.get("prefill_context_parallel_size", 1) > 1:
        typed = settings.typed["prefill_context_parallel_size"]
        raise ScenarioError(f"{typed}: dpsim has no ranks of context parallelism; expected 1")
    for name in ("runner", "task"):
        if settings.get(name, "auto") not in ("auto", "generate"):
            raise ScenarioError(
                f"{settings.typed[name]} {settings.values[name]}: such a model generates no tokens; expected generate"
            )
    if protocol != "pp_tokens":
        return
    for name in ("enable_dbo", "ubatch_size"):
        if settings.get(name, False):
            other = f"{settings.typed['pipeline_parallel_size']} {settings.values['pipeline_parallel_size']}"
            raise ScenarioError(
                f"{settings.typed[name]} with {other}: pp_tokens has no microbatches; leave one of them out"
            )


def _config(settings: Settings, protocol: str, release: str | None) -> tuple[dict[str, Any], list[str]]:
    of_graphs, of_drafts = graphs(settings), drafts(settings)
    names = [about.partition(",")[0].removeprefix("config.") for _, about, _ in USED if about.startswith("config.")]
    config = {name: settings.values[name] for name in names if name in settings.values}
    config |= _rules(release)
    config |= {"eplb_config": eplb} if (eplb := _eplb(settings)) else {}
    config |= _fault_tolerance(settings)
    config |= of_graphs.config | of_drafts.config
    notes = [*of_graphs.notes, *of_drafts.notes]
    if protocol == "pp_tokens":
        if config.pop("enable_lora", None) is not None:
            settings.ignored[settings.typed["enable_lora"]] = "of adapters, which pp_tokens does not model"
    elif config.pop("num_gpu_blocks_override", None) is not None:
        settings.ignored[settings.typed["num_gpu_blocks_override"]] = "of memory, which is never too small in dpsim"
    if "async_scheduling" not in config and (why := _asynchronous(settings, of_drafts.config)):
        config["async_scheduling"] = True
        notes.append(why)
    tokens, most = config.get("max_num_batched_tokens"), EngineConfig().max_num_seqs
    if tokens is not None and "max_num_seqs" not in config and tokens < most:
        config["max_num_seqs"] = tokens
        notes.append(f"max_num_seqs {tokens}: the tokens of a step, which are fewer than dpsim's default {most}")
    return config, notes


def _rules(release: str | None) -> dict[str, Any]:
    record, default = of_name(release), EngineConfig.model_fields["parallel_rules"].default
    if record is None or isinstance(record.config, Absent) or rules_of(record.config) == default:
        return {}
    return {"parallel_rules": rules_of(record.config)}


def _eplb(settings: Settings) -> dict[str, Any]:
    """In older releases some keys of `eplb_config` are separate flags."""
    for flag, key in OLD_EPLB.items():
        if flag in settings.values:
            settings.put(f"eplb_config.{key}", settings.typed[flag], settings.values[flag])
    return _keys(settings, "eplb_config.")


def _fault_tolerance(settings: Settings) -> dict[str, Any]:
    """Any key switches fault tolerance on."""
    keys = _keys(settings, "fault_tolerance_config.")
    return {"enable_fault_tolerance": True, "fault_tolerance_config": keys} if keys else {}


def _keys(settings: Settings, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in settings.values.items() if name.startswith(prefix)}


def _asynchronous(settings: Settings, drafted: Mapping[str, Any]) -> str | None:
    """Asynchronous scheduling is vLLM's default since release 0.14. None: something forbids it."""
    method = settings.get("speculative_config.method", None) if drafted else None
    forbids = (
        settings.get("pipeline_parallel_size", 1) > 1,
        settings.get("distributed_executor_backend", "mp") not in ASYNC_EXECUTORS,
        settings.get("data_parallel_backend", "mp") == "ray",
        drafted.get("speculative_method") == "ngram" and method not in ON_DEVICE,
        settings.get("speculative_config.disable_padded_drafter_batch", False) is True,
    )
    return None if any(forbids) else "async_scheduling true: vLLM's default, as no other flag forbids it"


def _scenario(
    settings: Settings, protocol: Mapping[str, Any], config: Mapping[str, Any], topology: Mapping[str, Any]
) -> Scenario:
    ranks = " x ".join(f"{settings.get(name, 1)} {name.partition('_')[0]}" for name in SIZES)
    model = _NAME.sub("-", settings.model.rstrip("/").rpartition("/")[2]).strip("-")[:80] or "vllm-serve"
    sections: dict[str, Any] = {
        "name": f"{model}-{protocol['name']}" if protocol["name"] in RACING else model,
        "description": f"vllm serve {settings.model or 'MODEL'}: {ranks} parallel ranks.",
        "protocol": dict(protocol),
        "topology": dict(topology),
        "config": dict(config),
        "workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]},
    }
    try:
        whole = scenario_from(sections)
        prepare(whole)  # raises if the program refuses the configuration, whatever the workload
        longest = settings.get("max_model_len", None)
        requests = load(protocol["name"], whole.config, whole.topology.data_parallel_size, longest)
        return scenario_from({**sections, "workload": requests})
    except ScenarioError as error:
        raise ScenarioError(_with_flags(str(error).removeprefix(f"{sections['name']}: "), settings)) from None


def _with_flags(problems: str, settings: Settings) -> str:
    def flag(found: re.Match[str]) -> str:
        return f"{settings.typed.get(found[1], found[0].removesuffix(':'))}:"

    problems = re.sub(r"^protocol\.form:", "--release:", problems, flags=re.MULTILINE)
    return re.sub(r"^(?:config|topology)\.(\w+):", flag, problems, flags=re.MULTILINE)


def _of_environment(settings: Settings) -> list[str]:
    return [
        f"{variable} {plain(settings.values[name])}: it overrides {flag} {plain(value)}"
        for name, (flag, value) in settings.overruled.items()
        for variable in (settings.typed[name],)
    ]


def _of_models(every: Sequence[Settings]) -> list[str]:
    """Different models are two paths of one model, or a mistake."""
    models = list(dict.fromkeys(one.model for one in every))
    message = f"one model on all nodes: the commands name {', '.join(plain(model or 'none') for model in models)}"
    return [message] if len(models) > 1 else []


def _of_defaults(settings: Settings, config: Mapping[str, Any]) -> list[str]:
    notes = []
    default = EngineConfig()
    left = [name for name in ("max_num_seqs", "max_num_batched_tokens") if name not in config]
    if left:
        values = ", ".join(f"{name} {getattr(default, name)}" for name in left)
        notes.append(f"{values}: dpsim's defaults, as those of vLLM depend on the GPU")
    expert = settings.get("enable_expert_parallel", False)
    if settings.get("data_parallel_size", 1) == 1:
        notes.append("one replica, which agrees with no other replica")
    elif not expert:
        notes.append("a mixture of experts: replicas of a dense model would have nothing to agree on")
    return notes


def _remarks(every: Sequence[Settings], notes: Sequence[str]) -> list[str]:
    checked = {flag: why for settings in every for flag, why in settings.checked.items()}
    ignored = {flag: why for settings in every for flag, why in settings.ignored.items()}
    return [
        *(f"taken as: {note}" for note in notes),
        *(f"checked, without further effect: {line}" for line in _by_reason(checked)),
        *(f"ignored: {line}" for line in _by_reason(ignored)),
    ]


def _by_reason(flags: Mapping[str, str]) -> list[str]:
    reasons = dict.fromkeys(flags.values())
    return [f"{', '.join(flag for flag, why in flags.items() if why == reason)}: {reason}" for reason in reasons]
