"""A file of a released wheel of vLLM, byte for byte, kept between runs.

    dp_utils("0.33.0")          # FOLDER/0.33.0/dp_utils.py

The folder is the one that DPSIM_WHEELS names, or lies among temporary files. pip brings a wheel, of which one file is
kept. Where no index has it, the test is skipped. A file with other bytes than the release has is an error.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

FILE = "vllm/v1/worker/dp_utils.py"
DIGESTS = {
    "0.14.0": "1c5e8c6796c67df3db555eebb327dab05d7c277caa923e8f4a9dbb341328d84a",
    "0.17.0": "c143caaa4f649f8395d783dfdeb86bf722efd154cda13cf3e70441c56eea3f25",
    "0.24.0": "2ba84bbf92a25e756576918bfb215c1fb387b006899885d811bdb2f774e843a9",
    "0.33.0": "974e3b0b7aed92854e8dda5a86ed0d0a655f87a8e1e0139412e93ea982c4ade9",
}
"""By release: the SHA-256 of the file."""


def folder() -> Path:
    return Path(os.environ.get("DPSIM_WHEELS") or Path(tempfile.gettempdir()) / "dpsim-wheels")


def dp_utils(release: str) -> Path:
    """The file of a release. Skips the test where no index has the wheel."""
    kept = folder() / release / Path(FILE).name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as place:
            wanted = [f"vllm=={release}", "--no-deps", "--only-binary", ":all:", "--dest", place]
            got = subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", *wanted], capture_output=True, check=False
            )
            if got.returncode:
                pytest.skip(f"no index has the wheel of vLLM {release}")
            [wheel] = Path(place).glob("*.whl")
            found = Path(place) / kept.name
            found.write_bytes(zipfile.ZipFile(wheel).read(FILE))
            found.replace(kept)  # at once: another process may look for it
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert digest == DIGESTS[release], f"{kept} is not the file of release {release}; remove it"
    return kept
