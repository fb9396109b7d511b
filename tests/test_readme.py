"""What the README shows works as shown."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from harness.suite_file import read_suite

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BENCH = Path(sys.executable).with_name("bench")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.S | re.M)


def test_the_make_commands_exist() -> None:
    targets = set(re.findall(r"^make (\w+)", README, flags=re.M))
    assert targets == {"run", "test"}
    for target in targets:
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^bench (\w+)", README, flags=re.M))))
def test_the_commands_exist(command: str) -> None:
    subprocess.run([BENCH, command, "--help"], check=True, capture_output=True)


def test_the_options_exist() -> None:
    text = subprocess.run([BENCH, "run", "--help"], check=True, capture_output=True, text=True).stdout
    section = README.partition("`bench run` takes")[2].partition("CUDA is an error")[0]
    options = re.findall(r"--[a-z-]+", section)
    assert len(options) >= 10
    for option in options:
        assert option in text


def test_the_suite_loads(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    assert read_suite(path, "cpu").axes["seq_len"] == (64, 128, 256, 512)


def test_the_plugin_joins(tmp_path: Path) -> None:
    (text,) = blocks("python")
    (tmp_path / "my_kernel.py").write_text(text)
    done = subprocess.run(
        [BENCH, "run", ROOT / "suites" / "smoke.yaml", "--plugin", "my_kernel.py", "--only", "mine",
         "--set", "causal=false", "--out", "out"], cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 ok" in done.stdout


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(d for extra in project["optional-dependencies"].values() for d in extra),
    ]
    table = README.partition("## What each dependency is for")[2]
    for requirement in wanted:
        name = re.split(r"[<>=;\[ ]", requirement)[0]
        assert re.search(rf"(^\| |, ){re.escape(name)}[ ,|(]", table, flags=re.M), name


def test_every_top_folder_is_named() -> None:
    for folder in ("implementations", "harness", "suites", "results", "reports", "tests"):
        assert (ROOT / folder).is_dir()
        assert f"`{folder}/`" in README
