"""What a scenario runs: requests made up, written out, or read from a trace."""
