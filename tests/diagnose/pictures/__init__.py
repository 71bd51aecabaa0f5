"""Tests of pictures of runs and jobs: times, marks, rows, and the files that contain them."""
