"""Log-likelihoods of labelled batches by the native core, as functions of autograd.

Three ways to the same numbers, fastest first::

    one native call     first order, no edge scores: loss and gradient at once (`_native.ChainLoss`)
    general             any state space and edge scores, and sequences for which scaled
                        probabilities are not proven: log_z of the paths that the labels allow,
                        less log_z of all paths (`log_partition_grad`)
    operators           the same calls as operators of `torch.library`, for `torch.compile`

A gradient that is differentiated again is repeated in log space by autograd (`sums.log_space`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from tagloom import _native
from tagloom.errors import LabelError
from tagloom.torch import sums
from tagloom.torch.batches import Padded, Ragged
from tagloom.trellis import StateSpace, log_partition_grad
from tagloom.trellis.inputs import check_offsets

UNKNOWN = -100  # the label id of an unlabelled position, as in torch.nn.CrossEntropyLoss


@dataclass(frozen=True)
class Task:
    """What a loss needs besides tensors that are differentiated."""

    batch: Padded | Ragged
    tags: Tensor | None  #: ids, or bool sets; None for the log-partition
    reduction: str
    states: StateSpace | None  #: None where states are labels


def log_likelihood(
    task: Task,
    emit: Tensor,
    trans: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    weights: Tensor | None,
    edge: Tensor | None,
) -> Tensor:
    """Return the reduced log-likelihood, or the log-partition if there are no tags."""
    result: Tensor = _Likelihood.apply(task, emit, trans, start, stop, weights, edge)
    return result


class _Likelihood(torch.autograd.Function):
    """forward runs the backward pass too, unless each sequence gets a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, task: Task, *inputs: Tensor | None) -> Tensor:
        ctx.task = task
        emit = inputs[0]
        assert emit is not None
        ctx.save_for_backward(*inputs)
        is_scalar = task.reduction != "none"
        with_gradient = is_scalar and any(ctx.needs_input_grad)
        values = [None if x is None else x.detach() for x in inputs]
        result, ctx.gradient = evaluate(task, values, None, with_gradient)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient itself will be differentiated
            needed = [x for x, n in zip(inputs, ctx.needs_input_grad[1:], strict=True) if n]
            value = in_log_space(ctx.task, *inputs)
            found = iter(torch.autograd.grad(value, needed, grad, create_graph=True))
            return None, *(next(found) if n else None for n in ctx.needs_input_grad[1:])
        if ctx.gradient is None:
            values = [None if x is None else x.detach() for x in inputs]
            weight = grad.detach().double().numpy()
            gradient = evaluate(ctx.task, values, weight, True)[1]
            assert gradient is not None
            return None, *gradient
        factor = grad.item()
        if factor == 1:
            return None, *ctx.gradient
        scaled = iter(torch._foreach_mul([g for g in ctx.gradient if g is not None], factor))
        return None, *(None if g is None else next(scaled) for g in ctx.gradient)


Gradient = tuple[Tensor | None, ...]


def evaluate(
    task: Task, inputs: list[Tensor | None], weight: Any, with_gradient: bool
) -> tuple[Tensor, Gradient | None]:
    """Return the value, and the gradient of the value, or of Σ weight·llh for reduction "none"."""
    emit, trans, start, stop, _, edge = inputs
    assert emit is not None
    assert trans is not None
    if task.states is None and edge is None:
        found = _in_one_call(task, emit, trans, start, stop, weight, with_gradient)
        if found is not None:
            return found
    return _general(task, inputs, weight, with_gradient)


def _array(x: Tensor | None) -> Any:
    return None if x is None else x.numpy()


def _in_one_call(
    task: Task,
    emit: Tensor,
    trans: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    weight: Any,
    with_gradient: bool,
) -> tuple[Tensor, Gradient | None] | None:
    """None if scaled probabilities are not proven for a sequence."""
    batch, tags, Y = task.batch, task.tags, emit.shape[-1]
    llh = np.empty(batch.n_sequences) if task.reduction == "none" else None
    grads: list[Tensor | None] = [None] * 4
    buffers: list[Any] = [None] * 4
    if with_gradient:
        grads = [
            torch.empty_like(emit),
            trans.new_empty(Y, Y),
            trans.new_empty(Y),
            trans.new_empty(Y),
        ]
        buffers = [_array(g) for g in grads]
    chain = _native.ChainLoss(
        Y,
        torch.get_num_threads(),
        task.reduction,
        _array(trans if trans.is_contiguous() else trans.contiguous()),
        _array(start),
        _array(stop),
        weight,
        llh,
        *buffers[1:],
    )
    ids, allowed = None, None
    if tags is not None:
        ids, allowed = (None, tags.numpy()) if tags.dtype == torch.bool else (tags.numpy(), None)
    try:
        total = batch.native_loss(chain, emit, ids, allowed, buffers[0])
    except ValueError:
        if ids is not None:
            check_tags(batch, tags, Y)
        raise
    if total is None:
        return None
    value = emit.new_full((), total) if llh is None else torch.from_numpy(llh).to(emit.dtype)
    if not with_gradient:
        return value, None
    return value, (
        grads[0],
        grads[1],
        None if start is None else grads[2],
        None if stop is None else grads[3],
        None,
        None,
    )


