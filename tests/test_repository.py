"""What the files of the repository promise: no registry addresses, pins that satisfy the ranges."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
KEPT = ("harness", "implementations", "suites", "tests", "benchmarks", "docs", ".ci")
TEXT = {".py", ".md", ".toml", ".txt", ".yaml", ".sh", ".html", ".css", ".js", ".cfg", ".ini", ""}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
#: In halves, so that this file passes its own test.
ADDRESSES = [
    "pypi" + ".org", "python" + "hosted", "download." + "pytorch", "index-" + "url", "find-" + "links",
    "conda" + ".anaconda",
]  # fmt: skip


def files() -> Iterator[Path]:
    """Every text file of the checkout that is kept."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in TEXT)
    for folder in KEPT:
        yield from (
            path
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts
        )


def test_no_file_names_a_registry() -> None:
    found = list(files())
    assert len(found) > 100
    for path in found:
        text = path.read_text("utf-8", errors="replace")
        assert not [address for address in ADDRESSES if address in text], path


def requirements() -> list[Requirement]:
    dev = PROJECT["optional-dependencies"]["dev"]
    return [Requirement(text) for text in (*PROJECT["dependencies"], *dev)]


@pytest.mark.parametrize("requirement", requirements(), ids=lambda r: r.name)
def test_the_pins_satisfy_the_ranges(requirement: Requirement) -> None:
    pins = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in PINS.items()}
    pinned = pins[re.sub(r"[-_.]+", "-", requirement.name).lower()]
    assert requirement.specifier.contains(pinned)


@pytest.mark.parametrize(
    ("name", "version", "fits"),
    [
        ("torch", "2.11.0", True),
        ("torch", "2.10.0", True),
        ("torch", "2.9.1", False),  # xformers needs 2.10
        ("triton", "3.6.0", True),
    ],
)
def test_the_ranges_leave_room_for_what_a_machine_has(name: str, version: str, fits: bool) -> None:
    (requirement,) = (r for r in requirements() if r.name == name)
    assert requirement.specifier.contains(version) is fits
    assert "3.12.1" in Requirement(f"python{PROJECT['requires-python']}").specifier
