"""Settings of the whole test suite."""

from __future__ import annotations

from hypothesis import settings

# A shared machine may stall any example; time is judged by benchmarks, never by tests.
settings.register_profile("attnbench", deadline=None, derandomize=True)
settings.load_profile("attnbench")
