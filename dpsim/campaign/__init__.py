"""Many runs: a world explored whole, over processes, replayed from a file, or as an exhibit of the museum."""
