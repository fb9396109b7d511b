"""Shapes of tiles for the flash kernels that do more than the causal rule, where it takes other ones.

Found by compiling ahead of time, as those of the plain kernels: the first of each list spills no register on
that GPU. A mask, read tile by tile like the keys, costs the most registers.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Queries, keys, warps, stages.
Shape = tuple[int, int, int, int]
#: Compute capability -> shapes.
Shapes = dict[int, list[Shape]]

_SMALL: list[Shape] = [(32, 32, 4, 2)]
_EITHER_MASK: Mapping[tuple[str, int], Shapes] = {
    ("forward", 64): {
        80: [(128, 64, 8, 2), (128, 64, 8, 3), (64, 64, 4, 2)],
        90: [(128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 3)],
        100: [(128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 3)],
        120: [(128, 64, 8, 2), (128, 64, 8, 3), (64, 64, 4, 2)],
    },
    ("forward", 128): {
        90: [(128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 2)],
        100: [(128, 64, 8, 3), (64, 64, 4, 2)],
    },
    ("keys", 64): {80: _SMALL, 90: [(32, 64, 4, 2), *_SMALL], 100: [(32, 64, 8, 2), *_SMALL], 120: _SMALL},
    ("keys", 128): {80: _SMALL, 90: [(32, 64, 8, 2), *_SMALL], 100: _SMALL, 120: _SMALL},
    ("queries", 64): {
        80: [(128, 32, 8, 2)],
        90: [(64, 64, 4, 2), (128, 64, 8, 1)],
        100: [(128, 64, 8, 2)],
        120: [(128, 32, 8, 2)],
    },
    ("queries", 128): {90: [(128, 32, 8, 2), (64, 32, 4, 2)]},
}

#: (what the kernel does besides, kernel, width of the head dimension) -> shapes; elsewhere the plain ones.
EXTRA_SHAPES: Mapping[tuple[str, str, int], Shapes] = {
    **{(mask, *key): shapes for mask in ("boolean", "additive") for key, shapes in _EITHER_MASK.items()},
    ("boolean", "forward", 128): {
        **_EITHER_MASK["forward", 128],
        80: [(128, 16, 8, 2), (128, 32, 8, 1)],
        120: [(128, 16, 8, 2), (32, 32, 4, 2)],
    },
    ("boolean", "queries", 128): {
        **_EITHER_MASK["queries", 128],
        80: [(64, 32, 4, 2), (64, 64, 8, 2)],
        100: [(64, 64, 4, 2), (128, 32, 8, 2)],
        120: [(64, 64, 8, 2), (64, 32, 8, 2)],
    },
    ("additive", "forward", 128): {
        **_EITHER_MASK["forward", 128],
        80: [(128, 32, 8, 2), (64, 64, 8, 2)],
        120: [(128, 32, 8, 2), (64, 64, 8, 2)],
    },
    ("additive", "keys", 64): {
        **_EITHER_MASK["keys", 64],
        90: [(64, 128, 8, 2), (32, 64, 4, 2), *_SMALL],
    },
    ("additive", "queries", 128): {
        **_EITHER_MASK["queries", 128],
        80: [(64, 32, 4, 2), (64, 64, 8, 2)],
        100: [(128, 64, 8, 2)],
        120: [(64, 32, 4, 2)],
    },
    ("window", "forward", 128): {
        80: [(128, 32, 8, 3), (64, 64, 4, 2)],
        86: [(64, 64, 4, 2), (128, 16, 8, 2)],
        89: [(64, 64, 4, 2), (128, 16, 8, 2)],
    },
    ("window", "keys", 64): {80: _SMALL},
    ("window", "keys", 128): {90: [(64, 64, 8, 2), (32, 64, 8, 2)]},
    ("lengths", "forward", 64): {120: [(128, 64, 8, 3)]},
    ("lengths", "keys", 64): {90: [(32, 64, 4, 2), (64, 64, 8, 2)], 100: [(32, 128, 8, 2)]},
    ("lengths", "keys", 128): {90: [(32, 64, 8, 2), *_SMALL], 100: _SMALL},
}
