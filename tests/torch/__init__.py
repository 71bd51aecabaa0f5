"""Programs of torch.distributed under the explorer.

`programs/` has the programs. Only the processes of ranks import them.
"""
