"""YAML 1.2 whose every value knows its line, so that an error can name it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from harness.types import BenchError

Place = tuple[str | int, ...]


class SuiteError(BenchError):
    """A mistake in a suite file: the message names file, line, key and the fix."""


@dataclass(frozen=True, slots=True)
class LocatedYaml:
    """A parsed file: `data` holds plain Python values, `tree` what ruamel.yaml read with its marks."""

    path: Path
    data: dict[str, Any]
    tree: CommentedMap

    def line(self, place: Place) -> int:
        """The 1-based line of a key or item; of the nearest enclosing one where it is absent."""
        node: Any = self.tree
        line = 0
        for step in place:
            # What is merged in (`<<`) or tagged has no marks: the enclosing key's line then.
            marks = node.lc.data if isinstance(node, CommentedMap | CommentedSeq) else None
            if not marks or step not in marks:
                break
            line = marks[step][0]
            node = node[step]
        return line + 1

    def error(self, place: Place, message: str) -> SuiteError:
        """The error at a place, ready to raise."""
        key = ".".join(str(step) for step in place)
        return SuiteError(f"{self.path}:{self.line(place)}: {key}: {message}")


def load(path: Path) -> LocatedYaml:
    """Parse a mapping. Raises SuiteError for unreadable files, broken YAML and duplicate keys."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SuiteError(f"{path}: cannot be read: {reason}") from None
    tree = _parse(path, text)
    if not isinstance(tree, CommentedMap):
        raise SuiteError(f"{path}:1: a suite is a mapping such as `name: …`, not {type(tree).__name__}")
    return LocatedYaml(path, plain(tree), tree)


def _parse(path: Path, text: str) -> Any:
    try:
        return _reader().load(text)
    except DuplicateKeyError as error:
        mark = error.problem_mark
        key = str(error.problem).split('"')[1]
        raise SuiteError(f"{path}:{mark.line + 1}: {key}: duplicate key; keep one of the two") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}" if mark else ""
        raise SuiteError(f"{path}{where}: not YAML: {error.problem or error.context}") from None
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        # ruamel.yaml lets through what Python makes of endless digits, deep nesting and odd tags.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise SuiteError(f"{path}: not YAML that a suite can hold: {reason}") from None


def parse_value(text: str) -> Any:
    """A YAML value from the command line, e.g. "[1, 2]" or "true". Raises YAMLError."""
    return plain(_reader().load(text))


def _reader() -> YAML:
    reader = YAML(typ="rt", pure=True)
    reader.allow_duplicate_keys = False
    return reader


def plain(node: Any) -> Any:
    """ruamel.yaml's subclasses as plain dict, list, int, float, bool and str."""
    if isinstance(node, dict):
        return {plain(key): plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(item) for item in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return bool(node) if type(node).__name__ == "ScalarBoolean" else kind(node)
    return node
