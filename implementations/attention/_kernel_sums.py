"""The two kinds of sums over keys: of plain features, and of features known by their logarithm.

Shapes as in `_chunked`: keys (heads, length, channels), queries (heads, group, length, channels). Sums are
written over where no gradient is wanted, and only there: a backward pass asks for every earlier state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from implementations.attention._chunked import divide, is_nothing

Map = Callable[[Tensor], Tensor]

#: Device -> tokens of a causal chunk.
CHUNK: Mapping[str, int] = {"cpu": 64, "cuda": 256}
#: The log-feature of padding: below every real one, and finite, so that differences are defined.
ABSENT = -1e30


def rows(queries: Tensor) -> Tensor:
    """(heads, group, length, channels) -> (heads, group · length, channels)."""
    return queries.flatten(1, 2)


def plus_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """total + left @ right, in total's storage where no gradient is wanted."""
    return (torch.baddbmm if torch.is_grad_enabled() else Tensor.baddbmm_)(total, left, right)


def scaled(total: Tensor, factor: Tensor) -> Tensor:
    """total · factor, in total's storage where no gradient is wanted."""
    return (torch.mul if torch.is_grad_enabled() else Tensor.mul_)(total, factor)


class PlainSums:
    """S = Σ φ(k)ᵀv and z = Σ φ(k) of features that float32 holds (Katharopoulos et al. 2020).

    features  φ, (..., channels) -> (..., features)
    kernel    φ(q)·φ(k) of every pair of a chunk, where that is cheaper from q and k than from their features
    """

    def __init__(
        self,
        features: Map,
        kernel: Callable[[Tensor, Tensor], Tensor] | None = None,
        chunk: Mapping[str, int] = CHUNK,
    ) -> None:
        self.features, self.kernel, self.chunk = features, kernel, chunk
        #: S (heads, features, head_dim) and z (heads, 1, features)
        self.known: tuple[Tensor, Tensor] | None = None

    def absorb(self, keys: Tensor, values: Tensor, present: Tensor | None) -> None:
        self._add(self._keys(keys, present), values)

    def read(self, queries: Tensor) -> Tensor:
        assert self.known is not None
        phi_q, (S, z) = rows(self.features(queries)), self.known
        return divide(torch.bmm(phi_q, S), torch.bmm(phi_q, z.mT)).view(*queries.shape[:3], -1)

    def causal(self, queries: Tensor, keys: Tensor, values: Tensor, present: Tensor | None) -> Tensor:
        phi_q, phi_k = rows(self.features(queries)), self._keys(keys, present)
        if self.kernel is None:
            weights = torch.bmm(phi_q, phi_k.mT)  # (heads, group · chunk, chunk)
        else:
            weights = self.kernel(rows(queries), keys)
            weights = weights if present is None else weights * present.mT
        weights = _tril(weights, queries.shape[1])
        numerator, denominator = torch.bmm(weights, values), weights.sum(-1, keepdim=True)
        if self.known is not None:
            S, z = self.known
            numerator, denominator = numerator.baddbmm_(phi_q, S), denominator.baddbmm_(phi_q, z.mT)
        self._add(phi_k, values)
        return divide(numerator, denominator).view(*queries.shape[:3], -1)

    def _keys(self, keys: Tensor, present: Tensor | None) -> Tensor:
        phi = self.features(keys)
        return phi if present is None else phi * present

    def _add(self, phi_k: Tensor, values: Tensor) -> None:
        z = phi_k.sum(-2, keepdim=True)
        if self.known is None:
            self.known = torch.bmm(phi_k.mT, values), z
        else:
            S, before = self.known
            self.known = plus_product(S, phi_k.mT, values), z.add_(before)


def _tril(weights: Tensor, group: int) -> Tensor:
    """Every query's pairs up to its own key: (heads, group · length, length).

    In the same storage where no gradient is wanted: autograd copies what is written through a view.
    """
    of_group = weights.view(weights.shape[0], group, -1, weights.shape[-1])
    return (of_group.tril() if torch.is_grad_enabled() else of_group.tril_()).flatten(1, 2)


