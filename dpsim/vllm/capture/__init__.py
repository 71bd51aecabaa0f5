"""How a rank captures forwards of a model into CUDA graphs, and replays them (specification 5.6 to 5.9).

wrapper.py      a part of the model that a rank captures once for each batch size, and then replays
session.py      the captures before serving, and their order
offloader.py    weights that a rank copies to the device just before their layer needs them
registration.py an all-reduce whose kernel reads the buffers of its peers

`dpsim.vllm.graphs` computes which graphs there are, and which graph a batch runs in. Data-parallel steps and pipeline
stages both capture, and use this package for it.
"""
