"""Tests of the exact counters."""
