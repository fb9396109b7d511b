"""`bench ab` on real workers, worktrees in a repository of its own, and machines that are too busy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import main
from harness.gate import busy
from harness.gate.builds import build, git, worktree
from harness.gate.reading import NotComparable
from harness.types import BenchError

KERNELS = """
import torch
from implementations.registry import implementation

KEPT = []

def plain(problem, inputs):
    return ((inputs.q * problem.scale) @ inputs.k.mT).softmax(-1) @ inputs.v

@implementation("steady", operation="attention", exact=True, laws={"time": "n^2*d"})
def steady(problem):
    return lambda inputs: plain(problem, inputs)

@implementation("broken", operation="attention", exact=True, laws={"time": "n^2*d"})
def broken(problem):
    return lambda inputs: plain(problem, inputs) * WRONG

@implementation("greedy", operation="attention", exact=True, laws={"time": "n^2*d"})
def greedy(problem):
    def attend(inputs):
        room = torch.empty(EXTRA, dtype=torch.uint8)
        found = plain(problem, inputs)
        del room
        return found
    return attend
"""
SUITE = """
name: two_builds
implementations: [naive]
axes: {seq_len: 32, heads: 1, head_dim: 16, dtype: float32}
"""


def test_two_plugin_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, head, suite = tmp_path / "base.py", tmp_path / "head.py", tmp_path / "suite.yaml"
    base.write_text(KERNELS.replace("WRONG", "1.0").replace("EXTRA", "8"))
    head.write_text(KERNELS.replace("WRONG", "1.1").replace("EXTRA", str(8 << 20)))
    suite.write_text(SUITE)
    arguments = ["ab", str(base), str(head), "--suite", str(suite), "--device", "cpu", "--allow-busy"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json", "-"])
    found = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert ended.value.code == found["exit_code"] == 3
    assert set(found["exit_codes"]) >= {3, 1}
    said = {(f["case"].split("/")[1], f["metric"]): f for f in found["findings"]}
    assert {name for name, _ in said} == {"steady", "broken", "greedy"}
    assert "off by" in said["broken", "accuracy"]["words"]
    assert said["greedy", "peak_memory"]["verdict"] == "slower"
    assert said["steady", "accuracy"]["verdict"] == said["steady", "peak_memory"]["verdict"] == "same"
    assert said["steady", "time"]["before"] > 0
    assert "+5 %" in found["facts"]["controls"]


def test_one_plugin_file_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(KERNELS)
    with pytest.raises(SystemExit) as ended:
        main(["ab", str(tmp_path / "one.py"), "--device", "cpu"])
    assert ended.value.code == 2


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits of one package."""
    root = tmp_path / "repository"
    (root / "implementations").mkdir(parents=True)
    run = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    for text in ("one", "two"):
        (root / "implementations" / "__init__.py").write_text(f'"""{text}"""\n')
        subprocess.run(["git", "add", "."], cwd=root, check=True)
        subprocess.run([*run, "commit", "-q", "-m", text], cwd=root, check=True)
    return root


def test_a_worktree_is_the_commit_and_goes_away(repository: Path) -> None:
    with worktree("HEAD~1", repository) as root:
        assert "one" in (root / "implementations" / "__init__.py").read_text()
        assert "two" in (repository / "implementations" / "__init__.py").read_text()
        kept = root
    assert not kept.exists()
    assert (git(repository, "worktree", "list") or "").count("\n") == 0


def test_a_worktree_goes_away_after_an_error(repository: Path) -> None:
    with pytest.raises(RuntimeError, match="midway"), worktree("HEAD", repository) as root:
        raise RuntimeError("midway")
    assert not root.exists()


KILLED = """
import os, pathlib, signal, sys
from harness import cli
from harness.gate.builds import worktree

@cli.app.command()
def hold(repository: pathlib.Path) -> None:
    with worktree("HEAD", repository) as root:
        print(root, flush=True)
        os.kill(os.getpid(), int(os.environ["SIGNAL"]))

cli.main(["hold", sys.argv[1]])
"""


def killed_with(repository: Path, number: int) -> tuple[Path, int]:
    """The worktree of a command that a signal ended, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, repository], capture_output=True, text=True, check=False,
        env={**os.environ, "SIGNAL": str(number), "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    return Path(done.stdout.strip()), done.returncode


def test_a_terminated_command_leaves_no_worktree(repository: Path) -> None:
    root, code = killed_with(repository, signal.SIGTERM)
    assert (root.parent.exists(), code) == (False, 128 + signal.SIGTERM)


def test_what_a_killed_command_left_goes_with_the_next(repository: Path) -> None:
    root, code = killed_with(repository, signal.SIGKILL)
    assert (root.is_dir(), code) == (True, -signal.SIGKILL)
    with worktree("HEAD", repository) as mine, worktree("HEAD~1", repository) as another:
        assert not root.parent.exists()
        assert mine.is_dir()  # of a living process: it stays
        assert another.is_dir()
    assert (git(repository, "worktree", "list") or "").count("\n") == 0


@pytest.mark.parametrize("ref", ["no-such-branch", "--upload-pack=x", "HEAD~99"])
def test_an_unknown_ref_is_not_comparable(repository: Path, ref: str) -> None:
    with pytest.raises(NotComparable, match="no such commit"), worktree(ref, repository):
        pass


def test_a_plugin_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no such plugin file"), build(str(tmp_path / "none.py")):
        pass


def test_pressure_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    assert busy.stalled(path) is None
    path.write_text("some avg10=66.64 avg60=35.18 avg300=10.20 total=1\nfull avg10=0.00\n")
    assert busy.stalled(path) == 66.64


def test_a_busy_machine_is_said_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cpu"
    monkeypatch.setattr(busy, "PRESSURE", path)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    path.write_text("some avg10=1.00 avg60=0.00 avg300=0.00 total=1\n")
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))
    assert busy.refuse_if_busy("cpu", allow=False) == ()
    path.write_text("some avg10=80.00 avg60=0.00 avg300=0.00 total=1\n")
    assert "80 % of the last 10 s" in busy.refuse_if_busy("cpu", allow=False)[0]
    monkeypatch.setattr(os, "getloadavg", lambda: (40.0, 0.5, 0.5))
    with pytest.raises(busy.Busy, match="40 tasks on 2 CPUs") as refused:
        busy.refuse_if_busy("cpu", allow=False)
    assert refused.value.exit_code == 4
    assert len(busy.refuse_if_busy("cpu", allow=True)) == 2
