"""Tests of the contract: the interface between programs and backends."""
