"""Layers of networks by the native core, as functions of autograd.

They compute what the modules of ``torch.nn`` compute, from the same parameters, on the CPU and in
float32. Batches are ragged: the rows of all sequences one after another. Gradients of weights are
one product of matrices each; character convolutions are look-ups in a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tagloom import _native

Int64 = npt.NDArray[np.int64]

_SAVED = {"lstm": 5, "gru": 4, "rnn": 0}  # arrays [H] per token that a gradient needs


def supports_tensor(x: Tensor) -> bool:
    """Return whether the native core can read a tensor."""
    return x.device.type == "cpu" and x.dtype == torch.float32


def supports(module: nn.Module, x: Tensor) -> bool:
    """Return whether the native core can run a recurrent module on an input."""
    return (
        isinstance(module, (nn.LSTM, nn.GRU, nn.RNN))
        and supports_tensor(x)
        and module.bias
        and getattr(module, "nonlinearity", "tanh") == "tanh"
        and not getattr(module, "proj_size", 0)
    )


def recurrent(
    module: nn.RNNBase,
    x: Tensor,
    offsets: Int64,
    h0: Tensor | None = None,
    c0: Tensor | None = None,
    *,
    seed: int = 0,
) -> Tensor:
    """Run all layers of an LSTM, GRU or tanh RNN over a ragged batch.

    Parameters
    ----------
    module : nn.LSTM, nn.GRU or nn.RNN
        Its parameters are used, and its dropout between layers in training.
    x : Tensor of float32, shape (T, D)
    offsets : ndarray of int64, shape (N + 1,)
    h0, c0 : Tensor, shape (layers · directions, H), optional
        Initial states of every sequence; zero by default.
    seed : int
        Determines which components are dropped; see `dropout`.

    Returns
    -------
    Tensor, shape (T, directions · H)
    """
    cell = {nn.LSTM: "lstm", nn.GRU: "gru", nn.RNN: "rnn"}[type(module)]
    directions = 2 if module.bidirectional else 1
    zeros = x.new_zeros(module.num_layers * directions, module.hidden_size)
    h0 = zeros if h0 is None else h0
    c0 = zeros if c0 is None and cell == "lstm" else c0
    for k in range(module.num_layers):
        if k and module.training and module.dropout:
            x = dropout(x, module.dropout, seed + k)
        rows = slice(k * directions, (k + 1) * directions)
        names = [f"_l{k}{suffix}" for suffix in ("", "_reverse")[:directions]]
        weights = [
            getattr(module, part + name)
            for name in names
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        x = _Recurrent.apply(cell, offsets, x, h0[rows], None if c0 is None else c0[rows], *weights)
    return x


class _Recurrent(torch.autograd.Function):
    """One layer, in one or both directions."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: str,
        offsets: Int64,
        x: Tensor,
        h0: Tensor,
        c0: Tensor | None,
        *weights: Tensor,
    ) -> Tensor:
        x = x.contiguous()
        T, (D, H) = len(x), h0.shape
        out = x.new_empty(T, D * H)
        saved = []
        for d in range(D):
            gates, before = x.new_empty(T, _SAVED[cell] * H), x.new_empty(T, H)
            task = _cell(cell, offsets, x, h0, c0, weights, d)
            task.run(out.numpy(), d * H, gates.numpy(), before.numpy())
            saved += [gates, before]
        ctx.cell, ctx.offsets = cell, offsets
        ctx.save_for_backward(x, h0, c0, out, *weights, *saved)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Any, ...]:
        x, h0, c0, out, *rest = ctx.saved_tensors
        D, H = h0.shape
        weights, saved = rest[: 4 * D], rest[4 * D :]
        grad_out = grad_out.contiguous()
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[2] else None
        grad_h0 = torch.empty_like(h0)
        grad_c0 = None if c0 is None else torch.empty_like(c0)
        grads = [torch.empty_like(weight) for weight in weights]
        for d in range(D):
            task = _cell(ctx.cell, ctx.offsets, x, h0, c0, weights, d)
            w_ih, w_hh, b_ih, b_hh = (grad.numpy() for grad in grads[4 * d : 4 * d + 4])
            task.differentiate(
                out.numpy(),
                grad_out.numpy(),
                d * H,
                saved[2 * d].numpy(),
                saved[2 * d + 1].numpy(),
                w_ih,
                w_hh,
                b_ih,
                b_hh,
                grad_h0[d].numpy(),
                None if grad_c0 is None else grad_c0[d].numpy(),
                None if grad_x is None else grad_x.numpy(),
                d > 0,
            )
        return None, None, grad_x, grad_h0, grad_c0, *grads


