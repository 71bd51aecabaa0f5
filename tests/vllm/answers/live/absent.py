"""Replaces packages that vLLM imports but that its pure functions never call: each name in such a module is an empty
class.

    absent()                      # from here on `import transformers` finds such a module
    import vllm.config

An installed package stays as it is. Importing a missing package that `NAMES` does not list still fails.
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
    """The metaclass of the stand-in classes: each attribute of such a class is another empty class."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return kind(name)

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


class _Base(metaclass=_Kind):
    """Accepts what vLLM does with a class at import: arguments, a type in brackets, a call as a decorator."""

    def __init__(self, *told: Any, **named: Any) -> None:
        """Accepts any argument and keeps none."""

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
    """Returns an empty class of this name."""
    return _Kind(name, (_Base,), {})


class _Module(ModuleType):
    """A module of an absent package: each name in it is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = kind(name)
        setattr(self, name, found)
        return found


class _Finder(MetaPathFinder, Loader):
    """Finds modules of the packages in `NAMES`. It is the last in `sys.meta_path`, so that installed packages win."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in NAMES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made = _Module(spec.name)
        made.__path__ = []
        vars(made)["__version__"] = "99.0"
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing, because the stand-in module has no code."""


def absent() -> None:
    """Makes the packages in `NAMES` importable, and gives each a version in `importlib.metadata`."""
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
