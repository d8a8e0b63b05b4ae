r"""Log-partitions of padded batches in plain PyTorch, for any device, with gradients.

Two ways to the same numbers::

    scaled     alpha is divided by its sum c every few steps; the backward pass is by hand:
                   a[t] = (a[t-1] P) ∘ x[t] / c[t]            log_z = Σ_t log c[t] + …
                   b[t-1] = P (x[t] ∘ b[t]) / c[t]            gamma[t] = a[t] ∘ b[t]
               with P = exp(trans − max) and x[t] = exp(emit[t] − max), and c = 1 at other steps;
               expected transitions are one matrix product over all positions
    log space  log-sum-exp at every step, by autograd: any scores, derivatives of any order

Scaled sums are proven where all transitions are finite and lie within a range (`_RANGES`): backward
scores of two states differ by at most that range, so that a state that underflows cannot matter
later. Elsewhere a second vector follows the largest sum that underflow may have removed, and
sequences for which it is not negligible are repeated in log space.

Batches are time-major, [L, B, S], and masks have no holes. −inf means forbidden.
"""

from __future__ import annotations

import math
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
    return _scaled(scores, mask, None)


def log_probability(scores: Scores, tags: Tensor, mask: Tensor) -> Tensor:
    """Return the log-probabilities [B] of label paths [L, B]: their scores less log_z."""
    if scores.emit.shape[0] == 0:
        return path_score(scores, tags, mask) - log_space(scores, mask)
    return _scaled(scores, mask, tags)


def _scaled(scores: Scores, mask: Tensor, tags: Tensor | None) -> Tensor:
    with torch.autocast(scores.emit.device.type, enabled=False):
        result: Tensor = _Scaled.apply(*scores, mask, tags)
    return result


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


class _Packed(NamedTuple):
    """Where the T positions of a batch lie: step by step, the longest sequences first.

    Sequences are sorted by length, so step t has the first ``sizes[t]`` of them: no position is
    padded, and no step needs a mask.
    """

    sizes: list[int]  # [L] number of sequences of more than t positions
    t: Tensor  # [T] the step of each row
    sequence: Tensor  # [T] its sequence, in the order of the batch
    previous: Tensor  # [T − sizes[0]] the row before each row of steps 1, 2, …
    ends: Tensor  # [N] the last row of each sequence that is not empty
    owners: Tensor  # [N] these sequences, in the order of the batch

    @classmethod
    def of(cls, mask: Tensor) -> _Packed:
        """Pack a mask [L, B] without holes."""
        lengths, order = mask.sum(0).sort(descending=True, stable=True)
        t, rank = mask[:, order].nonzero(as_tuple=True)
        n = mask.sum(1)
        sizes = [size for size in n.tolist() if size]
        first = sizes[0] if sizes else 0
        previous = torch.arange(first, len(t), device=mask.device)
        previous = previous - n[t[first:] - 1]
        ends = (n.cumsum(0) - n)[lengths[:first] - 1] + torch.arange(first, device=mask.device)
        return cls(sizes, t, order[rank], previous, ends, order[:first])

    def rows(self, x: Tensor) -> Tensor:
        """X [L, B, ...] as rows [T, ...]."""
        return x[self.t, self.sequence]

    def padded(self, rows: Tensor, like: Tensor) -> Tensor:
        """Rows [T, ...] as a batch [L, B, ...], zero elsewhere."""
        out = torch.zeros_like(like)
        out[self.t, self.sequence] = rows
        return out


class _Forward(NamedTuple):
    """What the backward pass reads."""

    a: Tensor  # [T, S] normalised forward sums
    x: Tensor  # [T, S] exp(emit − max)
    c: Tensor  # [T, 1] their normalisers
    P: Tensor  # [S, S] exp(trans − max)
    stop: Tensor  # [S] exp(stop − max)
    z: Tensor  # [N] Σ a[last] ∘ stop


