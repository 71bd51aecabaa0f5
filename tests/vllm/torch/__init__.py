"""Files of vLLM, byte for byte, as programs of torch.distributed: beside the model of the same release."""
