"""The workflows: they parse, their commands exist, and no untrusted text reaches a shell."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from harness.cli import app

FOLDER = Path(__file__).parents[1] / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))


def steps(path: Path) -> list[dict[str, Any]]:
    data = YAML(typ="safe").load(path.read_text("utf-8"))
    return [step for job in data["jobs"].values() for step in job["steps"]]


def test_they_are_there() -> None:
    assert [path.stem for path in WORKFLOWS] == ["comment", "cpu", "gpu"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_permissions_and_limits_are_stated(path: Path) -> None:
    data = YAML(typ="safe").load(path.read_text("utf-8"))
    assert "permissions" in data
    assert all("timeout-minutes" in job for job in data["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_event_text_is_pasted_into_a_script(path: Path) -> None:
    for step in steps(path):
        assert "${{" not in step.get("run", ""), step["run"]


def test_who_may_write_runs_no_foreign_code() -> None:
    for step in steps(FOLDER / "comment.yml"):
        assert "checkout" not in step.get("uses", "")
        assert not re.search(r"\b(make|bench|python|pip)\b", step.get("run", ""))


def bench_lines() -> list[list[str]]:
    """Every call of bench, as words."""
    found = []
    for path in WORKFLOWS:
        for step in steps(path):
            script = step.get("run", "").replace("\\\n", " ")
            found += [shlex.split(line) for line in script.splitlines() if ".venv/bin/bench" in line]
    return found


@pytest.mark.parametrize("words", bench_lines(), ids=lambda words: words[1])
def test_every_command_has_these_options(words: list[str]) -> None:
    command = typer.main.get_command(app)
    group: Any = command
    chosen = group.commands[words[1]]
    options = {name for parameter in chosen.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words[2:] if word.startswith("-")} <= options


def test_there_are_commands_to_check() -> None:
    assert {words[1] for words in bench_lines()} >= {"ab", "selfcheck", "count", "inspect", "run", "report"}
