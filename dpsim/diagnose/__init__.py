"""From findings to words that somebody can act on."""
