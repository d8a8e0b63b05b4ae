"""The one primitive that learning needs: log-partition and its gradient, into given buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import ScoreError, ShapeError
from tagloom.trellis.inputs import check_buffer, check_scores
from tagloom.trellis.states import StateSpace
from tagloom.trellis.trellis import Float64, Floats, Trellis


def log_partition_grad(
    offsets: npt.ArrayLike,
    emit: npt.ArrayLike,
    trans: npt.ArrayLike | None = None,
    start: npt.ArrayLike | None = None,
    stop: npt.ArrayLike | None = None,
    edge: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    *,
    states: StateSpace | None = None,
    weights: npt.ArrayLike | None = None,
    grad_emit: Floats | None = None,
    grad_trans: Floats | None = None,
    grad_start: Floats | None = None,
    grad_stop: Floats | None = None,
    grad_edge: Floats | None = None,
    grad_weights: Floats | None = None,
    n_threads: int | None = None,
) -> Float64:
    r"""Compute log_z of each sequence, and write the gradient of Σ_i weight[i]·log_z[i].

    ∂/∂emit[t, y] = weight · Pr(y_t = y), ∂/∂trans[y_prev, y] = Σ_t weight · Pr(y_prev, y), and so
    on: expected counts. A sequence without a path has log_z −inf and adds nothing.

    Parameters
    ----------
    offsets : array of int, shape (N + 1,)
    emit, trans, start, stop, edge : array
    states : StateSpace, optional
    weights : array, shape (K,), optional
        As for `Trellis`.
    weight : array, shape (N,), optional
        Of each sequence; 1 by default.
    grad_emit : ndarray, shape (T, Y), optional
    grad_trans : ndarray, shape (Y, Y), optional
    grad_start, grad_stop : ndarray, shape (Y,), optional
    grad_edge : ndarray, shape (T, Y, Y), optional
    grad_weights : ndarray, shape (K,), optional
        Buffers that are overwritten; those left out are not computed.
    n_threads : int, optional
        All cores by default; the result does not depend on it.

    Returns
    -------
    ndarray of float64, shape (N,)
        log_z.

    Examples
    --------
    >>> grad = np.empty((3, 2))
    >>> log_z = log_partition_grad([0, 3], np.zeros((3, 2)), grad_emit=grad)
    >>> grad[0]
    array([0.5, 0.5])
    """
    trellis = Trellis(
        emit,
        trans,
        start,
        stop,
        edge=edge,
        offsets=offsets,
        states=states,
        weights=weights,
        n_threads=n_threads,
    )
    T, Y = trellis.emit.shape
    n = len(trellis)
    times: Any = None  # [N] that a sequence counts
    if weight is not None:
        times = check_scores(weight, "weight", np.float64)
        if times.shape != (n,):
            expected = f"of shape (N,) = ({n},)"
            raise ShapeError(parameter="weight", expected=expected, found=str(times.shape))
        if np.isneginf(times).any():
            where = f"weight[{int(np.argmin(times))}]"
            raise ScoreError(where=where, expected="a finite weight", found="-inf")
    check_buffer(grad_emit, "grad_emit", (T, Y))
    check_buffer(grad_trans, "grad_trans", (Y, Y))
    check_buffer(grad_start, "grad_start", (Y,))
    check_buffer(grad_stop, "grad_stop", (Y,))
    check_buffer(grad_edge, "grad_edge", (T, Y, Y))
    check_buffer(grad_weights, "grad_weights", (0 if states is None else states.n_weights,))

    of_moves = (grad_trans, grad_start, grad_stop, grad_weights)
    counting = any(buffer is not None for buffer in of_moves)
    marginals = _writable(grad_emit, trellis)
    pairs = _writable(grad_edge, trellis)
    counts = trellis._transitions.no_counts() if counting else None
    log_z = trellis._sums(marginals=marginals, pairs=pairs, counts=counts, weight=times)
    if times is not None:
        by_token = np.repeat(times, trellis.lengths).astype(trellis.dtype)  # [T]
        if marginals is not None:
            marginals *= by_token[:, None]
        if pairs is not None:
            pairs *= by_token[:, None, None]
    if grad_emit is not None and marginals is not grad_emit:
        grad_emit[...] = marginals
    if grad_edge is not None and pairs is not grad_edge:
        grad_edge[...] = pairs
    if counts is not None:
        found = (counts.transitions, counts.start, counts.stop, counts.weights)
        for buffer, value in zip(of_moves, found, strict=True):
            if buffer is not None:
                buffer[...] = value
    return log_z


def _writable(buffer: Floats | None, trellis: Trellis) -> Floats | None:
    """Return the buffer itself, zeroed, where the core can write into it; otherwise another."""
    if buffer is None:
        return None
    if trellis._may_write(buffer):
        buffer[...] = 0
        return buffer
    return np.zeros(buffer.shape, dtype=trellis.dtype)
