"""The interpreter's counts: each check runs in one process with TRITON_INTERPRET=1, and is reported here."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKS = [
    node.name
    for node in ast.parse((HERE / "interpreted_checks.py").read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


def interpreted(script: str, *arguments: str) -> str:
    """Output of a script here in a process of its own, whose Triton interprets."""
    path = os.pathsep.join([str(HERE.parents[2]), str(HERE)])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def outcomes() -> dict[str, str]:
    lines = [line.split(maxsplit=2) for line in interpreted("interpreted_checks.py").splitlines()[1:]]
    return {name: "ok" if verdict == "ok" else ast.literal_eval(rest[0]) for verdict, name, *rest in lines}


@pytest.mark.parametrize("check", CHECKS)
def test_in_the_interpreter(check: str) -> None:
    assert outcomes()[check] == "ok", outcomes()[check]


def test_flash_counts_equal_the_mask() -> None:
    """A draw of configurations; the script takes any number of them."""
    assert interpreted("interpreted_flash.py", "6", "3").splitlines() == ["ok 6 forward 3 backward"]


def test_without_the_interpreter_the_user_is_told() -> None:
    code = "from harness.counting.interpreter import install_repairs; install_repairs()"
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert "set TRITON_INTERPRET=1 before Triton is imported" in done.stderr
