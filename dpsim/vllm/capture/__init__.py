"""How a rank captures forwards of a model into CUDA graphs, and replays them (specification 5.6 to 5.9).

wrapper.py      a part of the model that a rank captures once for each batch size, and then replays
session.py      the captures before serving, and their order
offloader.py    weights that a rank copies to the device just before their layer needs them
registration.py an all-reduce whose kernel reads the buffers of its peers
"""
