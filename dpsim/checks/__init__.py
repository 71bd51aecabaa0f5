"""What must hold, one file a kind. A check folds over the journals of a `Run`, so it judges every backend alike."""

from dpsim.checks.finding import Culprit, Finding, matches

__all__ = ["Culprit", "Finding", "matches"]
