"""What each piece of memory saw last."""
