"""Greedy generation: the most probable token, again and again."""

from __future__ import annotations

import torch
from torch import Tensor

from implementations.transformer.stacks import LanguageModel


@torch.no_grad()
def greedy_generate(
    model: LanguageModel,
    prompt: Tensor,
    steps: int,
    *,
    memory: Tensor | None = None,
    end: int | None = None,
    use_cache: bool = True,
) -> Tensor:
    """prompt (batch, m) and what follows it, (batch, m + at most steps).

    memory     what the decoder reads, (batch, source_len, d_model)
    end        a token after which a sequence is filled with it; when all have ended, generation does
    use_cache  keep the keys and values of earlier tokens; without, every step computes them anew
    Ties go to the lowest token. Raises ValueError for an empty prompt.
    """
    if prompt.shape[-1] < 1:
        raise ValueError("prompt: give at least one token to start from")
    caches = model.decoder.new_caches() if use_cache else None
    tokens, new = prompt, prompt
    ended = torch.zeros(len(prompt), 1, dtype=torch.bool, device=prompt.device)
    for _ in range(steps):
        scores = model(new if use_cache else tokens, memory, caches=caches)
        new = scores[:, -1:].argmax(-1)
        if end is not None:
            new = new.masked_fill(ended, end)
            ended = ended | (new == end)
        tokens = torch.cat([tokens, new], dim=1)
        if bool(ended.all()):
            break
    return tokens
