"""The simulated machine: ranks, streams and collectives as one graph of operations on SimPy's clock."""

from dpsim.backend.call_site import own_code

own_code(__name__, "simpy")
