"""Twenty mistakes of a user who writes a first protocol, and docs/mistakes.md, which shows what dpsim prints.

mistakes.py   the mistakes: a few lines of a small protocol each
page.py       runs them, and writes the page
"""
