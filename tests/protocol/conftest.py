"""Make `naive_batch`, which lies one folder up, importable from here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