def _general(
    task: Task, inputs: list[Tensor | None], weight: Any, with_gradient: bool
) -> tuple[Tensor, Gradient | None]:
    """Allowed paths less all paths; a sequence without an allowed path adds no gradient."""
    emit = inputs[0]
    assert emit is not None
    Y = emit.shape[-1]
    batch, offsets = task.batch, task.batch.offsets
    scores = batch.rows(emit).numpy()  # [T, Y]
    names = ("trans", "start", "stop", "weights")
    arrays: dict[str, Any] = dict(zip(names, map(_array, inputs[1:5]), strict=True))
    arrays["edge"] = None if inputs[5] is None else batch.rows(inputs[5]).numpy()
    signed = [(1.0, scores)]
    if task.tags is not None:
        check_tags(batch, task.tags, Y)
        allowed = allowed_labels(batch.rows(task.tags), Y).numpy()
        signed = [(1.0, np.where(allowed, scores, -np.inf).astype(scores.dtype)), (-1.0, scores)]
    options: dict[str, Any] = {"states": task.states, "n_threads": torch.get_num_threads()}
    log_z = [log_partition_grad(offsets, part, **arrays, **options) for _, part in signed]
    llh = np.where(
        np.isneginf(log_z[0]), -np.inf, sum(s * z for (s, _), z in zip(signed, log_z, strict=False))
    )
    by_sequence = _weights(task, llh) if weight is None else weight
    value = torch.from_numpy(llh)
    if task.reduction != "none":
        value = (value * torch.from_numpy(by_sequence)).sum()
    value = value.to(emit.dtype)
    if not with_gradient:
        return value, None
    by_sequence = np.where(np.isneginf(llh), 0.0, by_sequence)
    buffers: dict[str, Any] = {
        f"grad_{k}": np.zeros(a.shape, a.dtype) for k, a in arrays.items() if a is not None
    }
    buffers["grad_emit"] = np.zeros_like(scores)
    totals = {name: np.zeros_like(buffer) for name, buffer in buffers.items()}
    for sign, part in signed:
        log_partition_grad(offsets, part, weight=sign * by_sequence, **arrays, **options, **buffers)
        for name, buffer in buffers.items():
            totals[name] += buffer
    shared = [totals.get(f"grad_{name}") for name in names]
    grad_edge = totals.get("grad_edge")
    gradient = (
        batch.padded(torch.from_numpy(totals["grad_emit"])),
        *(None if g is None else torch.from_numpy(g) for g in shared),
        None if grad_edge is None else batch.padded(torch.from_numpy(grad_edge)),
    )
    return value, gradient


def _weights(task: Task, llh: Any) -> Any:
    """Weights [N] of the sequences in the reduced value."""
    n = {"sum": 1, "none": 1, "mean": len(llh), "token_mean": task.batch.n_tokens}[task.reduction]
    return np.full(len(llh), 1.0 / n if n else np.nan)


# ---- labels -------------------------------------------------------------------------------------


def allowed_labels(tags: Tensor, Y: int) -> Tensor:
    """Return the allowed labels [..., Y] of ids [...], or of sets [..., Y] themselves."""
    if tags.dtype == torch.bool:
        return tags
    every = torch.arange(Y, device=tags.device)
    return (tags.unsqueeze(-1) == every) | (tags.unsqueeze(-1) == UNKNOWN)


def check_tags(batch: Padded | Ragged, tags: Tensor | None, Y: int) -> None:
    """Raise LabelError if an unmasked tag is neither a label id nor −100."""
    if tags is None or tags.dtype == torch.bool:
        return
    rows = batch.rows(tags)
    bad = ((rows < 0) & (rows != UNKNOWN)) | (rows >= Y)
    if bad.any():
        t = int(bad.nonzero()[0])
        raise LabelError(
            where=f"tags, {batch.place(t)}",
            expected=f"a label id from 0 to {Y - 1}, or {UNKNOWN} for unknown",
            found=str(int(rows[t])),
        )


