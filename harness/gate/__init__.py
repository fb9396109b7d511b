"""Tells whether a change made something worse, and how sure that is. Judging imports no torch."""
