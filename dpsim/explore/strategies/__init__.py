"""Strategies, one a file: which schedule comes next."""
