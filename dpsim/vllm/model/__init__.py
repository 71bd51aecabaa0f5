"""The stand-in for the language model: integer arithmetic with the same result on every backend.

kernels.py   its arithmetic, and the kernels that compute it on a device
arrays.py    helpers of kernels that work on numpy and torch alike
rows.py      a simpler model for steps without a cache: each token of a batch is one number in a row
oracle.py    the expected tokens of a request, computed on the host
compared.py  names the step of a batch in an error, and the step in which the rank raises the error
"""
