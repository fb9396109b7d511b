"""Replacing methods of a class for a while, or for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Method = Callable[..., Any]


def originals(owner: type, names: tuple[str, ...]) -> dict[str, Method]:
    """The current methods of those names; names that this version of the class lacks are left out."""
    return {name: getattr(owner, name) for name in names if hasattr(owner, name)}


def replace(owner: Any, methods: Mapping[str, Method]) -> Callable[[], None]:
    """Put the methods in place; returns what puts the old ones back."""
    before = {name: getattr(owner, name) for name in methods}
    for name, method in methods.items():
        setattr(owner, name, method)

    def undo() -> None:
        for name, method in before.items():
            setattr(owner, name, method)

    return undo


@contextmanager
def replaced(*changes: tuple[Any, Mapping[str, Method]]) -> Iterator[None]:
    """Within the context, the methods of each owner are the given ones."""
    undo = [replace(owner, methods) for owner, methods in changes]
    try:
        yield
    finally:
        for restore in reversed(undo):
            restore()
