"""Parameters from a pydantic model, of protocols of these tests.

protocols.py         protocols with parameters of every kind
test_scenario.py     a scenario with parameters: read, refused, written, run
test_per_rank.py     a value for each rank
test_shapes.py       what values a field can have
"""
