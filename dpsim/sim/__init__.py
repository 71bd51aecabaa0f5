"""The simulated machine: ranks, streams and collectives as one graph of operations on SimPy's clock."""
