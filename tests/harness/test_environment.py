"""The environment is captured as it is; what cannot be read is absent, with words."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import environment
from harness.devices import hosts
from harness.devices.cpu import Cpu


def test_what_a_reader_needs_is_there() -> None:
    found = environment.capture(Cpu())
    assert found.device.kind == "cpu"
    assert {"cpu", "hardware_threads", "memory_bytes", "system", "python"} <= set(found.host)
    assert {"torch", "numpy", "scipy"} <= set(found.packages)
    assert None not in found.host.values()


def test_what_the_system_does_not_tell_is_absent_with_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hosts, "governor", lambda: None)
    monkeypatch.setattr(environment, "_commit", lambda: (None, None))
    found = environment.capture(Cpu())
    assert "governor" not in found.host
    assert found.device.unknown["governor"] == "the system does not tell"
    assert "not a git checkout" in found.device.unknown["git_commit"]
    assert found.git_commit is None
    assert found.git_dirty is None


def test_an_unnamed_distribution_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> dict[str, str]:
        raise OSError

    monkeypatch.setattr("platform.freedesktop_os_release", fail)
    told, unknown = environment.host()
    assert "distribution" not in told
    assert "distribution" in unknown


def test_packages_that_are_not_installed_are_absent() -> None:
    assert environment.packages(["numpy", "no-such-package-at-all"]).keys() == {"numpy"}


def test_commit_and_dirty_flag(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    assert environment._commit(tmp_path) == (None, None)
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    commit, dirty = environment._commit(tmp_path)
    assert commit is not None
    assert len(commit) == 40
    assert dirty is False
    (tmp_path / "file").write_text("2")
    assert environment._commit(tmp_path) == (commit, True)


def test_no_git_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment._commit(tmp_path) == (None, None)
