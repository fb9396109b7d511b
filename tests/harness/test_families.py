"""What of a suite is certified: one case a setting, over the sizes that its laws speak of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.counting.certificates import CertifiedFamily
from harness.families import INTERPRETED_LENGTHS, Family, families, sweeps_a_size
from harness.progress import PlainProgress
from harness.protocol import Certified
from harness.runner import Runner
from harness.store import RunFolder, read_certificates
from harness.suite import Suite
from harness.types import Case
from implementations.attention import OPERATION
from implementations.registry import load


@pytest.fixture(autouse=True)
def _loaded() -> None:
    load("attention")


def suite(*names: str, metrics: tuple[str, ...] = ("counts",), **axes: Any) -> Suite:
    swept = {"seq_len": (64, 128, 256)} | axes
    return Suite("s", "?", OPERATION, names, swept, metrics, 60.0, 9.0, Path("s.yaml"))


def found(*names: str, **axes: Any) -> list[Family]:
    return list(families(suite(*names, **axes)))


def test_every_setting_is_a_family_and_a_swept_size_is_none() -> None:
    settings = found("naive", dtype=("float32", "bfloat16"), causal=(False, True), head_dim=(16, 32, 64))
    assert len(settings) == 4
    assert {family.case.problem["head_dim"] for family in settings} == {16}
    assert all(list(family.sizes) == ["n", "d", "heads"] for family in settings)


def test_two_values_are_settings() -> None:
    assert len(found("naive", head_dim=(64, 128))) == 2


def test_the_interpreter_counts_one_head_in_the_length_alone() -> None:
    """Its tiles depend on head_dim, so that every one is a family."""
    kernels = found("triton_flash", heads=(16,), kv_heads=(4,), batch=(8,), head_dim=(32, 64, 128))
    assert len(kernels) == 3
    for family in kernels:
        assert family.interpreted
        assert family.sizes == {"n": INTERPRETED_LENGTHS}
        assert set(family.pinned) == {"heads", "batch", "kv_heads"}
        assert [family.case.problem[axis] for axis in ("heads", "kv_heads", "batch")] == [1, 1, 1]


def test_shared_heads_do_not_vary() -> None:
    (family,) = found("naive", heads=(8,), kv_heads=(2,))
    assert "heads" not in family.sizes


def test_decoding_grows_in_the_keys() -> None:
    (family,) = found("naive", seq_len=(1,), kv_len=(256, 512, 1024), causal=(True,))
    assert next(iter(family.sizes)) == "m"
    assert family.case.problem["seq_len"] == 1


@pytest.mark.parametrize(("sizes", "expected"), [((64, 128, 256), True), ((64, 128), False)])
def test_only_a_sweep_has_growth_to_certify(sizes: tuple[int, ...], expected: bool) -> None:
    assert sweeps_a_size(suite("naive", seq_len=sizes)) is expected


class Counter:
    """Certifies nothing and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def certify(self, case: Case, interpreted: bool, sizes: object) -> Certified:
        self.asked.append(case.key)
        return Certified((), {"counts": "nothing"})


def certify(chosen: Suite, folder: Path, already: Iterator[CertifiedFamily] | tuple[()] = ()) -> Counter:
    counter = Counter()
    progress = PlainProgress(Console(quiet=True), [])
    runner = Runner(chosen, "cpu", counter, RunFolder(folder), progress)  # type: ignore[arg-type]
    runner.certify(counter, {family.case.key for family in already})  # type: ignore[arg-type]
    return counter


def test_a_run_keeps_what_was_certified_and_a_resumed_one_the_rest(tmp_path: Path) -> None:
    chosen = suite("naive", "uniform")
    assert len(certify(chosen, tmp_path).asked) == 2
    kept = read_certificates(tmp_path)
    assert [family.missing for family in kept] == [{"counts": "nothing"}] * 2
    assert not certify(chosen, tmp_path, iter(kept)).asked
    assert len(certify(chosen, tmp_path, iter(kept[:1])).asked) == 1


def test_who_does_not_ask_for_counts_gets_no_certificates(tmp_path: Path) -> None:
    assert not certify(suite("naive", metrics=("latency",)), tmp_path).asked
    assert not certify(suite("naive", seq_len=(64,)), tmp_path).asked
