"""Runs unmodified files of vLLM as programs of torch.distributed, and compares them with the model of that release."""
