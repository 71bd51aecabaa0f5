"""Tests of explaining jobs from the files of dpsim's recorder."""
