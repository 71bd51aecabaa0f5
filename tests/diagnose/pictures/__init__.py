"""Pictures of runs and jobs: times, marks, rows, and the files that show them."""
