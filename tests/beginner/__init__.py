"""Mistakes that a user makes in a first protocol, and the generator of docs/mistakes.md, which shows dpsim's reports.

mistakes.py   the mistakes: a few lines of a small protocol each
page.py       runs the mistakes and writes the page
"""
