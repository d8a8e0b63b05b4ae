r"""Best paths in plain PyTorch, on any device and for export.

v[t, s] = emit[t, s] + max_{s_prev} v[t-1, s_prev] + trans[s_prev, s], then back through the
arguments of the maxima. Both passes are a `scan`, so that an exported graph has one body for any
length; a Python loop would be unrolled for one length only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Under a private name in PyTorch 2.13; tests/torch_layer/test_layer.py runs it.
from torch._higher_order_ops.scan import scan

from tagloom.torch.sums import Scores, path_score


def best_states(scores: Scores, mask: Tensor, edge: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the best states [L, B] and scores [B]; states after the end repeat the last one.

    Ties go to the lowest state at the last position, then at each position before it. The scores
    are differentiable: they are sums along the best paths. The search for these has no gradient,
    since torch cannot differentiate a scan that returns integers.

    Parameters
    ----------
    scores : Scores
        Of a time-major batch without holes.
    mask : Tensor of bool, shape (L, B)
    edge : Tensor, shape (L, B, S, S), optional
        Scores of transitions into each position.
    """
    emit, trans, start, stop = (part.detach() for part in scores)
    L = emit.shape[0]
    if L == 0:
        none = torch.zeros(mask.shape, dtype=torch.int64, device=mask.device)
        return none, path_score(scores, none, mask)
    inside, moves = mask, None if edge is None else edge.detach()
    if torch.compiler.is_compiling():  # a scan of an exported graph takes two steps or more
        emit, inside = torch.cat([emit, emit[-1:]]), torch.cat([mask, torch.zeros_like(mask[-1:])])
        moves = None if moves is None else torch.cat([moves, moves[-1:]])
    S = emit.shape[2]
    stay = torch.arange(S, device=emit.device)

    def forward(best: Tensor, x: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        into = best.unsqueeze(2) + (trans if moves is None else trans + x[2])
        top, argument = into.max(1)  # [B, S]
        is_inside = x[1].unsqueeze(1)
        new = torch.where(is_inside, top + x[0], best)
        return new, torch.where(is_inside, argument, stay)

    rest = (emit[1:], inside[1:]) if moves is None else (emit[1:], inside[1:], moves[1:])
    first = start + emit[0]
    final, arguments = _scan(forward, first, rest)  # [B, S], [L - 1, B, S]
    last = (final + stop).argmax(1)

    def backward(state: Tensor, into: Tensor) -> tuple[Tensor, Tensor]:
        previous = into.gather(1, state.unsqueeze(1)).squeeze(1)
        return previous, previous.clone()

    _, before = _scan(backward, last, arguments, reverse=True)
    states = torch.cat([before, last.unsqueeze(0)])[:L]
    return states, path_score(scores, states, mask, edge)


def _scan(step: Any, initial: Tensor, xs: Any, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """A scan in an exported graph; a loop elsewhere, which needs no tracing."""
    if torch.compiler.is_compiling():
        result: tuple[Tensor, Tensor] = scan(step, initial, xs, reverse=reverse)
        return result
    each = xs if isinstance(xs, tuple) else (xs,)
    L = each[0].shape[0]
    carry, out = initial, []
    for t in reversed(range(L)) if reverse else range(L):
        x = tuple(part[t] for part in each)
        carry, y = step(carry, x if isinstance(xs, tuple) else x[0])
        out.append(y)
    if reverse:
        out.reverse()
    empty = (0, *initial.shape)
    stacked = (
        torch.stack(out) if out else torch.empty(empty, dtype=torch.int64, device=initial.device)
    )
    return carry, stacked
