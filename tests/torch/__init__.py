"""Tests of exploring programs of torch.distributed.

`programs/` has the programs. Only the processes of ranks import them.
"""
