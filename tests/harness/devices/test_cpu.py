"""The CPU device, with real calls. No test here judges how long anything took, only what was found."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from harness.devices import cpu, hosts
from harness.devices.activity import watch
from harness.devices.cpu import Block, Cpu, CpuTimer
from harness.devices.device import Unknown
from harness.devices.workers import worker_environment


def work() -> None:
    sum(range(2000))


def test_one_thread_by_default() -> None:
    device = Cpu()
    assert torch.get_num_threads() == 1
    assert device.info().facts["threads"] == 1
    assert device.judged == "cpu_time"
    assert device.target(interpreted=True).interpreted


def test_several_threads_are_judged_by_the_wall() -> None:
    try:
        assert Cpu(threads=2).judged == "wall_time"
        assert torch.get_num_threads() == 2
    finally:
        Cpu()


def test_a_sample_lasts_two_milliseconds() -> None:
    timer = Cpu().timer(work)
    assert timer.calls * timer.sample()["wall_time"] > 1e-3
    long = Cpu().timer(lambda: sum(range(800_000)))
    assert long.calls == 1


@pytest.mark.parametrize(
    ("cpu_seconds", "wall_seconds", "calls"),
    [
        (1e-6, 1e-6, range(2000, 2400)),
        (1e-4, 1e-4, range(20, 24)),
        (1.9e-3, 1.9e-3, range(2, 3)),
        (2e-3, 2e-3, range(1, 2)),
        (3.0, 3.0, range(1, 2)),
        (1e-6, 8e-4, range(10, 12)),  # waiting: eight milliseconds by the wall
        (0.0, 0.0, range(2_000_000, 20_000_000)),  # a clock that stands still does not make it endless
    ],
)
def test_a_sample_has_as_many_calls_as_last_two_milliseconds(
    monkeypatch: pytest.MonkeyPatch, cpu_seconds: float, wall_seconds: float, calls: range
) -> None:
    monkeypatch.setattr(cpu, "run_block", lambda call, calls: Block(wall_seconds, cpu_seconds, 0))
    assert cpu._calls_per_sample(work)[0] in calls


def test_slow_first_calls_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lazy set-up in the first call may make it look a thousand times longer than it is."""
    seen: list[int] = []

    def block(call: object, calls: int) -> Block:
        seen.append(calls)
        seconds = 1e-3 if len(seen) == 1 else 1e-6
        return Block(seconds, seconds, 0)

    monkeypatch.setattr(cpu, "run_block", block)
    assert 2000 <= cpu._calls_per_sample(work)[0] < 2400
    assert max(after / before for before, after in pairwise(seen)) <= 10


def test_both_clocks_are_recorded_and_described() -> None:
    device = Cpu()
    timer = device.timer(work)
    samples = [timer.sample() for _ in range(3)]
    assert all(set(sample) == {"cpu_time", "wall_time"} for sample in samples)
    assert timer.finish() == {}
    assert timer.omitted() == {}
    facts = timer.describe()
    assert facts["judged"] == "cpu_time"
    assert facts["cache"] == "hot"
    assert facts["calls_per_sample"] == timer.calls > 1


def test_a_call_that_waits_is_not_called_a_thousand_times_and_is_flagged() -> None:
    timer = Cpu().timer(lambda: time.sleep(5e-3))
    assert timer.calls <= 2
    assert timer.sample()["wall_time"] >= 5e-3
    assert any(flag.startswith("contended") for flag in timer.flags())


@pytest.mark.parametrize(
    ("block", "flags"),
    [
        (Block(1.0, 1.0, 0), []),
        (Block(1.2, 1.0, 0), ["contended: wall time is 1.20 × CPU time"]),
        (Block(1.0, 0.0, 0), ["contended: wall time is spent without CPU time"]),
        (Block(1.0, 1.0, 200_000), ["page faults: 200000 in each call"]),
    ],
)
def test_flags(block: Block, flags: list[str]) -> None:
    timer = CpuTimer(work, 1, 0.0, Cpu())
    timer.blocks = [block] * 5
    assert list(timer.flags()) == flags


@pytest.mark.parametrize(("cache", "calls"), [(cpu.HOT, 4), (cpu.LONG_CALLS, 3)])
def test_a_sample_of_short_calls_begins_with_filled_caches(cache: str, calls: int) -> None:
    """Other implementations ran in between: the first call of a sample pays for their caches."""
    made = []
    timer = CpuTimer(lambda: made.append(0), 3, 0.0, Cpu(), cache)
    timer.sample()
    assert len(made) == calls
    assert timer.describe()["cache"] == cache
    timer.evict()
    timer.sample()
    assert len(made) == calls + 3
    assert timer.describe()["cache"] == cpu.EVICTED


def test_evicted_caches_make_what_fits_them_slower() -> None:
    """A sum of what one core's caches hold, right after one of more than they hold; the best of many."""
    numbers = torch.zeros(1 << 15)
    timer = CpuTimer(numbers.sum, 1, 0.0, Cpu(), cpu.HOT)
    warm = min(timer.sample()["cpu_time"] for _ in range(200))
    timer.evict()
    assert min(timer.sample()["cpu_time"] for _ in range(200)) > 1.1 * warm


def test_long_calls_are_not_called_once_more() -> None:
    assert Cpu().timer(work).cache == cpu.HOT
    assert Cpu().timer(lambda: sum(range(5_000_000))).cache == cpu.LONG_CALLS


