"""Downloads Python files of released vLLM wheels, and keeps them between runs.

    dp_utils("0.33.0")          # FOLDER/0.33.0/dp_utils.py
    unpacked("0.33.0")          # FOLDER/0.33.0/site

The folder is DPSIM_WHEELS, or a folder in the system's temporary folder. pip downloads a wheel, and its Python files
stay there. If no package index provides the wheel, the test is skipped. A `dp_utils.py` whose SHA-256 differs from that
of the release is an error.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

FILE = "vllm/v1/worker/dp_utils.py"
DIGESTS = {
    "0.14.0": "1c5e8c6796c67df3db555eebb327dab05d7c277caa923e8f4a9dbb341328d84a",
    "0.17.0": "c143caaa4f649f8395d783dfdeb86bf722efd154cda13cf3e70441c56eea3f25",
    "0.24.0": "2ba84bbf92a25e756576918bfb215c1fb387b006899885d811bdb2f774e843a9",
    "0.33.0": "974e3b0b7aed92854e8dda5a86ed0d0a655f87a8e1e0139412e93ea982c4ade9",
}
"""The SHA-256 of the file in each release."""


def folder() -> Path:
    return Path(os.environ.get("DPSIM_WHEELS") or Path(tempfile.gettempdir()) / "dpsim-wheels")


def dp_utils(release: str) -> Path:
    """Returns the file of a release. Skips the test if no package index provides the wheel."""
    kept = folder() / release / Path(FILE).name
    if not kept.exists():
        found = unpacked(release) / FILE
        kept.write_bytes(found.read_bytes())
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert digest == DIGESTS[release], f"{kept} is not the file of release {release}; remove it"
    return kept


def unpacked(release: str) -> Path:
    """Returns a folder with the Python files and metadata of a release.

    Skips the test if no package index provides the wheel.
    """
    kept = folder() / release / "site"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as place:
            wanted = [f"vllm=={release}", "--no-deps", "--only-binary", ":all:", "--dest", place]
            got = subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", *wanted], capture_output=True, check=False
            )
            if got.returncode:
                pytest.skip(f"no index has the wheel of vLLM {release}")
            [file] = Path(place).glob("*.whl")
            found = Path(place) / "site"
            with zipfile.ZipFile(file) as wheel:
                for name in wheel.namelist():
                    if name.endswith(".py") or name.endswith(".dist-info/METADATA"):
                        wheel.extract(name, found)
            with suppress(OSError):  # another process has already created it
                found.rename(kept)  # atomic, because another process may look for it
    return kept
