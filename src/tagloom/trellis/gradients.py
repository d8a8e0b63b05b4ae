"""The primitive of learning: log-partitions and their gradient, written into given buffers."""

from __future__ import annotations

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

    The gradient consists of expected counts: ∂/∂emit[t, y] = weight · Pr(y_t = y),
    ∂/∂trans[y_prev, y] = Σ_t weight · Pr(y_prev, y), and so on. A sequence without a path has
    log_z −inf and adds nothing.

    Parameters
    ----------
    offsets : array of int, shape (N + 1,)
    emit, trans, start, stop, edge : array
    states : StateSpace, optional
    weights : array, shape (K,), optional
        As for `Trellis`.
    weight : array, shape (N,), optional
        Weight of each sequence; 1 by default.
    grad_emit : ndarray, shape (T, Y), optional
    grad_trans : ndarray, shape (Y, Y), optional
    grad_start, grad_stop : ndarray, shape (Y,), optional
    grad_edge : ndarray, shape (T, Y, Y), optional
    grad_weights : ndarray, shape (K,), optional
        Buffers to overwrite; gradients without a buffer are not computed.
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
    K = 0 if states is None else states.n_weights
    check_buffer(grad_emit, "grad_emit", (T, Y))
    check_buffer(grad_edge, "grad_edge", (T, Y, Y))
    by_transition = {
        "trans": (grad_trans, (Y, Y)),
        "start": (grad_start, (Y,)),
        "stop": (grad_stop, (Y,)),
        "weights": (grad_weights, (K,)),
    }
    for name, (buffer, shape) in by_transition.items():
        check_buffer(buffer, f"grad_{name}", shape)
    of_sequence = None if weight is None else _sequence_weights(weight, len(trellis))

    marginals = _writable(grad_emit, trellis)
    pairs = _writable(grad_edge, trellis)
    is_counting = any(buffer is not None for buffer, _ in by_transition.values())
    counts = trellis._transitions.no_counts() if is_counting else None
    log_z = trellis._sums(marginals=marginals, pairs=pairs, counts=counts, weight=of_sequence)

    by_token = None
    if of_sequence is not None:
        by_token = np.repeat(of_sequence, trellis.lengths).astype(trellis.dtype)  # [T]
    _finish(grad_emit, marginals, by_token)
    _finish(grad_edge, pairs, by_token)
    if counts is not None:
        values = (counts.transitions, counts.start, counts.stop, counts.weights)
        for (buffer, _), value in zip(by_transition.values(), values, strict=True):
            if buffer is not None:
                buffer[...] = value
    return log_z


def _sequence_weights(weight: npt.ArrayLike, N: int) -> Float64:
    """Return the weights of sequences [N], all finite."""
    weights = np.asarray(check_scores(weight, "weight", np.float64), dtype=np.float64)
    if weights.shape != (N,):
        expected = f"of shape (N,) = ({N},)"
        raise ShapeError(parameter="weight", expected=expected, found=str(weights.shape))
    if np.isneginf(weights).any():
        where = f"weight[{int(np.argmin(weights))}]"
        raise ScoreError(where=where, expected="a finite weight", found="-inf")
    return weights


def _writable(buffer: Floats | None, trellis: Trellis) -> Floats | None:
    """Return the buffer itself, zeroed, if the core can write to it; otherwise a new array."""
    if buffer is None:
        return None
    if trellis._may_write(buffer):
        buffer[...] = 0
        return buffer
    return np.zeros(buffer.shape, dtype=trellis.dtype)


def _finish(buffer: Floats | None, values: Floats | None, by_token: Floats | None) -> None:
    """Multiply values [T, ...] by the weights of tokens [T], and copy them to the buffer."""
    if buffer is None or values is None:
        return
    if by_token is not None:
        values *= by_token.reshape(-1, *[1] * (values.ndim - 1))
    if values is not buffer:
        buffer[...] = values
