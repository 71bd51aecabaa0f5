"""Tests that the checks name the right culprit, in random worlds of vLLM's programs with one planted fault each.

A world is a program with fixed parameters and faults.

    families.py     seven families of random worlds
    plants.py       plants a random fault at a random record of a healthy run
    campaign.py     judges one world; a command that prints a table of many (tests/blame/tables.py)
    repaired.py     counts how often a run holds with a change of the named culprit, and of another rank
    museum.py       compares the report of each exhibit of the museum with its label; a command that prints them
    labels.py       whom labels.yaml declares guilty: is a report right, first seen, both sides, undecided or other?
    kinds.py        twelve kinds of trouble; their reports are in reports/
    test_kinds.py   compares the reports with those files
    test_museum.py  the share of exhibits whose reports have to name the right class, rank and site
    test_campaign.py  the shares that the checks have to reach in each family
    test_own_dummy.py  idle ranks that ignore the agreed plan are no majority
    test_dumps.py   the same for flight recorder dumps that are made of such worlds
"""
