"""Which schedules of a world there are, and which of them are worth a run."""
