"""`bench --help` answers at once: half a second at most, and without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(sys.executable).with_name("bench")
#: What takes long to import and is of no use to who asks for help.
HEAVY = {"torch", "triton", "xformers", "scipy", "pandas", "matplotlib", "numpy", "pydantic"}


def test_help_takes_half_a_second_at_most() -> None:
    """Of CPU time, at best of three: other processes do not count against it."""

    def seconds() -> float:
        before = os.times()
        subprocess.run([BENCH, "--help"], check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(3)) <= 0.5


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom harness.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print('imported', *{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported = set(done.stdout.splitlines()[-1].split())
    assert "typer" in imported
    assert not imported & HEAVY
