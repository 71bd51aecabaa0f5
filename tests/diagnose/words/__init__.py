"""Tests the sentences of facts.

test_template.py   how a row of the tables is filled
test_told.py       the facts of a finding as text and as JSON
"""