def test_the_judged_time_is_the_fifth_and_the_other_the_median() -> None:
    samples = tuple(float(x) for x in range(1, 102))
    assert Cpu().summarise("cpu_time", samples).value == 21
    assert Cpu().summarise("wall_time", samples).value == 51


def test_warm_up_goes_on_while_calls_fault_new_pages_in(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = iter([1000, 1000, 1000, 0, 0, 0])
    seen = []

    def block(call: object, calls: int) -> Block:
        seen.append(calls)
        return Block(1.0, 1.0, next(faults))

    monkeypatch.setattr(cpu, "run_block", block)
    cpu._warm_up(work)
    assert len(seen) == 4


def test_the_collector_sleeps_during_a_block_and_wakes_after_an_error() -> None:
    states = []
    cpu.run_block(lambda: states.append(gc.isenabled()), 1)
    with pytest.raises(ZeroDivisionError):
        cpu.run_block(lambda: 1 // 0, 1)
    assert states == [False]
    assert gc.isenabled()


def test_peak_memory_of_naive_attention_is_two_score_matrices() -> None:
    q = torch.randn(1, 2, 256, 32)

    def naive() -> torch.Tensor:
        return ((q @ q.mT) * 0.1).softmax(-1) @ q

    peak = Cpu().peak_memory(naive)["peak_memory"].value
    two = 2 * (2 * 256 * 256 * 4)
    assert two <= peak <= two + 64, "but for the scalar 0.1, which is a tensor for a moment"


def test_peak_memory_sees_the_workspace_of_a_kernel() -> None:
    q = torch.randn(1, 4, 512, 64)
    peak = Cpu().peak_memory(lambda: scaled_dot_product_attention(q, q, q))["peak_memory"].value
    output_and_log_sum_exp = q.numel() * 4 + 4 * 512 * 4
    assert output_and_log_sum_exp < peak < 2 * output_and_log_sum_exp


def test_kernels_name_the_attention_operator_first() -> None:
    q = torch.randn(1, 2, 64, 32)

    def call() -> torch.Tensor:
        return scaled_dot_product_attention(q * 2, q, q).relu()

    names = Cpu().kernels(call)
    assert names[:2] == (
        "aten::scaled_dot_product_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
    )
    assert names.index("aten::mul") < names.index("aten::relu")


def test_views_are_not_kernels() -> None:
    q = torch.randn(2, 8, 8)
    assert watch(lambda: q.transpose(1, 2).reshape(4, 32).view(-1)[1:]).operators == (
        "aten::clone",
        "aten::copy_",
    )


def test_energy_is_unknown_in_words() -> None:
    with pytest.raises(Unknown, match="no energy counter"):
        Cpu().energy(work)


def test_available_memory_is_less_than_the_free_memory() -> None:
    assert 0 < Cpu().memory_available() <= 0.9 * hosts.memory_limit()
    Cpu().release()
    Cpu().synchronize()


def test_control_groups_limit_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "cgroup" / "job" / "worker"
    inner.mkdir(parents=True)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/job/worker\n5:cpu:/elsewhere\n")
    for folder, limit, used in ((inner, "max", "100"), (inner.parent, "3000000", "2000000")):
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text(used)
        (folder / "memory.stat").write_text("anon 7\ninactive_file 500000\n")
    monkeypatch.setattr(hosts, "PROC", tmp_path)
    monkeypatch.setattr(hosts, "CGROUPS", tmp_path / "cgroup")
    assert hosts.memory_limit() == 3_000_000
    assert hosts.memory_free() == 1_500_000, "reclaimable cache is free"


def test_control_groups_of_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cgroup" / "memory" / "box"
    folder.mkdir(parents=True)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("4:memory:/box\n0::/\n")
    (folder / "memory.limit_in_bytes").write_text("1000000")
    (folder / "memory.usage_in_bytes").write_text("999999999")
    monkeypatch.setattr(hosts, "PROC", tmp_path)
    monkeypatch.setattr(hosts, "CGROUPS", tmp_path / "cgroup")
    assert hosts.memory_limit() == 1_000_000
    assert hosts.memory_free() == 0


def test_a_host_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "PROC", tmp_path)
    monkeypatch.setattr(hosts, "GOVERNOR", tmp_path / "none")
    assert hosts.governor() is None
    assert hosts.cpu_name()
    assert hosts.memory_free() > 0


def test_worker_environment_imports_no_torch() -> None:
    code = "import sys, harness.devices.workers; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_worker_environment_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    ordinary, interpreted = worker_environment("cpu", False), worker_environment("cpu", True)
    assert "TRITON_INTERPRET" not in ordinary
    assert interpreted["TRITON_INTERPRET"] == "1"
    assert ordinary["OMP_NUM_THREADS"] == "1"
    assert int(ordinary["MALLOC_TRIM_THRESHOLD_"]) > 2**32
    assert "MALLOC_TRIM_THRESHOLD_" not in worker_environment("cuda", False)


FAULTS = """
import resource, torch
def call():
    torch.empty(2**22).fill_(1)
for _ in range(12):
    call()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    call()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_a_worker_keeps_its_pages() -> None:
    pages = 2**24 // resource.getpagesize()
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        env=worker_environment("cpu", False), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) < pages
