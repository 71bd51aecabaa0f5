"""Tests whom the checks blame in protocols of many kinds, which are drawn without knowledge of the checks.

    drawn.py     a protocol with drawn parameters: the interface of a kind
    kinds/       kinds of protocols, a file each
    kinds_held/  more kinds, by an author who has not seen the checks; their figures stand alone
    plants.py    plants one mistake at a random op of a healthy run
    bent.py      runs a program with a mistake that is no fault of the contract, such as a lost message
    cases.py     yields drawn programs, their runs with one mistake, and what a judge says
    tables.py    counts verdicts; the command of each campaign
    reaches.py   the shares that a campaign has to reach
    campaign.py  the campaign of these kinds; a command that prints the table

Each protocol gets one mistake, which is the truth that a verdict is compared with.
"""
