"""How many (query, key) pairs a rule lets through, in closed form: no seq_len × kv_len matrix is built."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Band:
    """A causal rule and a sliding window over `queries` × `keys`: of every row, one run of keys.

    Query i stands at key position p = i + offset. Causal, it attends keys up to p; with a window of w,
    keys nearer than w to p.
    """

    queries: int
    keys: int
    offset: int
    causal: bool
    window: int | None

    def row(self, query: int) -> range:
        """The keys that a query attends."""
        first, end = self._reach()
        low = 0 if first is None else query + first
        high = self.keys if end is None else query + end
        return range(min(max(low, 0), self.keys), min(max(high, 0), self.keys))

    def _reach(self) -> tuple[int | None, int | None]:
        """Query i attends keys from i + first to before i + end; None: no limit."""
        first = None if self.window is None else self.offset - self.window + 1
        if self.causal:
            return first, self.offset + 1
        return first, None if self.window is None else self.offset + self.window

    def sees_everything(self) -> bool:
        """Whether no key is hidden from any query: the first row reaches the last key, the last the first."""
        return all(len(self.row(query)) == self.keys for query in (0, self.queries - 1))

    def may_be_blind(self) -> bool:
        """Whether some query attends no key. Runs only move on with the query: the outermost rows tell."""
        return any(len(self.row(query)) == 0 for query in (0, self.queries - 1))

    def pairs(self) -> int:
        """The sum of the lengths of all rows."""
        first, end = self._reach()
        before = 0 if first is None else self._clipped(first)
        return (self.queries * self.keys if end is None else self._clipped(end)) - before

    def _clipped(self, start: int) -> int:
        """The sum over queries i of i + start, clipped to 0 … keys: a run of zeros, a ramp, then `keys`."""
        last = start + self.queries - 1
        below = _ramp(min(last, self.keys)) - _ramp(min(start - 1, self.keys))
        return below + self.keys * max(0, last - max(self.keys, start - 1))


def _ramp(top: int) -> int:
    """1 + 2 + … + top, 0 for a negative top."""
    return top * (top + 1) // 2 if top > 0 else 0
