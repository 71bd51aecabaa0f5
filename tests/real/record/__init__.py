"""The recorder in real jobs."""
