"""Settings of the whole test suite."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A shared machine may stall any example; time is judged by benchmarks, never by tests.
settings.register_profile("attnbench", deadline=None, derandomize=True)
settings.load_profile("attnbench")


@pytest.fixture(scope="session", autouse=True)
def _children_are_sessions_of_their_own() -> None:
    """A pytest that a test starts does not take itself for a worker of this one."""
    os.environ.pop("PYTEST_XDIST_WORKER", None)
