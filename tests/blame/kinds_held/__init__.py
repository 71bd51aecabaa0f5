"""Kinds of protocols whose author has not seen the checks. Each module has a function `draw` (`tests.blame.drawn`)."""
