"""Starts the recorder. Python imports this module when it starts, because `dpsim record` adds its folder to PYTHONPATH.

If the environment has another `sitecustomize`, it runs as well. A job whose Python has no dpsim is recorded, too: the
folder of this package is the last entry of its path. The recorder itself is imported together with torch.distributed,
so other processes of the job start as fast as without it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

FIRST = "torch.distributed.distributed_c10d"
HERE = os.path.dirname(os.path.abspath(__file__))


def run_the_other() -> None:
    """Runs the environment's own `sitecustomize`."""
    path = [folder for folder in sys.path if os.path.abspath(folder or ".") != HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class BringsRecorder:
    """Imports the recorder when the process imports torch.distributed."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != FIRST:
            return None
        sys.meta_path.remove(self)
        root = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
        if root not in sys.path:
            sys.path.append(root)
        try:
            from real.record.installing import install_when_imported

            return install_when_imported(self.folder).find_spec(name, path, target)
        except Exception as error:  # an error of the recorder must not stop the job
            print(f"dpsim: this process is not recorded: {type(error).__name__}: {error}", file=sys.stderr)
            return None


run_the_other()
if os.environ.get("DPSIM_RECORD"):
    sys.meta_path.insert(0, BringsRecorder(os.environ["DPSIM_RECORD"]))
