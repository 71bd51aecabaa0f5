"""Programs that call files of vLLM. Tests run each rank of such a program in its own process."""
