"""Shapes of tiles for the flash kernels that do more than the causal rule, where it costs other ones.

Found by compiling ahead of time: the first of each list spills no register, neither of boolean masks nor of
additive ones.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Queries, keys, warps, stages.
Shape = tuple[int, int, int, int]
Shapes = dict[int, list[Shape]]

#: Masks: kernel, width of the head dimension -> capability -> shapes.
_MASKED: Mapping[tuple[str, int], Shapes] = {}
EXTRA_SHAPES: Mapping[tuple[str, str, int], Shapes] = {
    (extra, *key): shapes for extra in ("boolean", "additive") for key, shapes in _MASKED.items()
}
