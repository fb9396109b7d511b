"""`bench inspect`: the Triton kernels as machine code, without a GPU, and the gate on a baseline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table

from harness.commands.choice import load_plugins
from harness.counting.inspection import Comparison, Refused, compare, inspect_all
from harness.counting.machine_code import TARGETS, MachineCode
from harness.types import BenchError
from implementations import registry

_CODES = TypeAdapter(list[MachineCode])


class Worse(BenchError):
    """A kernel became worse than its baseline."""

    exit_code = 1


class NotComparable(BenchError):
    """The baseline says nothing about these kernels."""

    exit_code = 4


def inspect_kernels(
    targets: Sequence[str],
    only: Sequence[str],
    plugins: Sequence[Path],
    baseline: Path | None,
    save: Path | None,
    as_json: bool,
    console: Console,
) -> None:
    """Compile, print, keep, compare. Raises Worse, NotComparable, and BenchError for unknown names."""
    os.environ.pop("TRITON_INTERPRET", None)  # interpreted kernels cannot be compiled
    chosen = targets or TARGETS
    before = [code for code in (_read(baseline) if baseline else []) if code.target in chosen]
    if baseline and (unknown := set(targets) - {code.target for code in before}):
        raise NotComparable(f"--baseline {baseline}: has nothing for {min(unknown)}; write one with --save")
    found = _inspect(chosen, only, plugins)
    codes = [code for code in found if isinstance(code, MachineCode)]
    if as_json:
        print(_CODES.dump_json(codes).decode())
    else:
        console.print(_drawn(found))
    if save:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_bytes(_CODES.dump_json(codes, indent=1) + b"\n")
    if baseline:
        _gate(compare(before, found, some=bool(only)), console)


def _inspect(
    targets: Sequence[str], only: Sequence[str], plugins: Sequence[Path]
) -> list[MachineCode | Refused]:
    registry.load("attention")
    load_plugins(plugins)
    compiled = [i.name for i in registry.implementations("attention") if i.kernel_builds]
    names = [name for name in compiled if not only or any(fnmatchcase(name, p) for p in only)]
    if not names:
        raise BenchError(f"--only {' '.join(only)}: matches none of {', '.join(compiled)}")
    unknown = [target for target in targets if target not in TARGETS]
    if unknown:
        raise BenchError(f"--target {unknown[0]}: unknown target; known: {', '.join(TARGETS)}")
    resolved = [path.resolve() for path in plugins]
    return inspect_all(targets, names=names, plugins=resolved, cache=_cache())


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "attnbench" / "machine_code"


def _read(path: Path) -> list[MachineCode]:
    try:
        return _CODES.validate_python(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise NotComparable(f"--baseline {path}: {error.strerror}; write one with --save") from None
    except (ValueError, ValidationError):
        raise BenchError(f"--baseline {path}: not a baseline that `bench inspect --save` wrote") from None


def _drawn(found: Iterable[MachineCode | Refused]) -> Table:
    drawn = Table(
        "kernel", "target", "registers", "spills", "shared", "occupancy", "loop: tensor / memory / all",
        "whole: tensor / all", "warnings",
    )  # fmt: skip
    for code in found:
        if isinstance(code, Refused):
            drawn.add_row(code.kernel, code.target, *["–"] * 6, f"refused: {code.reason}")
            continue
        loop = code.loop
        drawn.add_row(
            code.kernel,
            code.target,
            str(code.registers),
            f"{code.spill_bytes} B",
            f"{code.shared_bytes} B",
            f"{code.occupancy.ratio:.0%}",
            f"{loop.tensor_core} / {loop.global_memory + loop.shared_memory} / {loop.total}"
            if loop
            else "no loop",
            f"{code.overall.tensor_core} / {code.overall.total}",
            "; ".join(code.warnings),
        )
    return drawn


def _gate(comparisons: Sequence[Comparison], console: Console) -> None:
    """Show what changed; raise for what became worse."""
    for one in comparisons:
        for words in (*one.failures, *one.changes):
            console.print(f"{one.kernel} on {one.target}: {words}")
    failures = [f"{one.kernel} on {one.target}: {one.failures[0]}" for one in comparisons if one.failures]
    if strangers := [one for one in comparisons if not one.comparable]:
        raise NotComparable(
            f"not comparable: {strangers[0].changes[0]}; write a baseline with this version: --save FILE"
        )
    if failures:
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        raise Worse(f"{failures[0]}{more}")
    console.print(f"{len(comparisons)} kernels: none became worse")
