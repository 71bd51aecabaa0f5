"""Pipeline stages: scheduler, hidden states, sampled tokens, and what judges them."""
