"""pytest collects suites: `pytest suites/seq_scaling.yaml --benchmark-only`.

Each case is a test that uses pytest-benchmark's own fixture, so that its tables, comparison, histograms and
storage work unchanged. A case that is not supported here is skipped, one that is incorrect fails. Only
suites that are named on the command line are collected. Torch is imported when a suite is.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_SUITES = (".yaml", ".yml")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the suites run."""
    group = parser.getgroup("attnbench")
    group.addoption("--suite-device", default="auto", help="Device of suites: auto, cpu, cuda or cuda:1.")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Suites that are named are there to be timed, whatever the project's own options say of its tests."""
    if _named_suites(config) and config.getoption("benchmark_only", False):
        config.option.benchmark_disable = False


def _named_suites(config: pytest.Config) -> set[Path]:
    names = [str(argument).partition("::")[0] for argument in config.args]
    return {(config.invocation_params.dir / name).resolve() for name in names if name.endswith(_SUITES)}


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A suite that is named on the command line, as a module with one parametrised test."""
    if file_path.suffix not in _SUITES or file_path.resolve() not in _named_suites(parent.config):
        return None
    module: pytest.Module = SuiteModule.from_parent(parent, path=file_path)
    return module


class SuiteModule(pytest.Module):
    """A suite as a module: pytest does the rest."""

    def _getobj(self) -> types.ModuleType:
        """Made instead of imported. Raises CollectError with the suite's own message."""
        from harness.devices.select import resolve
        from harness.suite_file import read_suite
        from harness.types import BenchError

        try:
            device = resolve(self.config.getoption("suite_device"))
            suite = read_suite(self.path, device.partition(":")[0])
        except BenchError as error:
            raise self.CollectError(str(error)) from None
        cases = {}
        for group in suite.groups(device):
            for case in group.cases:
                axes = ",".join(f"{axis}={case.problem[axis]}" for axis in suite.axes if axis in case.problem)
                name = f"{case.implementation}-{axes}"
                cases[case.key if name in cases else name] = case  # other operations have other axes
        module = types.ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        test = _test(cases, device, suite.operation.name)
        module.test_case = pytest.mark.parametrize("case", list(cases))(test)  # type: ignore[attr-defined]
        return module


def _test(cases: dict[str, Any], device: str, operation: str) -> Callable[..., None]:
    def test_case(benchmark: Any, case: str) -> None:
        call, about, group = judged_call(cases[case], device, operation)
        benchmark.group = group
        benchmark.extra_info.update(about)
        benchmark(call)

    return test_case


def judged_call(case: Any, device: str, operation: str) -> tuple[Callable[[], object], dict[str, Any], str]:
    """What is to be timed, what is known of it, and the group of those that compute the same.

    Skips what is not supported or only interpreted here; fails what is incorrect, with the reason.
    """
    from harness.metrics.registry import metrics
    from harness.types import Status
    from implementations.registry import lookup

    if lookup(case.implementation).runs_interpreted(device.partition(":")[0]):
        pytest.skip("not timed: interpreted")
    worker = _worker(device, operation)
    trial = worker._trial(case)
    if trial.alive:
        worker._set_up([trial])
    for metric in metrics(["accuracy"]):
        if trial.alive:
            metric.measure([trial], worker.device)
    result = trial.result
    if result.status is Status.UNSUPPORTED:
        pytest.skip(result.reason)
    if result.status is not Status.OK:
        pytest.fail(f"{result.status}: {result.reason}", pytrace=False)
    about = {name: found.value for name, found in result.metrics.items()}
    about |= {"implementation": case.implementation, "device": device, "kernels": list(result.kernels)}
    problem = {name: value for name, value in case.problem.items() if value is not None}
    group = ", ".join(f"{axis}={value}" for axis, value in problem.items())
    synchronize = worker.device.synchronize
    call = trial.call
    if worker.device.kind == "cpu":
        return call, about | problem, group
    return (lambda: (call(), synchronize())), about | problem, group


@cache
def _worker(device: str, operation: str) -> Any:
    """The worker of this process; its answers are kept by nobody."""
    from harness import protocol
    from harness.worker import Worker

    class InProcess(Worker):
        """A worker that answers to nobody: the caller looks at its trials."""

        def say(self, answer: protocol.Answer) -> None:
            """Say nothing."""

    return InProcess(protocol.Start(device, False, (), operation), -1)
