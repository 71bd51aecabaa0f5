"""The order of a run's accesses, rebuilt from its journals."""
