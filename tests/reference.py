"""The textbook recurrences in NumPy, log space, first order: for sequences too long to enumerate.

Eisenstein (2018) §7.3 and §7.5.3, with start, stop and edge scores. One position at a time,
readable, slow. `oracles` checks these on short sequences, these check the native code on longer.
"""

from __future__ import annotations

import numpy as np


def unfold(space, weights, emit, trans, start, stop, edge=None):
    """The same problem in first order: its labels are states, missing transitions are −inf."""
    labels = np.asarray(space.state_labels)
    wide = np.full((space.n_states, space.n_states), -np.inf)
    for m, (p, s) in enumerate(zip(space.src, space.dst, strict=True)):
        ties = space.tie_ids[space.tie_indptr[m] : space.tie_indptr[m + 1]]
        wide[p, s] = trans[labels[p], labels[s]] + np.sum(weights[ties])
    first = np.full(space.n_states, -np.inf)
    for s in np.flatnonzero(space.initial):
        ties = space.start_tie_ids[space.start_tie_indptr[s] : space.start_tie_indptr[s + 1]]
        first[s] = start[labels[s]] + np.sum(weights[ties])
    return {
        "emit": emit[:, labels],
        "trans": wide,
        "start": first,
        "stop": np.where(space.final, stop[labels], -np.inf),
        "edge": None if edge is None else edge[:, labels][:, :, labels],
    }


def fold(space, gamma):
    """Sum a [T, S] array over the states of each label: [T, Y]."""
    out = np.zeros((len(gamma), space.n_labels))
    np.add.at(out.T, np.asarray(space.state_labels), gamma.T)
    return out


def log_sum_exp(x, axis):
    """log Σ exp(x) along an axis; −inf where every term is −inf."""
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.squeeze(top, axis) + np.log(np.sum(np.exp(x - top), axis=axis))


def transitions(emit, trans, edge):
    """step[t, y_prev, y] = trans[y_prev, y] + edge[t, y_prev, y] + emit[t, y], in float64."""
    step = np.asarray(emit, float)[:, None, :] + np.asarray(trans, float)
    return step if edge is None else step + np.asarray(edge, float)


def forward(emit, trans, start, stop=None, edge=None, plus=log_sum_exp):
    """alpha[t, y] = ⊕_{y_prev} alpha[t-1, y_prev] + step[t, y_prev, y]."""
    step = transitions(emit, trans, edge)  # [T, Y, Y]
    alpha = np.empty(np.shape(emit))
    alpha[0] = np.asarray(start, float) + emit[0]
    for t in range(1, len(alpha)):
        alpha[t] = plus(alpha[t - 1][:, None] + step[t], axis=0)
    return alpha


def backward(emit, trans, start, stop, edge=None, plus=log_sum_exp):
    """beta[t, y] = ⊕_{y_next} step[t+1, y, y_next] + beta[t+1, y_next];  beta[T-1] = stop."""
    step = transitions(emit, trans, edge)  # [T, Y, Y]
    beta = np.empty(np.shape(emit))
    beta[-1] = stop
    for t in range(len(beta) - 2, -1, -1):
        beta[t] = plus(step[t + 1] + beta[t + 1], axis=1)
    return beta


def log_partition(emit, trans, start, stop, edge=None):
    alpha = forward(emit, trans, start, stop, edge)
    return float(log_sum_exp(alpha[-1] + stop, axis=0))


def marginals(emit, trans, start, stop, edge=None):
    """gamma[t, y] = exp(alpha[t, y] + beta[t, y] − log_z)."""
    alpha = forward(emit, trans, start, stop, edge)
    beta = backward(emit, trans, start, stop, edge)
    return np.exp(alpha + beta - log_partition(emit, trans, start, stop, edge))


def pair_marginals(emit, trans, start, stop, edge=None):
    """xi[t, y_prev, y] = exp(alpha[t-1, y_prev] + step[t, y_prev, y] + beta[t, y] − log_z)."""
    alpha = forward(emit, trans, start, stop, edge)
    beta = backward(emit, trans, start, stop, edge)
    step = transitions(emit, trans, edge)
    log_z = log_partition(emit, trans, start, stop, edge)
    xi = np.zeros(step.shape)
    xi[1:] = np.exp(alpha[:-1, :, None] + step[1:] + beta[1:, None, :] - log_z)
    return xi


def viterbi(emit, trans, start, stop, edge=None):
    """The best path and its score; ``np.argmax`` takes the lowest label among equals."""
    step = transitions(emit, trans, edge)
    v = forward(emit, trans, start, stop, edge, plus=np.max)
    last = v[-1] + stop
    path = [int(np.argmax(last))]
    for t in range(len(v) - 1, 0, -1):
        path.append(int(np.argmax(v[t - 1] + step[t, :, path[-1]])))
    return np.array(path[::-1]), float(np.max(last))
