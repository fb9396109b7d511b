"""Run in a process with TRITON_INTERPRET=1: checks of the interpreter's counts, repairs and guard.

Not collected by pytest: `test_interpreter.py` runs each function here in one subprocess and reports it.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton

from harness.counting import interpreter_repairs as repairs
from harness.counting.certificates import Certificate, Uncertified
from harness.counting.certifying import certify_interpreted
from harness.counting.interpreter import HooksMissing, check_hooks, count, counting, install_repairs, repaired
from harness.counting.interpreter_guard import DoubleStore, GridTooLarge, OutOfBounds
from harness.counting.patching import replaced
from implementations.attention.problem import AttentionProblem
from implementations.registry import Implementation

#: Run as a script: the folder is on the path.
kernels: Any = importlib.import_module("kernels_under_test")


def check_copy_by_hand() -> None:
    x, out = torch.randn(100), torch.zeros(100)
    counts = count(lambda: kernels.copy[(2,)](x, out, 100, BLOCK=64, MASKED=True))
    assert torch.equal(x, out)
    assert counts.load_bytes == {"X": 400}
    assert counts.store_bytes == {"OUT": 400}
    assert (counts.loads, counts.stores) == (2, 2)
    assert counts.masked_off_bytes == 2 * 28 * 4
    assert counts.kernels == ("copy",)
    assert counts.launches[0].grid == (2, 1, 1)
    assert counts.bytes_requested == 800
    assert counts.dot_flops == 0
    assert not counts.elementwise


def check_names_given_to_tensors_win() -> None:
    x, out = torch.randn(64), torch.zeros(64)
    named = count(lambda: kernels.copy[(1,)](x, out, 64, BLOCK=64, MASKED=True), {"source": x})
    assert named.load_bytes == {"source": 256}
    assert named.store_bytes == {"OUT": 256}
    views = torch.zeros(128)
    both = count(lambda: kernels.copy[(1,)](views[:64], views[32:96], 64, BLOCK=64, MASKED=True))
    assert both.load_bytes == both.store_bytes == {"X+OUT": 256}


def check_operations_by_hand() -> None:
    x, out = torch.randn(32), torch.zeros(32)
    counts = count(lambda: kernels.operations[(1,)](x, out, BLOCK=32))
    assert counts.elementwise == {
        "exp2": 32, "exp": 32, "add": 64, "fmax": 32, "compare": 32, "select": 32, "mul": 32, "sub": 32
    }  # fmt: skip
    assert counts.reductions == {"max": 32, "sum": 32}
    assert counts.exponentials == 64


def check_product_by_hand() -> None:
    a, b, out = torch.randn(16, 32), torch.randn(32, 8), torch.zeros(16, 8)
    counts = count(lambda: kernels.product[(1,)](a, b, out, 16, 32, 8))
    assert (counts.dots, counts.dot_flops) == (1, 2 * 16 * 32 * 8)
    assert counts.load_bytes == {"A": 16 * 32 * 4, "B": 32 * 8 * 4}
    torch.testing.assert_close(out, a @ b)


def check_atomics_by_hand() -> None:
    x, out = torch.ones(16), torch.zeros(4)
    counts = count(lambda: kernels.add_atomically[(3,)](x, out, BLOCK=16))
    assert out.tolist() == [12.0] * 4
    assert counts.atomic_bytes == {"OUT": 3 * 64}
    assert counts.atomics == 3
    assert counts.store_bytes == {}


def check_an_unmasked_load_is_caught() -> None:
    x, out = torch.randn(100), torch.zeros(128)
    with pytest.raises(OutOfBounds) as caught:
        count(lambda: kernels.copy[(2,)](x, out, 100, BLOCK=64, MASKED=False))
    message = str(caught.value)
    assert f"0x{x.data_ptr() + 400:x}" in message
    assert "program (1, 0, 0)" in message
    assert "copy: a load of 4 B" in message
    assert "0 B past the end of X" in message
    assert "28 such lanes" in message


def check_an_unmasked_store_is_caught_before_it_happens() -> None:
    buffer = torch.ones(64)
    out = buffer[:32]
    with pytest.raises(OutOfBounds, match=r"a store of 4 B"):
        count(lambda: kernels.stray_store[(1,)](out, 30))
    assert buffer.tolist() == [1.0] * 64
    with pytest.raises(OutOfBounds, match=r"before the start of OUT"):
        count(lambda: kernels.stray_store[(1,)](buffer[32:], -3))
    unguarded = count(lambda: kernels.stray_store[(1,)](out, 30), guard=False)
    assert unguarded.store_bytes == {"?": 8, "OUT": 8}


def check_double_stores_are_caught() -> None:
    out = torch.zeros(8)
    with pytest.raises(DoubleStore, match=r"program \(1, 0, 0\) stores .* program 0 of the launch"):
        count(lambda: kernels.everyone_stores_first[(2,)](out))
    with pytest.raises(DoubleStore, match=r"another lane of the same store"):
        count(lambda: kernels.lanes_collide[(1,)](out))
    assert count(lambda: kernels.stores_twice_itself[(1,)](out)).stores == 2
    with counting() as recorder:  # one store each, in two launches
        kernels.everyone_stores_first[(1,)](out)
        kernels.everyone_stores_first[(1,)](out)
    assert recorder.counts().stores == 2


def check_grids_that_a_gpu_refuses() -> None:
    x, out = torch.zeros(1), torch.zeros(1)
    with pytest.raises(GridTooLarge, match=r"65,536 programs along y"):
        count(lambda: kernels.copy[(1, 65_536)](x, out, 0, BLOCK=1, MASKED=True))
    with pytest.raises(GridTooLarge, match=r"along z"):
        count(lambda: kernels.copy[(1, 1, 65_536)](x, out, 0, BLOCK=1, MASKED=True))


def check_counting_leaves_no_trace() -> None:
    import triton.runtime.interpreter as stock

    before = dict(vars(stock.InterpreterBuilder)), stock.ReduceOps.apply_impl, stock.GridExecutor.__call__
    check_hooks()
    with pytest.raises(OutOfBounds):
        count(lambda: kernels.stray_store[(1,)](torch.zeros(2), 0))
    after = dict(vars(stock.InterpreterBuilder)), stock.ReduceOps.apply_impl, stock.GridExecutor.__call__
    assert before == after


def check_the_hook_canary_sings() -> None:
    import harness.counting.interpreter as interpreter
    from harness.counting.interpreter_counts import Recorder

    unhooked = replaced((interpreter, {"_memory_hooks": lambda recorder, builder: {}}))
    with unhooked, pytest.raises(HooksMissing, match="do not count"):
        check_hooks()
    deaf = replaced((Recorder, {"access": lambda *a: None}))
    with deaf, pytest.raises(HooksMissing, match="do not count"):
        check_hooks()
    check_hooks()


def check_the_bfloat16_canary_sings() -> None:
    with pytest.raises(repairs.RepairMissing, match=r"2\.5 \+ 2\.0 = "):
        repairs.check_repairs()  # not yet installed: this check runs first
    with repaired():
        repairs.check_repairs()
    with pytest.raises(repairs.RepairMissing):
        repairs.check_repairs()
    install_repairs()
    install_repairs()
    repairs.check_repairs()
    with repaired():
        pass
    repairs.check_repairs()  # installed for good


def check_casts_round_to_nearest_even() -> None:
    """All 65,536 upper halves × lower halves at and around the tie, against torch's own cast."""
    upper = torch.arange(65_536, dtype=torch.int64)
    for lower in (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        bits = (upper << 16 | lower).to(torch.int32)
        x, out = bits.view(torch.float32), torch.zeros(65_536, dtype=torch.bfloat16)
        kernels.cast[(1,)](x, out, 65_536, BLOCK=65_536)
        expected, nan = x.to(torch.bfloat16), x.isnan()
        assert torch.equal(out.isnan(), nan)
        assert torch.equal(out.view(torch.int16)[~nan], expected.view(torch.int16)[~nan]), hex(lower)


def check_every_bfloat16_widens_exactly() -> None:
    x = torch.arange(65_536, dtype=torch.int64).to(torch.int16).view(torch.bfloat16)
    out = torch.zeros(65_536)
    kernels.cast[(1,)](x, out, 65_536, BLOCK=65_536)
    torch.testing.assert_close(out, x.float(), rtol=0, atol=0, equal_nan=True)


def check_bfloat16_arithmetic_against_torch() -> None:
    x, y = (torch.randn(1024, dtype=torch.bfloat16) for _ in range(2))
    fused = (x.double() * y.double() + x.double()).bfloat16()
    expected = {"add": x + y, "mul": x * y, "max": torch.maximum(x, y), "div": x / y,
                "select": torch.maximum(x, y), "fma": fused}  # fmt: skip
    for name, right in expected.items():
        out = torch.zeros_like(x)
        kernels.combine[(1,)](x, y, out, 1024, OPERATION=name, BLOCK=1024)
        torch.testing.assert_close(out, right, rtol=0, atol=0)
    a, b, out = torch.randn(16, 32).bfloat16(), torch.randn(32, 16).bfloat16(), torch.zeros(16, 16)
    kernels.product[(1,)](a, b, out, 16, 32, 16)
    torch.testing.assert_close(out, a.float() @ b.float())


def check_float16_still_works() -> None:
    x, y = torch.randn(64).half(), torch.randn(64).half()
    out = torch.zeros_like(x)
    kernels.combine[(1,)](x, y, out, 64, OPERATION="add", BLOCK=64)
    assert torch.equal(out, x + y)
    wide = torch.zeros(64)
    kernels.cast[(1,)](x.bfloat16(), wide, 64, BLOCK=64)
    assert torch.equal(wide, x.bfloat16().float())


def check_a_loaded_scalar_is_an_index() -> None:
    out = torch.zeros(4, dtype=torch.int32)
    kernels.row_of[(1,)](torch.full((1,), 3, dtype=torch.int32), out, BLOCK=4)
    assert out.tolist() == [0, 1, 2, 0]


def certified_copies(block: Callable[[int], int]) -> tuple[Certificate | Uncertified, int]:
    """Of a kernel that copies n values a number of times that is smooth at multiples of 96 only: its bytes,
    and the largest length that was run."""
    seen: list[int] = []

    def prepare(problem: Any) -> Callable[[Any], torch.Tensor]:
        def copied(inputs: Any) -> torch.Tensor:
            size, out = problem.seq_len, torch.empty_like(inputs.q)
            seen.append(size)
            for _ in range(-(-size // 96)):
                kernels.copy[(size // 16,)](inputs.q, out, size, BLOCK=block(size), MASKED=True)
            return out

        return copied

    copies = Implementation(
        name="copies", operation="attention", summary="", prepare=prepare, exact=True, laws={},
        available=lambda target: None, supports=lambda problem, target: None,
    )  # fmt: skip
    problem = AttentionProblem(seq_len=48, heads=1, head_dim=1, dtype="float32")
    found = certify_interpreted(copies, problem, {"n": (48, 96, 144, 192, 240)})
    return next(one for one in found if one.quantity == "bytes"), max(seen)


def check_tiles_that_follow_the_size_have_no_polynomial() -> None:
    found, largest = certified_copies(lambda n: 16 if n <= 96 else 32)
    assert isinstance(found, Uncertified)
    assert found.reason == "its tiles change with the size: BLOCK=16, then BLOCK=32"
    assert largest == 240


def check_larger_tiles_are_certified_at_twice_the_sizes() -> None:
    found, largest = certified_copies(lambda n: 16)
    assert isinstance(found, Certificate)
    assert str(found.polynomial) == "(1/12)n²"
    assert largest == 480


CHECKS: dict[str, Callable[[], None]] = {
    name: check for name, check in globals().items() if name.startswith("check_") and name != "check_hooks"
}
#: It must see the interpreter unrepaired, and repairs it for the others.
FIRST = "check_the_bfloat16_canary_sings"


def main() -> None:
    print("triton", triton.__version__)
    for name in [FIRST, *(n for n in CHECKS if n != FIRST)]:
        try:
            CHECKS[name]()
            print("ok", name)
        except BaseException:
            print("FAILED", name, repr(traceback.format_exc()))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
