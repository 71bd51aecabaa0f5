"""Packages that vLLM imports and its pure functions do not call: modules of which each name is an empty class.

    absent()                      # from here on `import transformers` finds such a module
    import vllm.config

A package that is installed stays as it is. A name that is not listed stays absent, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAMES = frozenset(
    word
    for line in (
        "PIL aiohttp anthropic anyio blake3 cachetools cbor2 certifi cloudpickle compressed_tensors cpuinfo cv2 depyf",
        "diskcache distro einops fastapi gguf google httpx huggingface_hub idna ijson jiter jsonschema lark llguidance",
        "lmformatenforcer mcp mistral_common multidict numba openai openai_harmony opentelemetry orjson oss_harmony",
        "outlines_core partial_json_parser prometheus_client psutil pybase64 pythonjsonlogger regex requests",
        "safetensors sentencepiece setproctitle starlette tiktoken tokenizers torchaudio torchvision tqdm transformers",
        "urllib3 uvloop watchfiles xgrammar yarl zmq",
    )
    for word in line.split()
)


class _Kind(type):
    """A class of an absent package: its own names are such classes, too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return kind(name)

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


class _Base(metaclass=_Kind):
    """What any such class takes: arguments, a type in brackets, a call as a decorator."""

    def __init__(self, *told: Any, **named: Any) -> None:
        """No argument is kept."""

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __call__(self, *told: Any, **named: Any) -> Any:
        return told[0] if told and callable(told[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return kind(name)()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()


def kind(name: str) -> Any:
    """An empty class of this name."""
    return _Kind(name, (_Base,), {})


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = kind(name)
        setattr(self, name, found)
        return found


class _Finder(MetaPathFinder, Loader):
    """The last that is asked: modules below the listed names."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in NAMES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made = _Module(spec.name)
        made.__path__ = []
        vars(made)["__version__"] = "99.0"
        return made

    def exec_module(self, module: ModuleType) -> None:
        """There is no code."""


def absent() -> None:
    """Put the modules, and their versions, where imports look."""
    known = metadata.version

    def version(distribution_name: str) -> str:
        try:
            return known(distribution_name)
        except metadata.PackageNotFoundError:
            if distribution_name.replace("-", "_") in NAMES:
                return "99.0"
            raise

    sys.meta_path.append(_Finder())
    metadata.version = version