def _cell(
    cell: str,
    offsets: Int64,
    x: Tensor,
    h0: Tensor,
    c0: Tensor | None,
    weights: Any,
    d: int,
) -> _native.RecurrentCell:
    """Direction d of a layer, for the native core."""
    w_ih, w_hh, b_ih, b_hh = (weight.detach().numpy() for weight in weights[4 * d : 4 * d + 4])
    return _native.RecurrentCell(
        cell,
        offsets,
        x.detach().numpy(),
        w_ih,
        w_hh,
        b_ih,
        b_hh,
        h0[d].detach().numpy(),
        None if c0 is None else c0[d].detach().numpy(),
        d == 1,
        torch.get_num_threads(),
    )


# ---- characters ---------------------------------------------------------------------------------


def character_convolutions(
    table: Tensor, convolutions: Any, characters: Tensor | npt.NDArray[Any], offsets: Int64
) -> Tensor:
    """Convolve the characters of words, and take the maximum over the positions of each word.

    Parameters
    ----------
    table : Tensor of float32, shape (n_characters, size)
    convolutions : iterable of nn.Conv1d
        Of odd widths; positions beyond a word count as zero.
    characters : Tensor or ndarray of int, shape (C,)
        Rows of the table, one word after another.
    offsets : ndarray of int64, shape (U + 1,)

    Returns
    -------
    Tensor, shape (U, filters of all convolutions)
    """
    ids = characters.numpy() if isinstance(characters, Tensor) else characters
    parameters = [x for conv in convolutions for x in (conv.weight, conv.bias)]
    result: Tensor = _Characters.apply(
        np.ascontiguousarray(ids, dtype=np.int32), offsets, table, *parameters
    )
    return result


class _Characters(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Any, offsets: Int64, table: Tensor, *parameters: Tensor) -> Tensor:
        U, weights = len(offsets) - 1, parameters[::2]
        out = table.new_empty(U, sum(len(weight) for weight in weights))
        positions, column = [], 0
        for weight, bias in zip(weights, parameters[1::2], strict=True):
            position = np.zeros((U, len(weight)), np.int32)
            _native.convolve_characters(
                table.numpy(),
                weight.numpy(),
                bias.numpy(),
                ids,
                offsets,
                out.numpy(),
                column,
                position,
                torch.get_num_threads(),
            )
            positions.append(position)
            column += len(weight)
        ctx.ids, ctx.offsets, ctx.positions = ids, offsets, positions
        ctx.save_for_backward(table, *parameters)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Any, ...]:
        table, *parameters = ctx.saved_tensors
        grad_out = grad_out.contiguous()
        grad_table = torch.zeros_like(table)
        grads, column = [], 0
        for k, position in enumerate(ctx.positions):
            weight, bias = parameters[2 * k : 2 * k + 2]
            grad_weight, grad_bias = torch.empty_like(weight), torch.empty_like(bias)
            _native.differentiate_characters(
                table.numpy(),
                weight.numpy(),
                bias.numpy(),
                ctx.ids,
                ctx.offsets,
                grad_out.numpy(),
                column,
                position,
                grad_table.numpy(),
                grad_weight.numpy(),
                grad_bias.numpy(),
            )
            grads += [grad_weight, grad_bias]
            column += len(weight)
        return None, None, grad_table, *grads


# ---- dropout ------------------------------------------------------------------------------------


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    """Set components to zero with probability p, and divide the others by 1 − p.

    Component i is dropped by a hash of the seed and i: the result does not depend on the number of
    threads, and nothing is stored for the gradient.
    """
    if p == 0:
        return x
    if p >= 1:
        return x * 0
    result: Tensor = _Dropout.apply(x, p, seed)
    return result


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.p, ctx.seed = p, seed & 0xFFFFFFFFFFFFFFFF
        return _drop(x, p, ctx.seed)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return dropout(grad, ctx.p, ctx.seed), None, None


def _drop(x: Tensor, p: float, seed: int) -> Tensor:
    x = x.detach().contiguous()
    out = torch.empty_like(x)
    _native.dropout(x.reshape(-1).numpy(), out.reshape(-1).numpy(), seed, p)
    return out
