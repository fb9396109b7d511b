"""The builds that are compared: a commit in a worktree of its own, the working tree, or a plugin file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import harness
from harness import protocol
from harness.executor import WorkerDied, WorkerExecutor
from harness.gate.reading import NotComparable
from harness.types import BenchError, Case, Result

assert harness.__file__ is not None
CHECKOUT = Path(harness.__file__).resolve().parents[1]
CONTROL = Path(__file__).with_name("control_kernel.py")
#: Folders of worktrees begin with this and the process that made them.
OURS = "attnbench-"


@dataclass(frozen=True, slots=True)
class Build:
    """Where the implementations of one side come from.

    root     the checkout that `implementations` is imported from
    plugins  files whose implementations join
    """

    name: str
    root: Path
    plugins: tuple[str, ...] = ()

    def executor(self, device: str, operation: str, timeout: float, log: Path) -> SideExecutor:
        """Fresh processes of this build, which know the control kernel as well."""
        return SideExecutor(
            device,
            operation,
            timeout,
            log,
            (str(CONTROL), *self.plugins),
            (sys.executable, "-m", "harness.gate.side_worker", str(self.root)),
        )


@dataclass(slots=True)
class SideExecutor(WorkerExecutor):
    """Workers of one build. A worker that dies is not replaced in the midst of a session."""

    lanes: dict[str, bool] = field(default_factory=dict)

    def hold(
        self, cases: Sequence[Case], interpreted: bool, metrics: Sequence[str], release: bool
    ) -> list[Result]:
        """Judge, warm up and keep the cases of one problem. A death of the worker is every case's result."""
        found: list[Result] = []
        try:
            request = protocol.HoldRequest(tuple(cases), tuple(metrics), release)
            for answer in self._ask(interpreted, request, lambda touch: None):
                if isinstance(answer, protocol.Measured):
                    found.append(answer.result)
        except WorkerDied as death:
            self._discard(interpreted)
            known = {result.case.key for result in found}
            found += [Result(case, death.status, death.reason) for case in cases if case.key not in known]
        return found

    def sample(self, key: str, move: bool, turn: int) -> protocol.Sampled:
        """A sample of a held case, in other memory if it is to `move`. Raises WorkerDied."""
        for answer in self._ask(False, protocol.SampleRequest(key, move, turn), lambda touch: None):
            if isinstance(answer, protocol.Sampled):
                return answer
        raise AssertionError("the worker ended its answers without samples")


@contextmanager
def build(what: str | None, plugins: Sequence[Path] = ()) -> Iterator[Build]:
    """The build that a user names: None for the working tree, a file for its plugin, else a git ref.

    Raises NotComparable for a ref that git does not know, BenchError for a file that is none.
    """
    joined = tuple(str(path.resolve()) for path in plugins)
    if what is None:
        yield Build("working tree", CHECKOUT, joined)
    elif what.endswith(".py"):
        path = Path(what)
        if not path.is_file():
            raise BenchError(f"{what}: no such plugin file")
        yield Build(what, CHECKOUT, (*joined, str(path.resolve())))
    else:
        with worktree(what) as root:
            yield Build(what, root, joined)


@contextmanager
def worktree(ref: str, repository: Path = CHECKOUT) -> Iterator[Path]:
    """A checkout of a ref in a folder of its own, gone afterwards. Raises NotComparable."""
    commit = git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if not commit:
        raise NotComparable(
            f"{ref}: git knows no such commit here; fetch it, or name a plugin file ending in .py"
        )
    _remove_left(repository)
    with tempfile.TemporaryDirectory(prefix=f"{OURS}{os.getpid()}-") as scratch:
        root = Path(scratch) / "build"
        if git(repository, "worktree", "add", "--detach", "--quiet", str(root), commit) is None:
            raise NotComparable(f"{ref}: git could not check it out in a worktree")
        try:
            yield root
        finally:
            git(repository, "worktree", "remove", "--force", str(root))


def _remove_left(repository: Path) -> None:
    """Remove the worktrees of runs that were killed: their folders name processes that are no more."""
    for line in (git(repository, "worktree", "list", "--porcelain") or "").splitlines():
        scratch = Path(line.removeprefix("worktree ")).parent
        owner = scratch.name.removeprefix(OURS).partition("-")[0]
        if scratch.name.startswith(OURS) and owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(scratch, ignore_errors=True)
    git(repository, "worktree", "prune")


def git(repository: Path, *arguments: str) -> str | None:
    """What git prints, or None when it fails."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=repository, capture_output=True, text=True, check=True, timeout=120
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