class LogSums:
    """The same sums of exp(log-features), exact without an epsilon: nothing overflows, and what matters
    does not underflow. Logarithms are binary: exp2 is the cheaper power, and its base costs the maps nothing.

    Between chunks every feature is kept relative to its own running maximum c over the keys: a query then
    reads exp2(a + c − max), and its denominator is at least 1. Within a chunk a maximum over its keys would
    let the future into the past, if only by rounding; there each key is kept relative to its own maximum,
    and rows to the running maximum of those. The two are merged by their log-scales, as flash does. All
    maxima cancel: they are constants to the gradient.
    """

    def __init__(self, queries: Map, keys: Map) -> None:
        self.log_queries, self.log_keys = queries, keys
        self.chunk = CHUNK
        #: S (heads, features, head_dim) and z (heads, 1, features), both relative to exp2(c);
        #: c (heads, 1, features)
        self.known: tuple[Tensor, Tensor, Tensor] | None = None

    def absorb(self, keys: Tensor, values: Tensor, present: Tensor | None) -> None:
        self._add(self._logs(keys, present), values, present)

    def read(self, queries: Tensor) -> Tensor:
        assert self.known is not None
        numerator, denominator, _ = _read(rows(self.log_queries(queries)), self.known)
        return divide(numerator, denominator).view(*queries.shape[:3], -1)

    def causal(self, queries: Tensor, keys: Tensor, values: Tensor, present: Tensor | None) -> Tensor:
        group = queries.shape[1]
        a, lk = rows(self.log_queries(queries)), self._logs(keys, present)
        before = None if self.known is None else _read(a, self.known)
        self._add(lk, values, present)
        numerator, denominator, scale = _within(a, lk, values, present)
        if before is not None:
            numerator, denominator = _merge(before, (numerator, denominator, scale))
        # All of it underflows only where query and key both are some ten times larger than usual.
        own = values if group == 1 else values.repeat(1, group, 1)
        return divide(numerator, denominator, otherwise=own).view(*queries.shape[:3], -1)

    def _logs(self, keys: Tensor, present: Tensor | None) -> Tensor:
        lk = self.log_keys(keys)
        return lk if present is None else lk.masked_fill(~present, ABSENT)

    def _add(self, lk: Tensor, values: Tensor, present: Tensor | None) -> None:
        c = lk.detach().amax(-2, keepdim=True)
        if self.known is not None:
            c = torch.maximum(c, self.known[2])
        phi_k = (lk - c).exp2_()
        phi_k = phi_k if present is None else phi_k * present
        z = phi_k.sum(-2, keepdim=True)
        if self.known is None:
            self.known = torch.bmm(phi_k.mT, values), z, c
        else:
            S, before, old = self.known
            kept = (old - c).exp2_()
            S = scaled(S, kept.mT).baddbmm_(phi_k.mT, values)
            self.known = S, z.addcmul_(before, kept), c


def _read(a: Tensor, known: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Numerator, denominator and log-scale of the sums so far, for queries of log-features a."""
    S, z, c = known
    phi_q, scale = _exp2(a + c)
    return torch.bmm(phi_q, S), torch.bmm(phi_q, z.mT), scale


def _exp2(logs: Tensor) -> tuple[Tensor, Tensor]:
    """exp2 relative to each row's maximum, and those maxima (..., length, 1).

    In the same storage where no gradient is wanted: autograd copies what is written through a view.
    """
    largest = logs.detach().amax(-1, keepdim=True)
    return (logs - largest if torch.is_grad_enabled() else logs.sub_(largest)).exp2_(), largest


def _within(a: Tensor, lk: Tensor, values: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Numerator, denominator and log-scale of the keys of one chunk, each row seeing those up to it.

    a (heads, group · chunk, features), lk (heads, chunk, features); both may be overwritten
    """
    group = a.shape[1] // lk.shape[1]
    (phi_q, row), (phi_k, key) = _exp2(a), _exp2(lk)
    phi_k = phi_k if present is None else phi_k * present
    running = key.cummax(-2).values  # the largest key that row i sees
    decay = (key.mT - running).exp2_().tril_()  # (heads, chunk, chunk); a later key may be any size larger
    if group > 1:
        running, decay = running.repeat(1, group, 1), decay.repeat(1, group, 1)
    weights = torch.bmm(phi_q, phi_k.mT).mul_(decay)
    return torch.bmm(weights, values), weights.sum(-1, keepdim=True), running.add_(row)


def _merge(
    known: tuple[Tensor, Tensor, Tensor], chunk: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Numerator and denominator of both, on the scale of the larger."""
    (known_top, known_bottom, known_scale), (top, bottom, scale) = known, chunk
    missing = is_nothing(bottom.detach())
    size = (scale + bottom.detach().log2()).masked_fill_(missing, -torch.inf)
    largest = torch.maximum(known_scale, size)
    of_known = (known_scale - largest).exp2()
    of_chunk = (scale - largest).exp2().masked_fill_(missing, 0)
    return (
        known_top.mul_(of_known).addcmul_(top, of_chunk),
        known_bottom.mul_(of_known).addcmul_(bottom, of_chunk),
    )
