"""Tests of dpsim's recorder in real jobs."""
