"""The folder that `dpsim record` adds to a job's PYTHONPATH.

sitecustomize.py   Python imports it as it starts
"""
