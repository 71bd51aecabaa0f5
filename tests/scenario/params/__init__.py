"""Tests of protocols whose parameters are a pydantic model.

protocols.py         protocols with parameters of every kind
test_models.py       models as users write them: aliases, unions, validators that raise
test_scenario.py     scenarios with parameters: read, refused, written, run
test_per_rank.py     a value for each rank
test_shapes.py       the values that a field can have
"""
