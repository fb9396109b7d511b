"""Inspecting many kernels at once, and telling whether a change made one of them worse."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

from harness.counting.assembly import InstructionCounts
from harness.counting.machine_code import (
    CannotCompile,
    MachineCode,
    capability,
    inspect,
    recall,
    require_compiler,
)
from implementations.registry import Implementation, KernelBuild, implementations, load, load_plugin, lookup


@dataclass(frozen=True, slots=True)
class Refused:
    """A kernel that the compiler does not take for a target, and its words."""

    kernel: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kernel on one target, before and after a change.

    failures    what became worse: spills, lost tensor-core instructions, new warnings
    changes     what merely changed, as "registers 128 → 136"
    comparable  False across versions of Triton, which differ by themselves; then there is nothing else
    """

    kernel: str
    target: str
    failures: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    comparable: bool = True


def inspect_all(
    targets: Sequence[str],
    *,
    operation: str = "attention",
    names: Sequence[str] | None = None,
    plugins: Sequence[Path] = (),
    cache: Path | None = None,
    jobs: int | None = None,
) -> list[MachineCode | Refused]:
    """Every kernel of the named implementations (all by default) on every target, in that order.

    Compiles in `jobs` processes (one a core), whose environment does not interpret Triton.
    Raises UnknownName for an implementation that is not registered.
    """
    _load(operation, plugins)
    found = [lookup(name) for name in names] if names is not None else list(implementations(operation))
    require_compiler()
    results: list[MachineCode | Refused | None] = []
    tasks: dict[int, _Task] = {}
    for target in targets:
        for implementation in found:
            for build in _builds(implementation, target):
                known = recall(build, target, cache)
                if known is None:
                    where = (operation, tuple(plugins), implementation.name, build.name, target, cache)
                    tasks[len(results)] = _Task(*where)
                results.append(known)
    for at, result in zip(tasks, _run_all(list(tasks.values()), jobs or os.cpu_count() or 1), strict=True):
        results[at] = result
    return [result for result in results if result is not None]


def _run_all(tasks: list[_Task], jobs: int) -> list[MachineCode | Refused]:
    workers = min(jobs, len(tasks))
    if workers <= 1:
        return [_run(task) for task in tasks]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        return list(pool.map(_run, tasks))


@dataclass(frozen=True, slots=True)
class _Task:
    """What another process needs to find the kernel again."""

    operation: str
    plugins: tuple[Path, ...]
    implementation: str
    build: str
    target: str
    cache: Path | None


def _load(operation: str, plugins: Sequence[Path]) -> None:
    load(operation)
    for plugin in plugins:
        load_plugin(plugin)


def _run(task: _Task) -> MachineCode | Refused:
    _load(task.operation, task.plugins)
    build = next(b for b in _builds(lookup(task.implementation), task.target) if b.name == task.build)
    try:
        return inspect(build, task.target, task.cache)
    except CannotCompile as error:
        return Refused(build.name, task.target, str(error))


def _builds(implementation: Implementation, target: str) -> Iterable[KernelBuild]:
    builds = implementation.kernel_builds
    return builds(capability(target)) if builds else ()


def compare(
    before: Iterable[MachineCode], after: Iterable[MachineCode | Refused], *, some: bool = False
) -> list[Comparison]:
    """Every kernel of either side; with `some`, only those of `after`, which are not all that there are.

    One that is new or gone is a change, not a failure; one that the compiler took before and refuses now is.
    """
    old = {(code.kernel, code.target): code for code in before}
    new = {(code.kernel, code.target): code for code in after}
    versions = {code.triton for code in old.values()}
    strange = {code.triton for code in new.values() if isinstance(code, MachineCode)} - versions
    if versions and strange:
        words = f"compiled by Triton {min(versions)} and {min(strange)}"
        return [Comparison(*key, changes=(words,), comparable=False) for key in new]
    return [
        _compare(*key, old.get(key), new.get(key)) for key in (new if some else dict.fromkeys([*old, *new]))
    ]


def _compare(
    kernel: str, target: str, before: MachineCode | None, after: MachineCode | Refused | None
) -> Comparison:
    if isinstance(after, Refused):
        words = (f"the compiler refuses it: {after.reason}",)
        return (
            Comparison(kernel, target, failures=words)
            if before
            else Comparison(kernel, target, changes=words)
        )
    if before is None or after is None:
        return Comparison(kernel, target, changes=("new kernel" if before is None else "kernel is gone",))
    return Comparison(kernel, target, tuple(_failures(before, after)), tuple(_changes(before, after)))


def _failures(before: MachineCode, after: MachineCode) -> Iterator[str]:
    if after.spill_bytes > before.spill_bytes:
        yield f"spills {after.spill_bytes} B of registers, {before.spill_bytes} B before"
    for part, old, new in _parts(before, after):
        if new is None or new.tensor_core < old.tensor_core:
            left = new.tensor_core if new else 0
            yield f"{old.tensor_core - left} tensor-core instructions of the {part} are lost"
    for warning in after.warnings:
        if warning not in before.warnings:
            yield f"the assembler warns: {warning}"


def _parts(
    before: MachineCode, after: MachineCode
) -> Iterator[tuple[str, InstructionCounts, InstructionCounts | None]]:
    if before.loop is not None:
        yield "hottest loop", before.loop, after.loop
    yield "kernel", before.overall, after.overall


def _changes(before: MachineCode, after: MachineCode) -> Iterator[str]:
    for name in ("registers", "spill_bytes", "static_shared_bytes", "dynamic_shared_bytes"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield f"{name.replace('_', ' ')} {old} → {new}"
    if before.occupancy.ratio != after.occupancy.ratio:
        yield f"occupancy {before.occupancy.ratio:.1%} → {after.occupancy.ratio:.1%}"
    for part, old_counts, new_counts in _parts(before, after):
        for field in fields(InstructionCounts):
            old, new = getattr(old_counts, field.name), getattr(new_counts, field.name, None)
            if old != new:
                yield f"{field.name.replace('_', ' ')} of the {part} {old} → {new}"
