"""Assembly by hand: instruction kinds, and loops that a backward jump alone would get wrong."""

from __future__ import annotations

import pytest

from harness.counting import assembly
from harness.counting.assembly import AMDGCN, SASS, count_instructions, hottest_loop, instructions
from harness.counting.occupancy import MULTIPROCESSORS, occupancy

BODY = """
        /*0010*/                   LDGSTS.E.BYPASS.128 [R1], [R2.64] ;
        /*0020*/                   LDG.E.64 R4, [R2.64] ;
        /*0030*/                   LDSM.16.M88.4 R8, [R3] ;
        /*0040*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0050*/                   HMMA.1688.F32.TF32 R4, R8, R12, R4 ;
        /*0060*/                   MUFU.EX2 R4, R4 ;
        /*0070*/                   FADD R4, R4, R5 ;
        /*0080*/                   NOP ;
        /*0090*/               @P0 STL [R1], R5 ;
"""


def test_kinds_widths_and_flops() -> None:
    counts = count_instructions(instructions(assembly.read_sass(BODY)), SASS)
    assert (counts.total, counts.tensor_core, counts.global_memory) == (8, 2, 2)
    assert (counts.shared_memory, counts.local_memory, counts.special_function) == (1, 1, 1)
    assert counts.mma_flops == 2 * 16 * 8 * 16 + 2 * 16 * 8 * 8
    assert counts.global_bytes == 16 + 8


@pytest.mark.parametrize(
    ("opcode", "flops"),
    [
        ("HGMMA.64x128x16.F32", 2 * 64 * 128 * 16 // 4),
        ("IMMA.16832.S8.S8", 2 * 16 * 8 * 32),
        ("UTCHMMA", None),
        ("v_mfma_f32_32x32x8_f16", 2 * 32 * 32 * 8),
    ],
)
def test_flops_of_an_instruction(opcode: str, flops: int | None) -> None:
    dialect = AMDGCN if opcode.startswith("v_") else SASS
    assert count_instructions([assembly.Instruction(opcode)], dialect).mma_flops == flops


def test_bytes_of_the_copy_engine_are_unknown_not_zero() -> None:
    counts = count_instructions([assembly.Instruction("UTMALDG.4D")], SASS)
    assert counts.global_bytes is None
    assert counts.global_memory == 1


def test_a_wait_behind_the_end_is_no_loop() -> None:
    """The wait jumps back to `.L_x_9`, over the whole kernel; only the real loop is one."""
    padding = "                   IADD3 R1, R1, 0x1, RZ ;\n" * 200
    text = f"""
.L_x_3:
        /*0000*/              @!P2 BRA `(.L_x_2) ;
.L_x_9:
{BODY}
        /*00a0*/               @P1 BRA `(.L_x_3) ;
{padding}
        /*0f00*/                   EXIT ;
.L_x_2:
        /*0f10*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [R1], R2 ;
        /*0f20*/              @!P2 BRA `(.L_x_2) ;
        /*0f30*/                   BRA `(.L_x_9) ;
.L_x_12:
        /*0f40*/                   BRA `(.L_x_12);
"""
    loop = hottest_loop(assembly.read_sass(text), SASS)
    assert sum(i.opcode.startswith("HMMA") for i in loop) == 2
    assert not any(i.opcode == "IADD3" for i in loop)


def test_of_two_tile_loops_the_one_without_a_mask_is_hot() -> None:
    masked = BODY + "        /*0200*/ FSEL R1, R2, R3, P0 ;\n"
    text = f""".L_x_1:
{masked}
        /*00a0*/               @P1 BRA `(.L_x_1) ;
.L_x_2:
{BODY}
        /*00a0*/               @P1 BRA `(.L_x_2) ;
        /*0f00*/                   EXIT ;
"""
    assert not any(i.opcode == "FSEL" for i in hottest_loop(assembly.read_sass(text), SASS))


def test_an_outer_loop_does_not_hide_the_inner() -> None:
    text = f""".L_x_1:
        /*0000*/                   FMUL R1, R2, R3 ;
.L_x_2:
{BODY}
        /*00a0*/               @P1 BRA `(.L_x_2) ;
        /*00b0*/               BRA.U !UP1, `(.L_x_1) ;
        /*0f00*/                   EXIT ;
"""
    assert not any(i.opcode == "FMUL" for i in hottest_loop(assembly.read_sass(text), SASS))


def test_a_straight_kernel_has_no_loop() -> None:
    assert hottest_loop(assembly.read_sass(BODY), SASS) == ()


def test_amd_assembly() -> None:
    text = """
.LBB0_1:
\tglobal_load_dwordx4 v[0:3], v4, s[0:1]
\tds_read_b128 v[0:3], v5
\tv_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]
\tv_exp_f32_e32 v1, v2
\ts_nop 1
\tv_add_f32_e32 v1, v2, v3
\tv_add_f32_e32 v1, v2, v3
\tv_add_f32_e32 v1, v2, v3
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
.Lfunc_end0:
\tv_after_the_end
"""
    loop = hottest_loop(assembly.read_amdgcn(text), AMDGCN)
    counts = count_instructions(loop, AMDGCN)
    assert (counts.total, counts.tensor_core, counts.shared_memory, counts.special_function) == (8, 1, 1, 1)
    assert counts.global_bytes == 16
    assert counts.mma_flops == 2 * 16 * 16 * 16


def test_occupancy_by_hand() -> None:
    """Figures of NVIDIA's occupancy calculator."""
    a100 = MULTIPROCESSORS["sm_80"]
    assert a100.shared_bytes == 167_936
    full = occupancy(a100, warps=8, registers=32, shared_bytes=0)
    assert (full.ratio, full.blocks) == (1.0, 8)
    # 255 registers: 8,192 a warp, 8 warps an SM: one block of 8 or two of 4
    wide = occupancy(a100, warps=4, registers=255, shared_bytes=0)
    assert (wide.ratio, wide.blocks, wide.limited_by) == (0.125, 2, "registers")
    # 163 KiB and the system's 1 KiB fill an SM exactly
    whole = occupancy(a100, warps=4, registers=32, shared_bytes=166_912)
    assert (whole.blocks, whole.limited_by) == (1, "shared memory")
    assert occupancy(a100, warps=4, registers=32, shared_bytes=166_912 + 128).blocks == 0
    assert occupancy(MULTIPROCESSORS["sm_86"], warps=1, registers=32, shared_bytes=0).blocks == 16
    blackwell = occupancy(
        MULTIPROCESSORS["sm_100"], warps=4, registers=64, shared_bytes=0, tensor_columns=256
    )
    assert (blackwell.blocks, blackwell.limited_by) == (2, "tensor memory")
