"""Who is blamed: random worlds of vLLM's programs with one planted fault each, and the culprit that the checks name.

families.py     seven families of random worlds
plants.py       a random fault at a random record of a healthy run
campaign.py     one world judged, many worlds counted; the command that prints the table
museum.py       class, rank, site and place that reports of the museum name; the command that prints them
labels.py       what labels.yaml says of such a report: right, first seen, both sides, undecided or other
kinds.py        twelve kinds of trouble, with their reports in reports/
test_kinds.py   which say what these files say
test_museum.py  what they have to name
test_campaign.py  the figures that the checks have to reach
test_own_dummy.py  idle ranks that ignore the agreed plan are no majority
test_dumps.py   the same of flight recorder dumps made of such worlds
"""