# ---- derivatives of any order -------------------------------------------------------------------


def in_log_space(
    task: Task,
    emit: Tensor,
    trans: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    weights: Tensor | None,
    edge: Tensor | None,
) -> Tensor:
    """The same value by log-sum-exp and autograd."""
    return by_sums(task, emit, trans, start, stop, weights, edge, sums.log_space)


def by_sums(
    task: Task,
    emit: Tensor,
    trans: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    weights: Tensor | None,
    edge: Tensor | None,
    log_partition: Any = sums.log_partition,
) -> Tensor:
    """The same value in plain PyTorch, on the device of the tensors."""
    Y, batch = emit.shape[-1], task.batch
    scores, inside, moves = over_states(task.states, batch, emit, trans, start, stop, weights, edge)
    tags = None if task.tags is None else batch.time_major(task.tags)
    if tags is None:
        value = log_partition(scores, inside, moves)
    elif _are_paths(task, tags, inside, moves):
        if log_partition is sums.log_partition:
            value = sums.log_probability(scores, tags, inside)
        else:
            gold = sums.path_score(scores, tags, inside)
            value = _difference(gold, log_partition(scores, inside, moves))
    else:
        allowed = allowed_labels(tags, Y)
        if task.states is not None:
            allowed = allowed[..., state_labels(task.states, emit.device)]
        known = scores._replace(emit=scores.emit.masked_fill(~allowed, -torch.inf))
        gold = log_partition(known, inside, moves)
        value = _difference(gold, log_partition(scores, inside, moves))
    if task.reduction == "none":
        return value
    total = value.sum()
    if task.reduction == "mean":
        return total / batch.n_sequences
    return total / batch.n_tokens if task.reduction == "token_mean" else total


def _are_paths(task: Task, tags: Tensor, inside: Tensor, moves: Tensor | None) -> bool:
    """Whether every position has one label, and states are labels."""
    if tags.dtype == torch.bool or task.states is not None or moves is not None:
        return False
    return not bool(((tags < 0) & inside).any())


def _difference(gold: Tensor, log_z: Tensor) -> Tensor:
    """Gold less log_z; −inf without a gradient where no path is allowed."""
    return torch.where(gold == -torch.inf, gold.detach(), gold - log_z)


def state_labels(states: StateSpace, device: torch.device) -> Tensor:
    """Return the label of each state [S]."""
    return _index(states.state_labels, device)


def _index(array: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=np.int64)).to(device)


def over_states(
    states: StateSpace | None,
    batch: Padded | Ragged,
    emit: Tensor,
    trans: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    weights: Tensor | None,
    edge: Tensor | None,
) -> tuple[sums.Scores, Tensor, Tensor | None]:
    """Return time-major scores over states, the mask [L, B], and edge scores [L, B, S, S]."""
    by_time = batch.time_major(emit)
    moves = None if edge is None else batch.time_major(edge)
    zeros = trans.new_zeros(trans.shape[0])
    first, last = zeros if start is None else start, zeros if stop is None else stop
    if states is None:
        return sums.Scores(by_time, trans, first, last), batch.inside, moves
    device, S = emit.device, states.n_states
    label, src, dst = (_index(x, device) for x in (states.state_labels, states.src, states.dst))
    arcs = trans[label[src], label[dst]]  # [M]
    first = first[label]
    if weights is not None:
        by_arc = np.repeat(np.arange(len(states.src)), np.diff(states.tie_indptr))
        by_state = np.repeat(np.arange(S), np.diff(states.start_tie_indptr))
        tied, tied_start = states.tie_ids, states.start_tie_ids
        arcs = arcs.index_add(0, _index(by_arc, device), weights[_index(tied, device)])
        first = first.index_add(0, _index(by_state, device), weights[_index(tied_start, device)])
    matrix = trans.new_full((S, S), -torch.inf).index_put((src, dst), arcs)
    no_start, no_stop = (_index(~x, device).bool() for x in (states.initial, states.final))
    scores = sums.Scores(
        by_time[..., label],
        matrix,
        first.masked_fill(no_start, -torch.inf),
        last[label].masked_fill(no_stop, -torch.inf),
    )
    if moves is not None:
        moves = moves[..., label[:, None], label[None, :]]
    return scores, batch.inside, moves


# ---- operators for torch.compile ----------------------------------------------------------------

