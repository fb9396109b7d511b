"""Runs in the formats of other tools, and their files as runs: one file a format. Imports no torch."""
