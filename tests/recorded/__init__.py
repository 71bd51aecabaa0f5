"""Calls of jobs as programs of the contract."""
