"""The stand-in for the model: integer arithmetic, the same on numpy and torch, and its oracle."""
