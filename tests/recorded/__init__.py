"""Tests of programs that repeat the calls of a recorded job on the simulation."""
