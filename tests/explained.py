"""Explains a folder of recordings, as `dpsim explain` does."""

from __future__ import annotations

from pathlib import Path

from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.recordings.job import recorded_job
from dpsim.diagnose.recordings.judging import judge_recorded


def explain_recordings(folder: Path) -> Explanation:
    """Returns the explanation of a folder of recordings. Raises RecordingError."""
    return judge_recorded(recorded_job(folder))
