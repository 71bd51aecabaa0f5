"""Data-parallel ranks: batch agreement, dispatch, and the step around them."""
