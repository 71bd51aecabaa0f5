"""How forwards of a model become CUDA graphs, and run as such: wrappers, a capture session, weights that come and go.

wrapper.py      a part of the model that is captured once for each key, and replayed from then on
session.py      what is captured, in which order, before serving begins
offloader.py    weights that are copied to the device just before their layer needs them
registration.py addresses of buffers that an all-reduce of its own finds at its peers

Which graphs there are and which of them a batch runs in is `dpsim.vllm.graphs`. Both protocols capture: whatever
they share of it is here (specification 5.6 to 5.9).
"""