# Operators take numbers and tensors: a state space is passed by its number.
_SPACES: WeakValueDictionary[int, StateSpace] = WeakValueDictionary()
_numbers = itertools.count(1)


def number_space(states: StateSpace | None) -> int:
    """Return the number by which operators find a state space; 0 for none."""
    if states is None:
        return 0
    number = next(_numbers)
    _SPACES[number] = states
    return number


def _task(emit: Tensor, where: Tensor | None, tags: Tensor | None, space: int) -> Task:
    """Make the task of a padded batch with its mask, or of sequences in a row with offsets."""
    batch: Padded | Ragged = Padded(emit, where)
    if emit.dim() == 2:
        assert where is not None
        batch = Ragged(emit, check_offsets(where.cpu().numpy(), emit.shape[0]))
    return Task(batch, tags, "none", _SPACES[space] if space else None)


@torch.library.custom_op("tagloom::log_likelihood", mutates_args=(), device_types="cpu")
def _operator(
    emit: Tensor,
    where: Tensor | None,
    tags: Tensor | None,
    trans: Tensor,
    start: Tensor,
    stop: Tensor,
    weights: Tensor | None,
    edge: Tensor | None,
    space: int,
) -> Tensor:
    inputs = [emit, trans, start, stop, weights, edge]
    return evaluate(_task(emit, where, tags, space), inputs, None, False)[0]


@torch.library.custom_op("tagloom::log_likelihood_gradient", mutates_args=(), device_types="cpu")
def _gradient_operator(
    emit: Tensor,
    where: Tensor | None,
    tags: Tensor | None,
    trans: Tensor,
    start: Tensor,
    stop: Tensor,
    weights: Tensor | None,
    edge: Tensor | None,
    space: int,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    inputs = [emit, trans, start, stop, weights, edge]
    numbers = weight.double().contiguous().numpy()
    _, gradient = evaluate(_task(emit, where, tags, space), inputs, numbers, True)
    assert gradient is not None
    by_emit, by_trans, by_start, by_stop, by_weights, by_edge = (
        emit.new_empty(0) if part is None else part.contiguous() for part in gradient
    )
    return by_emit, by_trans, by_start, by_stop, by_weights, by_edge


@_operator.register_fake
def _(
    emit: Tensor,
    where: Tensor | None,
    tags: Tensor | None,
    trans: Tensor,
    start: Tensor,
    stop: Tensor,
    weights: Tensor | None,
    edge: Tensor | None,
    space: int,
) -> Tensor:
    if emit.dim() == 3:
        return emit.new_empty(emit.shape[0])
    assert where is not None
    return emit.new_empty(where.shape[0] - 1)


@_gradient_operator.register_fake
def _(
    emit: Tensor,
    where: Tensor | None,
    tags: Tensor | None,
    trans: Tensor,
    start: Tensor,
    stop: Tensor,
    weights: Tensor | None,
    edge: Tensor | None,
    space: int,
    weight: Tensor,
) -> tuple[Tensor, ...]:
    every = (emit, trans, start, stop, weights, edge)
    return tuple(emit.new_empty(0 if x is None else x.shape) for x in every)


def _save(ctx: Any, inputs: Any, output: Tensor) -> None:
    *tensors, ctx.space = inputs
    ctx.save_for_backward(*tensors)


def _differentiate(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
    emit, where, tags, trans, start, stop, weights, edge = ctx.saved_tensors
    by_emit, by_trans, by_start, by_stop, by_weights, by_edge = _gradient_operator(
        emit, where, tags, trans, start, stop, weights, edge, ctx.space, weight
    )
    return (
        by_emit,
        None,
        None,
        by_trans,
        by_start,
        by_stop,
        None if weights is None else by_weights,
        None if edge is None else by_edge,
        None,
    )


torch.library.register_autograd("tagloom::log_likelihood", _differentiate, setup_context=_save)


def compiled_log_likelihood(
    emit: Tensor,
    where: Tensor | None,
    tags: Tensor | None,
    trans: Tensor,
    start: Tensor,
    stop: Tensor,
    weights: Tensor | None,
    edge: Tensor | None,
    space: int,
) -> Tensor:
    """Log-likelihoods [B] as an operator of a compiled graph.

    ``where`` is the mask of a padded batch [B, L, Y], or the offsets of sequences in a row [T, Y];
    ``space`` comes from `number_space`.
    """
    edge = None if edge is None else edge.contiguous()
    result: Tensor = _operator(
        emit.contiguous(), where, tags, trans.contiguous(), start, stop, weights, edge, space
    )
    return result
