"""The keys and values of the tokens so far, so that a step of generation computes those of one token."""

from __future__ import annotations

from torch import Tensor


class KeyValueCache:
    """Keys and values of one attention, (batch, heads, length, head_dim), appended to step by step.

    Its buffers double when they are full, so that n tokens cost O(n) copies in all. The views it returns
    stay valid, and are never written to again. For inference: gradients do not pass.
    """

    def __init__(self) -> None:
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._length = 0

    def __len__(self) -> int:
        """Tokens held."""
        return self._length

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Take the keys and values of new tokens, (batch, heads, new, head_dim); all so far, as views.

        Raises ValueError for tensors that do not continue those held.
        """
        start, self._length = self._length, self._length + k.shape[2]
        self._keys = _placed(self._keys, k.detach(), start)
        self._values = _placed(self._values, v.detach(), start)
        return self.held()

    def held(self) -> tuple[Tensor, Tensor]:
        """All keys and values so far, as views. Raises ValueError when there are none."""
        if self._keys is None or self._values is None:
            raise ValueError("the cache holds nothing yet; append the keys and values of the first tokens")
        return self._keys[:, :, : self._length], self._values[:, :, : self._length]


def _placed(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """A buffer with the new tokens from `start` on: the same, or one of twice the size."""
    batch, heads, count, width = new.shape
    if buffer is not None and (buffer.shape[0], buffer.shape[1], buffer.shape[3]) != (batch, heads, width):
        raise ValueError(
            f"the cache holds (batch, heads, head_dim) = {(*buffer.shape[:2], buffer.shape[3])}, "
            f"not {(batch, heads, width)}; use a cache of its own for every layer and every generation"
        )
    end = start + count
    if buffer is None or buffer.shape[2] < end:
        room = new.new_empty(batch, heads, end if buffer is None else 2 * end, width)
        if buffer is not None:
            room[:, :, :start] = buffer[:, :, :start]
        buffer = room
    buffer[:, :, start:end] = new
    return buffer
