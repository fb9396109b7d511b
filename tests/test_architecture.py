"""Dependencies run one way, files stay small, and the checkout is what is imported."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*(ROOT / "harness").rglob("*.py"), *(ROOT / "implementations").rglob("*.py")])

#: Reports render and gates judge on a laptop in a second.
NO_TORCH = [
    "harness.types",
    "harness.store",
    "harness.format",
    "harness.complexity",
    "harness.report",
    "harness.cli",
    "harness.gate.compare",
    "harness.gate.sources",
    "harness.gate.delivery",
    "harness.gate.session",
    "harness.export.formats",
    "harness.commands.check",
    "harness.commands.baseline",
    "harness.commands.export",
    "harness.pytest_plugin",
]

#: package or module -> what it must never import
FORBIDDEN = {
    "implementations": ["harness"],
    "harness/complexity": ["torch", "implementations", "harness.runner", "harness.report", "harness.store"],
    "harness/report": ["torch", "implementations", "harness.runner", "harness.executor", "harness.devices"],
    "harness/export": ["torch", "implementations", "harness.runner", "harness.executor", "harness.devices"],
    "harness/gate": ["harness.cli", "harness.commands", "harness.runner"],
    "harness/store.py": ["torch", "implementations", "harness.runner"],
    "harness/types.py": ["torch", "implementations", "harness."],
    "harness/devices": [
        "harness.metrics",
        "harness.runner",
        "harness.suite",
        "harness.cli",
        "harness.report",
    ],
    "harness/counting": [
        "harness.metrics",
        "harness.runner",
        "harness.suite",
        "harness.cli",
        "harness.devices",
    ],
    "harness/metrics": [
        "harness.runner",
        "harness.suite",
        "harness.cli",
        "harness.report",
        "harness.executor",
    ],
    "harness/suite.py": ["harness.runner", "harness.cli", "harness.report", "harness.executor"],
    "harness/runner.py": ["harness.cli", "harness.report", "harness.commands", "torch"],
    "harness/executor.py": ["harness.cli", "harness.report", "harness.runner", "harness.suite", "torch"],
}


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, inside functions as well, but not under TYPE_CHECKING."""
    tree = ast.parse(path.read_text("utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("place", FORBIDDEN)
def test_dependencies_run_one_way(place: str) -> None:
    target = ROOT / place
    for path in [target] if target.suffix else target.rglob("*.py"):
        for module in imports(path):
            for banned in FORBIDDEN[place]:
                inside = module == banned.rstrip(".") or module.startswith(banned.rstrip(".") + ".")
                assert not inside, f"{path.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("module", NO_TORCH)
def test_never_imports_torch(module: str) -> None:
    code = f"import {module}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_checkout_is_what_is_imported() -> None:
    assert harness.__file__ is not None
    assert Path(harness.__file__).is_relative_to(ROOT)


def functions() -> Iterator[tuple[Path, str, int]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno is not None
                yield path, node.name, node.end_lineno - node.lineno + 1


def test_functions_and_files_stay_small() -> None:
    lengths = sorted(length for _, _, length in functions())
    assert statistics.median(lengths) <= 12
    assert lengths[int(0.95 * (len(lengths) - 1))] <= 45
    long = [
        f"{p.relative_to(ROOT)}:{name}" for p, name, n in functions() if n > 60 and "kernel" not in p.name
    ]
    assert not long
    big = [str(p.relative_to(ROOT)) for p in SOURCES if p.read_text("utf-8").count("\n") > 300]
    assert not big


def test_no_drawer_called_utils() -> None:
    assert not [p for p in SOURCES if p.stem in ("utils", "util", "helpers", "misc", "common")]
