"""How forwards of a model become CUDA graphs, and run as such: wrappers, a capture session, weights that come and go.

wrapper.py      a part of the model that a rank captures once for each key, and then replays
session.py      the captures before serving, and their order
offloader.py    weights that a rank copies to the device just before their layer needs them
registration.py an all-reduce that finds addresses of its peers' buffers

`dpsim.vllm.graphs` decides which graphs there are, and in which of them a batch runs. Both protocols capture, and this
package has the common part (specification 5.6 to 5.9).
"""
