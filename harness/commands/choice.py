"""What a command line asks for: the suite as it will run, the device, and the plugins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from ruamel.yaml.error import YAMLError

from harness.devices.select import resolve
from harness.executor import WorkerExecutor
from harness.located_yaml import SuiteError, parse_value
from harness.suite import Suite, hint
from harness.suite_file import LONGEST_SECONDS, ClaimedQuantity, fault_of_law, read_suite
from harness.types import BenchError
from implementations import registry
from implementations.operation import operation


@dataclass(frozen=True, slots=True)
class Choice:
    """What a command line asks for: the suite as it will run, the device, and the plugins."""

    suite: Suite
    device: str
    plugins: tuple[str, ...]

    @classmethod
    def read(
        cls,
        path: Path,
        device: str,
        *,
        only: Sequence[str] = (),
        skip: Sequence[str] = (),
        settings: Sequence[str] = (),
        budget: float | None = None,
        plugins: Sequence[Path] = (),
    ) -> Choice:
        """Read and filter the suite. Raises BenchError before anything runs."""
        name = resolve(device)
        joining = load_plugins(plugins)
        suite = read_suite(path, name.partition(":")[0], parse_settings(settings))
        suite = join(suite, joining).select(only, skip)
        if budget is not None:
            if not 0 < budget < LONGEST_SECONDS:  # false for nan as well
                raise SuiteError(f"--budget {budget:g}: must be a number of seconds, more than 0")
            suite = replace(suite, budget=budget)
        return cls(suite, name, tuple(str(plugin.resolve()) for plugin in plugins))

    @property
    def swept(self) -> list[str]:
        """The axes with more than one value."""
        return [axis for axis, values in self.suite.axes.items() if len(values) > 1]

    def on(self, device: str) -> Choice:
        """The same on another device."""
        return replace(self, device=device)

    def executor(self, log: Path) -> WorkerExecutor:
        """Workers for this suite."""
        return WorkerExecutor(self.device, self.suite.operation.name, self.suite.timeout, log, self.plugins)


def load_plugins(paths: Sequence[Path]) -> list[str]:
    """Import the user's files; the names they register. Raises BenchError naming the file."""
    before = {known.name for known in registry.implementations()}
    for path in paths:
        try:
            registry.load_plugin(path)
        except (Exception, SystemExit) as error:  # a script that exits must not end the run as a success
            raise BenchError(f"--plugin {path}: {type(error).__name__}: {error}") from error
    joined = [known for known in registry.implementations() if known.name not in before]
    if paths and not joined:
        raise BenchError(f"--plugin {paths[0]}: registers no implementation; use @implementation(…)")
    for known in joined:
        _check_laws(known)
    return [known.name for known in joined]


def _check_laws(known: registry.Implementation) -> None:
    """Raises BenchError where a declared law cannot be judged: a typo would go through as undeclared."""
    for quantity, law in known.laws.items():
        where = f"implementation {known.name}: laws={{{quantity!r}: {law!r}}}"
        if quantity not in get_args(ClaimedQuantity):
            raise BenchError(f"{where}: unknown quantity{hint(quantity, get_args(ClaimedQuantity))}")
        if fault := fault_of_law(law, operation(known.operation)):
            raise BenchError(f"{where}: {fault}")


def join(suite: Suite, names: Sequence[str]) -> Suite:
    """The suite with the plugins' implementations of its operation."""
    fitting = [n for n in names if registry.lookup(n).operation == suite.operation.name]
    new = tuple(n for n in fitting if n not in suite.implementations)
    return replace(suite, implementations=suite.implementations + new)


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """`axis=1,2` → {"axis": [1, 2]}. Raises SuiteError."""
    parsed = {}
    for setting in settings:
        axis, equals, text = setting.partition("=")
        if not equals or not text:
            raise SuiteError(f"--set {setting}: write axis=value or axis=value,value")
        try:
            parsed[axis.strip()] = parse_value(f"[{text.strip().strip('[]')}]")
        except (YAMLError, ValueError, TypeError, RecursionError):
            raise SuiteError(f"--set {setting}: {text!r} is no list of values") from None
    return parsed
