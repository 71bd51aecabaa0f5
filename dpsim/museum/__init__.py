"""Variants of the protocol: mutants of the specification and historical bugs, each beside its healthy twin.

One file an area. Nothing imports them but the registry, by name; checks never do.
"""
