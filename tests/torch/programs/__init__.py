"""Programs of torch.distributed. Tests run them as targets `FILE.py:function`, with arguments rank and size."""
