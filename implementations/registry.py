"""The registry of implementations: what exists, where it runs, and what it claims of itself.

An implementation is one file with one decorated factory. The factory receives the problem and returns
the function that is measured; everything it does before returning (drawing random features, compiling)
is set-up and is not timed:

    @implementation("naive", operation="attention", exact=True, laws={"time": "n^2*d"})
    def naive(problem: AttentionProblem) -> Attend:
        def attend(inputs: AttentionInputs) -> Tensor: ...
        return attend
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

#: A factory: problem -> (inputs -> output). Problems and inputs are those of the operation.
Prepare = Callable[[Any], Callable[[Any], Any]]
#: Says in words why something cannot run, or None when it can.
Reason = str | None

ENTRY_POINT_GROUP = "attnbench.implementations"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a case is to run.

    `device` is "cpu" or "cuda"; `capability` the CUDA compute capability, None elsewhere;
    `interpreted` says that Triton kernels run in Triton's interpreter, on CPU tensors.
    """

    device: str
    capability: tuple[int, int] | None = None
    interpreted: bool = False


@dataclass(frozen=True, slots=True)
class KernelBuild:
    """One Triton kernel in one configuration, as ahead-of-time compilation needs it.

    `signature` maps argument names to Triton types ("*fp16", "i32", "fp32", "tensordesc<…>"),
    `divisible_by_16` names the arguments whose values are known multiples of 16.
    """

    name: str
    kernel: Any
    signature: Mapping[str, str]
    constexprs: Mapping[str, Any]
    num_warps: int
    num_stages: int
    divisible_by_16: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to compute one operation.

    name            unique; names one backend, and only that backend ever runs under it
    exact           False for approximations: their error is reported and never called incorrect
    laws            declared growth, e.g. {"time": "n^2*d", "memory": "n^2"}
    available       (target) -> why it cannot run there at all, or None
    supports        (problem, target) -> why it cannot run this problem there, or None
    interpreted_on  device kinds on which its Triton kernels run in the interpreter (never timed)
    kernel_builds   (compute capability such as 90) -> its Triton kernels for ahead-of-time compilation
    variants        option -> factory; `lookup("name:option")` is the implementation with that factory
    """

    name: str
    operation: str
    summary: str
    prepare: Prepare
    exact: bool
    laws: Mapping[str, str]
    available: Callable[[Target], Reason]
    supports: Callable[[Any, Target], Reason]
    interpreted_on: frozenset[str] = frozenset()
    kernel_builds: Callable[[int], Iterable[KernelBuild]] | None = None
    variants: Mapping[str, Prepare] = field(default_factory=lambda: MappingProxyType({}))
    source: str = field(default="", compare=False)

    def variant(self, option: str) -> Implementation:
        """The same with another factory, as `name:option`. Raises UnknownName."""
        if option not in self.variants:
            raise UnknownName(f"variant of {self.name}", option, self.variants)
        named = f"{self.name}:{option}"
        return replace(self, name=named, prepare=self.variants[option], variants={}, kernel_builds=None)

    def reason_against(self, problem: Any, target: Target) -> Reason:
        """Why this problem cannot run there, in words, or None when it can."""
        return self.available(target) or self.supports(problem, target)

    def runs_interpreted(self, device: str) -> bool:
        """Whether its kernels run in Triton's interpreter on this kind of device."""
        return device in self.interpreted_on


class Unsupported(Exception):
    """Raised by a call that meets what it cannot do; the text is the reason, in words."""


class UnknownName(LookupError):
    """A name that is not in a registry; `nearest` is the closest one that is, or None."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        self.kind, self.name, self.known = kind, name, known
        self.nearest = next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.4)), None)
        hint = f"did you mean {self.nearest!r}?" if self.nearest else f"known: {', '.join(known)}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")


_REGISTRY: dict[str, Implementation] = {}


def _anywhere(target: Target) -> Reason:
    return None


def _anything(problem: Any, target: Target) -> Reason:
    return None


def implementation(
    name: str,
    *,
    operation: str,
    exact: bool,
    laws: Mapping[str, str],
    available: Callable[[Target], Reason] = _anywhere,
    supports: Callable[[Any, Target], Reason] = _anything,
    interpreted_on: Iterable[str] = (),
    kernel_builds: Callable[[int], Iterable[KernelBuild]] | None = None,
    variants: Mapping[str, Prepare] | None = None,
) -> Callable[[Prepare], Prepare]:
    """Register the decorated factory; its docstring's first line is the summary people read.

    Raises ValueError when the name is taken by another file, or holds the colon of variants.
    """

    def register(prepare: Prepare) -> Prepare:
        source = inspect.getsourcefile(prepare) or ""
        if ":" in name:
            raise ValueError(f"{source}: the implementation name {name!r} holds a colon; choose another name")
        if name in _REGISTRY and _REGISTRY[name].source != source:
            raise ValueError(
                f"{source}: the implementation name {name!r} is taken by {_REGISTRY[name].source}; "
                "choose another name"
            )
        summary = (inspect.getdoc(prepare) or name).splitlines()[0]
        _REGISTRY[name] = Implementation(
            name=name,
            operation=operation,
            summary=summary,
            prepare=prepare,
            exact=exact,
            laws=MappingProxyType(dict(laws)),
            available=available,
            supports=supports,
            interpreted_on=frozenset(interpreted_on),
            kernel_builds=kernel_builds,
            variants=MappingProxyType(dict(variants or {})),
            source=source,
        )
        return prepare

    return register


def load(operation: str) -> None:
    """Import every family of an operation (each registers itself), and the installed plugins."""
    package = importlib.import_module(f"implementations.{operation}")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{package.__name__}.{module.name}")
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        entry.load()


def load_plugin(path: Path) -> ModuleType:
    """Import a user's file of implementations.

    Raises FileNotFoundError when there is no such file and ValueError when its name is none of Python; what
    the file itself raises passes through.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such plugin file")
    if path.suffix != ".py":
        raise ValueError("a plugin is a Python file; its name ends in .py")
    spec = importlib.util.spec_from_file_location(f"attnbench_plugin_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lookup(name: str) -> Implementation:
    """The implementation of that name, or the variant of "name:option".

    Raises UnknownName, which carries the nearest one.
    """
    base, colon, option = name.partition(":")
    if base not in _REGISTRY:
        raise UnknownName("implementation", base, _REGISTRY)
    return _REGISTRY[base].variant(option) if colon else _REGISTRY[base]


def implementations(operation: str | None = None) -> Iterator[Implementation]:
    """Every registered implementation (of one operation), by name."""
    for name in sorted(_REGISTRY):
        if operation in (None, _REGISTRY[name].operation):
            yield _REGISTRY[name]
