"""Programs around files of vLLM, which tests run as targets."""
