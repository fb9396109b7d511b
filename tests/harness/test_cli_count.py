"""`bench count`: closed forms come out as equalities; what has none says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(sys.executable).with_name("bench")
SUITE = Path(__file__).parents[2] / "suites" / "seq_scaling.yaml"


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[tuple[str, str], str]]:
    """What is printed, and (implementation, quantity) → polynomial, in fp16, d = 64, one head."""
    folder = tmp_path_factory.mktemp("count")
    done = subprocess.run(
        [BENCH, "count", SUITE, "--set", "dtype=float16", "--only", "naive", "--only", "sdpa_*",
         "--only", "triton_flash", "--only", "flex", "--save", "certificates.json"],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "220"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    records = json.loads((folder / "certificates.json").read_text())
    texts = {
        (found["implementation"], found["quantity"]): found["text"].split(" = ")[1].split(" (")[0]
        for family in records
        for found in family["certificates"]
    }
    return done.stdout, texts


# u = n²·b with b = 2 bytes; the kernel's counts are of one head with d = 64.
FORMS = {
    ("naive", "flops"): "4·n²·d·heads",
    ("naive", "peak_bytes"): "4·n²·heads",  # 2u: scores and probabilities
    ("naive", "bytes"): "8·n²·heads + 12·n·d·heads",  # 4u + 6·n·d·b: q is scaled before the product
    ("naive", "exponentials"): "n²·heads",
    ("sdpa_flash", "flops"): "4·n²·d·heads",
    ("sdpa_flash", "bytes"): "8·n·d·heads + 4·n·heads",  # q, k, v, o and a float32 sum a row
    ("sdpa_flash", "depth"): "1",
    ("triton_flash", "flops"): "256n²",
    ("triton_flash", "bytes_stored"): "132n",  # n·d·b + 4n
    ("triton_flash", "loaded_q"): "128n",  # n·d·b
    ("triton_flash", "peak_bytes"): "132n",  # the output and log Σ exp of each row
}


@pytest.mark.parametrize("key", FORMS, ids=" ".join)
def test_closed_forms(certified: tuple[str, dict[tuple[str, str], str]], key: tuple[str, str]) -> None:
    assert certified[1][key] == FORMS[key]


def test_flash_loads_keys_and_values_once_a_tile_of_queries(
    certified: tuple[str, dict[tuple[str, str], str]],
) -> None:
    loaded = certified[1]["triton_flash", "bytes_loaded"]
    square, _, linear = loaded.partition("n² + ")
    assert linear == "128n"  # the queries: n·d·b
    assert (2 * 64 * 2) % int(square) == 0  # 2·n²·d·b / BM for a whole tile of BM queries


def test_what_has_no_certificate_says_why(certified: tuple[str, dict[tuple[str, str], str]]) -> None:
    shown = certified[0]
    assert "compiled code cannot be followed" in shown


def test_the_tiles_of_a_kernel_are_stated(certified: tuple[str, dict[tuple[str, str], str]]) -> None:
    assert "float16, not causal, forward, BLOCK_D=64, BLOCK_M=64, BLOCK_N=64" in certified[0]
    assert "n a multiple of 64" in certified[0]


def test_what_no_other_device_has_is_named(certified: tuple[str, dict[tuple[str, str], str]]) -> None:
    shown = certified[0]
    assert "CUDA only" in shown
