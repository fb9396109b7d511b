"""From a YAML file to a validated Suite. Everything a suite can get wrong is found here, before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from harness.complexity import LawError, parse_law
from harness.located_yaml import LocatedYaml, Place, SuiteError, load
from harness.metrics.registry import metrics as known_metrics
from harness.suite import Suite, hint, problems
from harness.types import Scalar
from implementations import registry
from implementations.operation import Operation, operation_names
from implementations.operation import operation as find_operation
from implementations.registry import UnknownName

AxisValue = bool | int | float | str | None
DeviceKind = Literal["cpu", "cuda"]
#: A century is for ever, and still a number that every clock takes.
LONGEST_SECONDS = 3.2e9
Seconds = Annotated[float, Field(gt=0, lt=LONGEST_SECONDS)]
#: What torch takes for a length or a seed.
LARGEST = 2**63
#: A suite that measures nothing is a mistake.
Metrics = Annotated[list[str], Field(min_length=1)]
ClaimedQuantity = Literal["time", "memory", "flops", "bytes", "depth"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Overrides(_Strict):
    """What a kind of device sweeps instead."""

    implementations: list[str] | None = None
    axes: dict[str, AxisValue | list[AxisValue]] = Field(default_factory=dict)
    metrics: Metrics | None = None
    budget: Seconds | None = None
    timeout: Seconds | None = None


class _Part(_Strict):
    """Another operation in the same run: what of the suite it says otherwise."""

    operation: str
    implementations: list[str]
    axes: dict[str, AxisValue | list[AxisValue]]
    claims: dict[str, dict[ClaimedQuantity, str]] = Field(default_factory=dict)
    devices: dict[DeviceKind, _Overrides] = Field(default_factory=dict)


class _SuiteFile(_Strict):
    """The keys of a suite file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)
    question: str = ""
    operation: str = "attention"
    implementations: list[str]
    axes: dict[str, AxisValue | list[AxisValue]]
    metrics: Metrics = ["latency", "memory", "accuracy", "counts", "throughput"]
    budget: Seconds = 300.0
    timeout: Seconds = 120.0
    seed: int = Field(default=0, ge=0, lt=LARGEST)
    inputs: str | list[str] = "randn"
    claims: dict[str, dict[ClaimedQuantity, str]] = Field(default_factory=dict)
    devices: dict[DeviceKind, _Overrides] = Field(default_factory=dict)
    also: list[_Part] = Field(default_factory=list)


def read_suite(path: Path, kind: str, settings: Mapping[str, Any] | None = None) -> Suite:
    """The suite of a file on a kind of device; `settings` replaces axes (the CLI's --set).

    Raises SuiteError naming file, line, key and the nearest right name.
    """
    source = load(path)
    file = _validate(source)
    found = _checked(source, file, kind, settings or {})
    also = []
    for place, part in enumerate(file.also):
        within = LocatedYaml(path, source.data["also"][place], source.tree["also"][place])
        merged = file.model_copy(update={name: getattr(part, name) for name in _Part.model_fields})
        also.append(_checked(within, merged, kind, _taken(merged, settings or {})))
    return replace(found, also=tuple(also))


