"""The folder that a recorded job has in PYTHONPATH.

sitecustomize.py   what Python imports as it starts
"""
