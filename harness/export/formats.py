"""The formats by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.export import (
    asv,
    bencher,
    custom_smaller_is_better,
    google_benchmark,
    pytest_benchmark,
)
from harness.export.benchmark import Exported
from harness.export.imported import Imported

WRITERS: Mapping[str, Callable[[Exported], str]] = {
    "pytest-benchmark": pytest_benchmark.write,
    "google-benchmark": google_benchmark.write,
    "bencher": bencher.write,
    "custom-smaller-is-better": custom_smaller_is_better.write,
    "asv": asv.write,
}
READERS: Mapping[str, Callable[[Any, str], list[Imported]]] = {
    "pytest-benchmark": pytest_benchmark.read,
    "google-benchmark": google_benchmark.read,
    "bencher": bencher.read,
}