class _Scaled(torch.autograd.Function):
    """log_z [B]; with tags, the log-probability of their path."""

    @staticmethod
    def forward(
        ctx: Any,
        emit: Tensor,
        trans: Tensor,
        start: Tensor,
        stop: Tensor,
        mask: Tensor,
        tags: Tensor | None,
    ) -> Tensor:
        scores = Scores(emit, trans, start, stop)
        packed = _Packed.of(mask)
        rows = packed.rows(emit.detach())  # [T, S]
        log_z, kept, failed = _scaled_forward(scores, rows, packed, mask.shape[1])
        ctx.save_for_backward(*scores, mask, tags)
        ctx.packed, ctx.kept, ctx.path, ctx.repeated = packed, kept, None, None
        if failed is not None:
            inputs, repeated = _repeated(scores, mask, failed)
            log_z[failed] = repeated.detach()
            ctx.repeated = inputs, repeated, failed
        if tags is None:
            return log_z
        ctx.path = packed.rows(tags)
        gold = _packed_path_score(scores, rows, packed, ctx.path, mask.shape[1])
        ctx.is_possible = gold != -torch.inf
        return torch.where(ctx.is_possible, gold - log_z, gold)

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        *saved, mask, tags = ctx.saved_tensors
        needs = ctx.needs_input_grad[:4]
        if torch.is_grad_enabled():  # the gradient itself will be differentiated
            value = log_space(Scores(*saved), mask)
            if tags is not None:
                gold = path_score(Scores(*saved), tags, mask)
                value = torch.where(gold == -torch.inf, gold.detach(), gold - value)
            needed = [x for x, n in zip(saved, needs, strict=True) if n]
            grads = iter(torch.autograd.grad(value, needed, weight, create_graph=True))
            return *(next(grads) if n else None for n in needs), None, None
        packed, path, sign = ctx.packed, ctx.path, 1.0
        if path is not None:
            weight, sign = torch.where(ctx.is_possible, weight, torch.zeros_like(weight)), -1.0
        own = weight * sign
        if ctx.repeated is not None:
            inputs, repeated, failed = ctx.repeated
            own = own.index_fill(0, failed, 0.0)
        gamma, *shared = _scaled_backward(ctx.kept, packed, own)
        if path is not None:
            _add_path(packed, path, weight, gamma, *shared)
        gradient = [packed.padded(gamma, saved[0]), *shared]
        if ctx.repeated is not None:
            parts = torch.autograd.grad(repeated, inputs, sign * weight[failed], retain_graph=True)
            gradient[0].index_add_(1, failed, parts[0])
            gradient[1:] = [g + p for g, p in zip(gradient[1:], parts[1:], strict=True)]
        return *gradient, None, None


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
    return (x - top).exp_(), top


def _steps_between(spread: float, S: int) -> int:
    """The number of steps after which sums are normalised.

    Where transitions differ by at most ``spread``, a step divides a sum by at most exp(spread), and
    multiplies it by at most S. The result stays above exp(−20) and below exp(60): the largest sums
    keep a distance from underflow that is larger than what `_RANGES` needs.
    """
    return max(min(int(20 / max(spread, 0.1)), int(60 / math.log(S + 1))), 1)


def _scaled_forward(
    scores: Scores, rows: Tensor, packed: _Packed, B: int
) -> tuple[Tensor, _Forward, Tensor | None]:
    """log_z [B], what the backward pass needs, and the sequences that log space must repeat."""
    trans, start, stop = (part.detach() for part in scores[1:])
    T, S = rows.shape
    sizes = packed.sizes
    first = sizes[0] if sizes else 0
    P, trans_top = _exponentials(trans, (0, 1))
    last, stop_top = _exponentials(stop, (0,))
    x, top = _exponentials(torch.cat([rows[:first] + start, rows[first:]]), (1,))
    limit = _RANGES[rows.dtype]
    ranges = torch.stack([trans.amax() - trans.amin(), stop.amax() - stop.amin()]).tolist()
    guard = not all(spread <= limit for spread in ranges)  # also for NaN, a range of infinities
    between = 1 if guard else _steps_between(ranges[0], S)
    a, c = torch.empty_like(x), x.new_ones(T, 1)
    a_of, x_of, c_of = a.split(sizes), x.split(sizes), c.split(sizes)
    tiny = torch.finfo(x.dtype).tiny
    lost = x.new_full((T, S), tiny) if guard else x
    lost_of = lost.split(sizes)
    for t, (row, n) in enumerate(zip(a_of, sizes, strict=True)):
        if t:
            torch.mm(a_of[t - 1][:n], P, out=row).mul_(x_of[t])
        else:
            row.copy_(x_of[0])
        if t % between == 0:
            row.div_(torch.sum(row, 1, keepdim=True, out=c_of[t]))
        if guard and t:
            torch.mm(lost_of[t - 1][:n], P, out=lost_of[t]).mul_(x_of[t]).div_(c_of[t]).add_(tiny)
    z = a[packed.ends] @ last  # [N]
    by_row = c.log() + top
    by_row[first:] += trans_top
    log_z = x.new_zeros(B).index_add_(0, packed.sequence, by_row.squeeze(1))
    log_z.index_add_(0, packed.owners, z.log() + stop_top)
    is_sure = (z > 0) & log_z[packed.owners].isfinite()
    if guard:
        is_sure &= (lost[packed.ends] @ last) <= _NEGLIGIBLE[x.dtype] * z
    failed = packed.owners[~is_sure]
    if len(failed):  # their rows may hold NaN; the gradient leaves them out
        is_left = torch.isin(packed.sequence, failed)
        a[is_left], x[is_left], c[is_left] = 0.0, 0.0, 1.0
        z = torch.where(is_sure, z, torch.ones_like(z))
    return log_z, _Forward(a, x, c, P, last, z), failed if len(failed) else None


