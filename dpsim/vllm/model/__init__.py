"""The stand-in for the model: integer arithmetic, exact on every backend.

kernels.py   its arithmetic, and the kernels that compute it on a device
arrays.py    helpers of kernels besides arithmetic, the same on numpy and torch
rows.py      tokens of a batch as rows that ranks add up, for a step without a cache
oracle.py    the same model for one request, a token at a time, without a device
"""
