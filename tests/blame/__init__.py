"""Tests whom the checks blame in protocols of many kinds, which are drawn without knowledge of the checks.

drawn.py     a protocol with drawn parameters: the interface of a kind
kinds/       kinds of protocols, a file each
kinds_held/  more kinds, by an author who has not seen the checks; their figures stand alone
"""
