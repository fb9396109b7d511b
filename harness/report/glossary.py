"""The words of the page."""

from __future__ import annotations

GLOSSARY = (
    (
        "CPU time",
        "Process CPU time of one call, as its 20th percentile over samples: other programs can only add.",
    ),
    (
        "GPU time, cold and hot",
        "Time of one call with the L2 cache flushed before it, and of back-to-back calls.",
    ),
    (
        "Time (own clock)",
        "On a page of machines that are timed differently: the CPU time of one, the GPU time of another.",
    ),
    (
        "Interval",
        "Central 95 % of what the samples leave possible. Two times are tied when their intervals overlap.",
    ),
    (
        "Exponent",
        "p of a leading term nᵖ over the sizes of this sweep, with its central 95 %.",
    ),
    (
        "Declared, counted, measured",
        "What the implementation claims of itself; what instruments counted, without noise; what this"
        " device showed.",
    ),
    (
        "Confirmed, refuted, inconclusive",
        "Of a declared law over this sweep only. Inconclusive means that the data leave it open, and "
        "the reason says what would settle it.",
    ),
    (
        "Impossible",
        "A time below what the device's peak arithmetic and bandwidth allow for the work that exact "
        "attention or the counts require, or flat over 16 × the length while the work grows. It is never "
        "fast: what was timed is not what was claimed.",
    ),
    (
        "≤",
        "O(f) is an upper bound: a cost that grows more slowly than declared keeps it.",
    ),
    (
        "Nothing is better in both",
        "The Pareto front: every other one is slower or takes more (memory, error).",
    ),
    (
        "Roofline",
        "The rate that a device allows at most: its arithmetic, or its memory bandwidth times the FLOPs"
        " done per byte moved, whichever is less (Williams, Waterman and Patterson 2009).",
    ),
    (
        "FLOP convention",
        "How the work of attention is counted under a mask: exact pairs, half of the square, or all of it.",
    ),
    (
        "Overhead-bound",
        "A point whose time is at most 1.5 × the smallest of its series although the counted work has"
        " at least doubled: it shows the cost of calling, not of computing.",
    ),
    (
        "Exact, approximation",
        "An exact implementation computes softmax attention up to rounding. An approximation computes"
        " something else; its error is reported beside that of `uniform`, the mean of V.",
    ),
    (
        "Error",
        "‖out − ref‖ ÷ ‖ref‖ against float64 from the inputs as rounded to the tested dtype.",
    ),
    (
        "× naive",
        "That error divided by the error of the plain formula in the same dtype; up to 2 is usual.",
    ),
    (
        "Interpreted",
        "The kernel ran in Triton's interpreter: its result and its counts are real, its time is not "
        "reported.",
    ),
)
