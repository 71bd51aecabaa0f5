"""Python imports this module as it starts, where its folder is in PYTHONPATH: the recorder begins, if it is asked for.

Another `sitecustomize` of the environment runs as before. A job whose Python has no dpsim is recorded, too: the folder
of this package comes last in its path.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

HERE = os.path.dirname(os.path.abspath(__file__))


def run_the_other() -> None:
    """The environment's own `sitecustomize`."""
    path = [folder for folder in sys.path if os.path.abspath(folder or ".") != HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def begin() -> None:
    """Record this process, if the environment says where to."""
    folder = os.environ.get("DPSIM_RECORD")
    if not folder:
        return
    root = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    if root not in sys.path:
        sys.path.append(root)
    try:
        from real.record.installing import install_when_imported

        install_when_imported(folder)
    except Exception as error:  # the job matters more than its recording
        print(f"dpsim: this process is not recorded: {type(error).__name__}: {error}", file=sys.stderr)


run_the_other()
begin()