def _taken(part: _SuiteFile, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of the command line's axes, those that the operation of a part has; the suite's own must know all."""
    types = axis_types(find_operation(part.operation)) if part.operation in operation_names() else {}
    return {axis: values for axis, values in settings.items() if axis in types}


def _checked(source: LocatedYaml, file: _SuiteFile, kind: str, settings: Mapping[str, Any]) -> Suite:
    found = _named(source, ("operation",), find_operation, file.operation)
    registry.load(found.name)
    for device in file.devices:  # an override for another device is checked here as well
        _build(source, file, found, device, {})
    return _build(source, file, found, kind, settings)


def _build(
    source: LocatedYaml, file: _SuiteFile, found: Operation, kind: str, settings: Mapping[str, Any]
) -> Suite:
    override = file.devices.get(kind, _Overrides())  # type: ignore[call-overload]
    place: Place = ("devices", kind)
    axes = _axes(source, file, found, override, place, settings)
    replaced = override.implementations is not None
    names = _names(source, file, override, replaced, place, found)
    chosen = override.metrics if override.metrics is not None else file.metrics
    metrics_at = (*place, "metrics") if override.metrics is not None else ("metrics",)
    for index, metric in enumerate(chosen):
        _named(source, (*metrics_at, index), known_metrics, [metric])
    return Suite(
        name=file.name,
        question=file.question.strip(),
        operation=found,
        implementations=names,
        axes=axes,
        metrics=tuple(chosen),
        budget=override.budget or file.budget,
        timeout=override.timeout or file.timeout,
        path=source.path,
        claims=_claims(source, file, found),
    )


def _claims(source: LocatedYaml, file: _SuiteFile, found: Operation) -> dict[str, dict[str, str]]:
    """The expected laws, each of a known implementation and in known variables."""
    for name, laws in file.claims.items():
        _named(source, ("claims", name), registry.lookup, name)
        for quantity, law in laws.items():
            if fault := fault_of_law(law, found):
                raise source.error(("claims", name, quantity), fault)
    return {n: {str(q): law for q, law in laws.items()} for n, laws in file.claims.items()}


def fault_of_law(law: str, found: Operation) -> str | None:
    """What is wrong with a law about an operation, in words; None where it can be judged."""
    try:
        unknown = set(parse_law(law).variables) - set(found.variables)
    except LawError as error:
        return str(error)
    return f"unknown variable {min(unknown)}{hint(min(unknown), found.variables)}" if unknown else None


def _validate(source: LocatedYaml) -> _SuiteFile:
    try:
        return _SuiteFile.model_validate(source.data)
    except ValidationError as error:
        raise _located(source, error) from None


def _located(source: LocatedYaml, error: ValidationError) -> SuiteError:
    first = error.errors()[0]
    place: Place = tuple(step for step in first["loc"] if not _is_branch(step))
    known = _OVERRIDE_KEYS if place[:1] == ("devices",) and len(place) > 2 else _SUITE_KEYS
    if first["type"] == "extra_forbidden":
        return source.error(place, f"unknown key{hint(str(place[-1]), known)}")
    if first["type"] == "missing":
        return source.error(place, "this key must be given")
    if first["type"] == "literal_error":
        known = tuple(str(first["ctx"]["expected"]).replace("'", "").replace(" or ", ", ").split(", "))
        return source.error(place, f"unknown key{hint(str(place[-1]), known)}")
    got = "" if isinstance(first["input"], dict | list) else f", got {first['input']!r}"
    return source.error(place, f"{first['msg'].removeprefix('Input ')}{got}")


_SUITE_KEYS = tuple(_SuiteFile.model_fields)
_OVERRIDE_KEYS = tuple(_Overrides.model_fields)


def _is_branch(step: str | int) -> bool:
    """Pydantic names the tried branch of a union in the location; it is no key of the file."""
    return step in ("bool", "int", "float", "str", "[key]") or str(step).startswith("list[")


def _named(source: LocatedYaml, place: Place, find: Any, name: Any) -> Any:
    try:
        return find(name)
    except UnknownName as error:
        raise source.error(place, str(error)) from None


def _names(
    source: LocatedYaml,
    file: _SuiteFile,
    override: _Overrides,
    replaced: bool,
    place: Place,
    found: Operation,
) -> tuple[str, ...]:
    names = override.implementations if replaced else file.implementations
    at: Place = (*place, "implementations") if replaced else ("implementations",)
    assert names is not None
    if not names:
        raise source.error(at, "name at least one implementation")
    for index, name in enumerate(names):
        known = _named(source, (*at, index), registry.lookup, name)
        if known.operation != found.name:
            raise source.error((*at, index), f"{name} computes {known.operation}, not {found.name}")
        if name in names[:index]:
            raise source.error((*at, index), f"{name} is named twice; keep one")
    return tuple(names)


def _axes(
    source: LocatedYaml,
    file: _SuiteFile,
    found: Operation,
    override: _Overrides,
    place: Place,
    settings: Mapping[str, Any],
) -> dict[str, tuple[Scalar, ...]]:
    """The swept values of every given axis, checked one by one and then as whole problems."""
    where: dict[str, Place] = {axis: ("axes", axis) for axis in file.axes}
    where |= {axis: (*place, "axes", axis) for axis in override.axes}
    given: dict[str, Any] = {**file.axes, **override.axes, **settings}
    types = axis_types(found)
    axes: dict[str, tuple[Scalar, ...]] = {}
    for axis, values in (given | {"seed": file.seed, "distribution": file.inputs}).items():
        fail = _failing(source, where, axis, settings)
        if axis in given and axis in _TOP_LEVEL:
            raise fail(f"this is no axis; write `{_TOP_LEVEL[axis]}: …` at the top of the suite")
        if axis not in types:
            raise fail(f"unknown axis{hint(axis, types)}")
        axes[axis] = tuple(_axis_values(values, types[axis], fail))
    try:
        for _ in problems(found, axes):
            pass
    except ValueError as error:
        axis, _, message = str(error).partition(": ")
        raise _failing(source, where, axis, settings)(message) from None
    return axes


def _failing(source: LocatedYaml, where: Mapping[str, Place], axis: str, settings: Mapping[str, Any]) -> Any:
    if axis in settings:
        return lambda message: SuiteError(f"--set {axis}: {message}")
    key = (_TOP_LEVEL[axis],) if axis in _TOP_LEVEL else ("axes", axis)
    return lambda message: source.error(where.get(axis, key), message)


#: What a problem is drawn with, given under these keys: one seed for the whole suite.
_TOP_LEVEL = {"seed": "seed", "distribution": "inputs"}


def _axis_values(values: Any, kind: Any, fail: Any) -> Iterable[Scalar]:
    for value in values if isinstance(values, list) else [values]:
        if isinstance(value, float) and value.is_integer() and not isinstance(value, bool):
            value = int(value)  # 1e3 is a float in YAML 1.2 and a fine length
        if isinstance(value, int) and abs(value) >= LARGEST:
            raise fail("is larger than any tensor")
        try:
            yield TypeAdapter(kind).validate_python(value, strict=True)
        except ValidationError as error:
            message = error.errors()[0]["msg"].removeprefix("Input ")
            raise fail(f"{message}, got {value!r}") from None
    if values == []:
        raise fail("give at least one value")


def axis_types(found: Operation) -> dict[str, Any]:
    """axis -> its type, read off the operation's problem."""
    hints = get_type_hints(found.problem)
    return {("pass" if name == "pass_" else name): hint for name, hint in hints.items()}