def _scaled_backward(kept: _Forward, packed: _Packed, weight: Tensor) -> list[Tensor]:
    """The gradient of Σ weight·log_z by rows of emit, trans, start and stop."""
    a, x, c, P, last, z = kept
    sizes, S = packed.sizes, a.shape[1]
    first = sizes[0] if sizes else 0
    b, r = torch.empty_like(a), torch.empty_like(a)  # backward sums; x ∘ b / c
    b[packed.ends] = (weight[packed.owners] / z).unsqueeze(1) * last
    scaled = x / c
    b_of, r_of, scaled_of = b.split(sizes), r.split(sizes), scaled.split(sizes)
    transposed = P.t().contiguous()
    for t in range(len(sizes) - 1, 0, -1):
        torch.mul(scaled_of[t], b_of[t], out=r_of[t])
        torch.mm(r_of[t], transposed, out=b_of[t - 1][: sizes[t]])
    gamma = b.mul_(a)
    trans = P * (a.index_select(0, packed.previous).t() @ r[first:])
    if not sizes:
        trans = torch.zeros_like(P)
    return [gamma, trans, gamma[:first].sum(0), gamma[packed.ends].sum(0).reshape(S)]


# ---- scores of paths ----------------------------------------------------------------------------


def path_score(scores: Scores, tags: Tensor, mask: Tensor, edge: Tensor | None = None) -> Tensor:
    """Return the scores [B] of complete label paths [L, B]."""
    emit, trans, start, stop = scores
    L, B, Y = emit.shape
    if L == 0:
        return emit.new_zeros(B)
    tags = tags.masked_fill(~mask, 0)
    zero = emit.new_zeros(())
    score = torch.where(mask, emit.gather(2, tags.unsqueeze(2)).squeeze(2), zero).sum(0)
    # Rows are rolled, not cut: an exported graph of L - 1 rows would not take L = 2.
    arcs = tags.roll(1, 0) * Y + tags  # [L, B]; row 0 is not used
    moves = trans.reshape(-1)[arcs]
    if edge is not None:
        moves = moves + edge.flatten(2).gather(2, arcs.unsqueeze(2)).squeeze(2)
    is_move = mask & (torch.arange(L, device=mask.device) > 0).unsqueeze(1)
    score = score + torch.where(is_move, moves, zero).sum(0)
    last = tags.gather(0, (mask.sum(0) - 1).clamp(min=0).unsqueeze(0)).squeeze(0)
    return score + torch.where(mask[0], start[tags[0]] + stop[last], zero)


def _packed_path_score(
    scores: Scores, rows: Tensor, packed: _Packed, path: Tensor, B: int
) -> Tensor:
    """Return the scores [B] of paths [T]."""
    trans, start, stop = (part.detach() for part in scores[1:])
    first = packed.sizes[0] if packed.sizes else 0
    by_row = rows.gather(1, path.unsqueeze(1)).squeeze(1)
    by_row[:first] += start[path[:first]]
    by_row[first:] += trans.reshape(-1)[_moves(packed, path, rows.shape[1])]
    by_row[packed.ends] += stop[path[packed.ends]]
    return rows.new_zeros(B).index_add_(0, packed.sequence, by_row)


def _moves(packed: _Packed, path: Tensor, S: int) -> Tensor:
    """The transitions of a path into the rows of steps 1, 2, …, numbered row by row."""
    return path[packed.previous] * S + path[len(path) - len(packed.previous) :]


def _add_path(
    packed: _Packed,
    path: Tensor,
    weight: Tensor,
    gamma: Tensor,
    trans: Tensor,
    start: Tensor,
    stop: Tensor,
) -> None:
    """Add the gradient of Σ weight·score of paths [T]."""
    S, first = len(start), packed.sizes[0] if packed.sizes else 0
    by_row = weight[packed.sequence]
    gamma.scatter_add_(1, path.unsqueeze(1), by_row.unsqueeze(1))
    trans.view(-1).index_add_(0, _moves(packed, path, S), by_row[first:])
    start.index_add_(0, path[:first], by_row[:first])
    stop.index_add_(0, path[packed.ends], by_row[packed.ends])
