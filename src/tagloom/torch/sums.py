r"""Log-partitions of padded batches in plain PyTorch, for any device, with gradients.

Two ways to the same numbers::

    scaled     alpha is divided by its sum c at every step; the backward pass is written by hand:
                   a[t] = (a[t-1] P) ∘ x[t] / c[t]            log_z = Σ_t log c[t] + …
                   b[t-1] = P (x[t] ∘ b[t]) / c[t]            gamma[t] = a[t] ∘ b[t]
               with P = exp(trans − max) and x[t] = exp(emit[t] − max); expected transitions are one
               matrix product over all positions
    log space  log-sum-exp at every step, by autograd: any scores, derivatives of any order

Scaled sums are proven where all transitions are finite and lie within a range (`_RANGES`): backward
scores of two states differ by at most that range, so that a state that underflows cannot matter
later. Elsewhere a second vector follows the largest sum that underflow may have removed, and
sequences for which it is not negligible are repeated in log space.

Batches are time-major, [L, B, S], and masks have no holes. −inf means forbidden.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

# The largest range of transition scores for which underflow cannot matter, by type.
_RANGES = {torch.float32: 40.0, torch.float64: 300.0}
# The largest part of a partition that underflow may remove.
_NEGLIGIBLE = {torch.float32: 1e-8, torch.float64: 1e-16}


class Scores(NamedTuple):
    """Scores of a padded batch over S states."""

    emit: Tensor  #: [L, B, S]
    trans: Tensor  #: [S, S] from → to
    start: Tensor  #: [S]
    stop: Tensor  #: [S]


def log_partition(scores: Scores, mask: Tensor, edge: Tensor | None = None) -> Tensor:
    """Return log_z [B], differentiable twice and more if the gradient itself is differentiated.

    Parameters
    ----------
    scores : Scores
    mask : Tensor of bool, shape (L, B)
        True up to the end of each sequence.
    edge : Tensor, shape (L, B, S, S), optional
        Scores of transitions into each position; row 0 is not used.
    """
    if edge is not None or scores.emit.shape[0] == 0:
        return log_space(scores, mask, edge)
    with torch.autocast(scores.emit.device.type, enabled=False):
        log_z: Tensor = _Scaled.apply(*scores, mask)
    return log_z


def log_space(scores: Scores, mask: Tensor, edge: Tensor | None = None) -> Tensor:
    """Return log_z [B] by log-sum-exp at every step, differentiable any number of times."""
    emit, trans, start, stop = scores
    L, B, _ = emit.shape
    if L == 0:
        return emit.new_zeros(B) + 0 * (trans.sum() + start.sum() + stop.sum())
    alpha = start + emit[0]  # [B, S]
    for t in range(1, L):
        step = trans if edge is None else trans + edge[t]
        new = _log_sum(alpha.unsqueeze(2) + step, 1) + emit[t]
        alpha = torch.where(mask[t].unsqueeze(1), new, alpha)
    log_z = _log_sum(alpha + stop, 1)
    return torch.where(mask[0], log_z, torch.zeros_like(log_z))


def entropy(scores: Scores, mask: Tensor, edge: Tensor | None = None) -> Tensor:
    """Return the entropy [B] of the paths: log_z less the expected score, differentiable.

    The expected score is the derivative of log_z by a factor of all scores, at 1.
    """
    with torch.enable_grad():
        factor = scores.emit.new_ones(scores.emit.shape[1]).requires_grad_()  # [B]

        def times(x: Tensor, shape: tuple[int, ...]) -> Tensor:
            forbidden = x == -torch.inf  # −inf has no derivative
            finite = x.masked_fill(forbidden, 0.0) * factor.reshape(shape)
            return finite.masked_fill(forbidden, -torch.inf)

        parts = (
            times(scores.emit, (-1, 1)),
            times(scores.trans, (-1, 1, 1)),  # [B, S, S]
            times(scores.start, (-1, 1)),
            times(scores.stop, (-1, 1)),
        )
        moves = None if edge is None else times(edge, (-1, 1, 1))
        log_z = log_space(Scores(*parts), mask, moves)
        expected: Tensor = torch.autograd.grad(log_z.sum(), factor, create_graph=True)[0]
        return log_z - expected


def _log_sum(x: Tensor, dim: int) -> Tensor:
    """Log Σ exp(x); −inf with a gradient of zero if all x are −inf."""
    dead = (x == -torch.inf).all(dim, keepdim=True)
    total = torch.logsumexp(torch.where(dead, torch.zeros_like(x), x), dim)
    return torch.where(dead.squeeze(dim), torch.full_like(total, -torch.inf), total)


# ---- scaled sums, backward by hand --------------------------------------------------------------


class _Forward(NamedTuple):
    """What the backward pass reads."""

    a: Tensor  # [L, B, S] normalised forward sums
    x: Tensor  # [L, B, S] exp(emit − max)
    c: Tensor  # [L, B] their normalisers
    P: Tensor  # [S, S] exp(trans − max)
    stop: Tensor  # [S] exp(stop − max)
    z: Tensor  # [B] Σ a[last] ∘ stop


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, emit: Tensor, trans: Tensor, start: Tensor, stop: Tensor, mask: Tensor
    ) -> Tensor:
        scores = Scores(emit, trans, start, stop)
        log_z, kept, failed = _scaled_forward(scores, mask)
        ctx.save_for_backward(*scores, mask)
        ctx.kept, ctx.repeated = kept, None
        if failed is not None:
            inputs, repeated = _repeated(scores, mask, failed)
            log_z[failed] = repeated.detach()
            ctx.repeated = inputs, repeated, failed
        return log_z

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        *saved, mask = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient itself will be differentiated
            log_z = log_space(Scores(*saved), mask)
            needed = [
                x for x, is_needed in zip(saved, ctx.needs_input_grad, strict=False) if is_needed
            ]
            grads = iter(torch.autograd.grad(log_z, needed, weight, create_graph=True))
            return *(next(grads) if n else None for n in ctx.needs_input_grad[:4]), None
        own = weight
        if ctx.repeated is not None:
            inputs, repeated, failed = ctx.repeated
            own = weight.index_fill(0, failed, 0.0)
        gradient = _scaled_backward(ctx.kept, mask, own)
        if ctx.repeated is not None:
            parts = torch.autograd.grad(repeated, inputs, weight[failed], retain_graph=True)
            gradient[0].index_copy_(1, failed, parts[0])
            gradient = (gradient[0], *(g + p for g, p in zip(gradient[1:], parts[1:], strict=True)))
        return *gradient, None


def _repeated(scores: Scores, mask: Tensor, failed: Tensor) -> tuple[list[Tensor], Tensor]:
    """The sequences that scaled sums left out, in log space: inputs and log_z."""
    with torch.enable_grad():
        parts = [scores.emit[:, failed], *scores[1:]]
        inputs = [part.detach().requires_grad_() for part in parts]
        return inputs, log_space(Scores(*inputs), mask[:, failed])


def _exponentials(x: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """exp(x − max), and the maximum; 0 for a maximum of −inf."""
    top = x.amax(dims, keepdim=True)
    top = torch.where(top == -torch.inf, torch.zeros_like(top), top)
    return (x - top).exp(), top


def _scaled_forward(scores: Scores, mask: Tensor) -> tuple[Tensor, _Forward, Tensor | None]:
    """log_z [B], what the backward pass needs, and the sequences that log space must repeat."""
    emit, trans, start, stop = (part.detach() for part in scores)
    L, B, S = emit.shape
    P, trans_top = _exponentials(trans, (0, 1))
    last, stop_top = _exponentials(stop, (0,))
    x, emit_top = _exponentials(torch.cat([(start + emit[0])[None], emit[1:]]), (2,))
    narrow = (trans.amax() - trans.amin() <= _RANGES[emit.dtype]) & (
        stop.amax() - stop.amin() <= _RANGES[emit.dtype]
    )
    guard = not bool(narrow)  # false also for NaN, which comes from a range of infinities
    tiny = torch.finfo(emit.dtype).tiny
    a = torch.empty_like(emit)
    c = torch.ones(L, B, dtype=emit.dtype, device=emit.device)
    row, delta = x[0], torch.full((B, S), tiny, dtype=emit.dtype, device=emit.device)
    is_padded = (~mask).any(1).tolist()
    for t in range(L):
        if t:
            row = (a[t - 1] @ P) * x[t]
        torch.sum(row, 1, out=c[t])
        torch.div(row, c[t].unsqueeze(1), out=a[t])
        if guard:
            grown = ((delta @ P) * x[t] if t else delta) / c[t].unsqueeze(1) + tiny
            delta = torch.where(mask[t].unsqueeze(1), grown, delta)
        if t and is_padded[t]:
            a[t] = torch.where(mask[t].unsqueeze(1), a[t], a[t - 1])
            c[t].masked_fill_(~mask[t], 1.0)
    z = a[L - 1] @ last
    offsets = torch.where(mask, emit_top.squeeze(2), torch.zeros_like(c)).sum(0)
    log_z = c.log().sum(0) + z.log() + offsets + stop_top
    log_z = log_z + (mask.sum(0) - 1).clamp(min=0) * trans_top.squeeze()
    log_z = torch.where(mask[0], log_z, torch.zeros_like(log_z))
    is_sure = (c > 0).all(0) & (z > 0) & log_z.isfinite()
    if guard:
        is_sure &= (delta @ last) <= _NEGLIGIBLE[emit.dtype] * z
    failed = (~is_sure & mask[0]).nonzero().squeeze(1)
    kept = _Forward(a, x, c, P, last, z)
    return log_z, kept, failed if len(failed) else None


def _scaled_backward(kept: _Forward, mask: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """The gradient of Σ weight·log_z by emit, trans, start and stop."""
    a, x, c, P, last, z = kept
    L = len(a)
    # Sequences that failed, or have no positions, have weight 0 but may hold NaN.
    weight = torch.where(mask[0], weight, torch.zeros_like(weight))
    used = weight != 0
    scale = torch.where(used, weight / z, torch.zeros_like(z))
    b = scale.unsqueeze(1) * last  # [B, S] weighted backward sums
    final = torch.where(used.unsqueeze(1), a[L - 1] * b, torch.zeros_like(b))
    gamma = torch.empty_like(a)
    r = torch.empty_like(a)  # [L, B, S] x ∘ b / c
    inner = (mask & used).unsqueeze(2)  # [L, B, 1]
    is_padded = (~(mask & used)).any(1).tolist()
    transposed = P.t().contiguous()
    for t in range(L - 1, -1, -1):
        torch.mul(a[t], b, out=gamma[t])
        torch.mul(x[t], b / c[t].unsqueeze(1), out=r[t])
        if is_padded[t]:
            r[t] = torch.where(inner[t], r[t], torch.zeros_like(b))
            gamma[t] = torch.where(inner[t], gamma[t], torch.zeros_like(b))
            b = torch.where(inner[t], r[t] @ transposed, b)
        else:
            b = r[t] @ transposed
    S = a.shape[2]
    before = torch.where(inner[1:], a[:-1], torch.zeros_like(a[:-1])) if any(is_padded) else a[:-1]
    trans = P * (before.reshape(-1, S).t() @ r[1:].reshape(-1, S))
    return gamma, trans, gamma[0].sum(0), final.sum(0)
