"""`bench list` and `bench info`: what there is, and where it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness import environment
from harness.commands.choice import load_plugins
from harness.devices.select import open_device, resolve
from implementations import registry
from implementations.operation import operation_names


def list_implementations(device: str, plugins: Sequence[Path], console: Console) -> None:
    """A table of every implementation and where it runs."""
    for name in operation_names():
        registry.load(name)
    load_plugins(plugins)
    opened = open_device(resolve(device))
    table = Table("implementation", "operation", "kind", f"on {opened.name}", "what it is")
    for known in registry.implementations():
        interpreted = known.runs_interpreted(opened.kind)
        reason = known.available(opened.target(interpreted))
        runs = "runs interpreted, not timed" if interpreted else "runs"
        table.add_row(
            known.name,
            known.operation,
            "exact" if known.exact else "approximation",
            f"no: {reason}" if reason else runs,
            known.summary,
        )
    console.print(table)


def show_environment(device: str, console: Console) -> None:
    """The environment as a table."""
    captured = environment.capture(open_device(resolve(device)))
    table = Table("fact", "value")
    table.add_row("device", captured.device.name)
    for facts in (captured.device.facts, captured.host, captured.packages):
        for fact, value in facts.items():
            table.add_row(fact, str(value))
    for fact, reason in captured.device.unknown.items():
        table.add_row(fact, f"unknown: {reason}")
    dirty = {True: " with uncommitted changes", False: "", None: ""}[captured.git_dirty]
    table.add_row("commit", (captured.git_commit or "unknown: not a git checkout") + dirty)
    console.print(table)
