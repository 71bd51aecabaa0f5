"""Scenarios as YAML: reading with the place of every value, and writing."""
