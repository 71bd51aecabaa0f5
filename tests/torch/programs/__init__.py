"""Programs of torch.distributed that tests run as targets: `FILE.py:function`, with rank and size."""
