"""Exact posteriors of label paths by enumeration, for the samplers."""

import itertools
import math

import numpy as np


def log_row(counts, prior):
    """log of the Dirichlet-multinomial probability of ordered draws from one row."""
    counts, prior = np.asarray(counts, dtype=float), np.asarray(prior, dtype=float)
    if (counts[prior == 0] > 0).any():
        return -math.inf
    counts, prior = counts[prior > 0], prior[prior > 0]
    if not len(prior):
        return 0.0
    total = math.lgamma(prior.sum()) - math.lgamma(prior.sum() + counts.sum())
    return total + sum(
        math.lgamma(a + n) - math.lgamma(a) for a, n in zip(prior, counts, strict=True)
    )


def count(path, symbols, offsets, Y, V):
    transitions, emissions = np.zeros((Y + 1, Y + 1)), np.zeros((Y, V))
    for first, end in itertools.pairwise(offsets):
        for before, after in itertools.pairwise([Y, *path[first:end], Y]):
            transitions[before, after] += 1
    for y, x in zip(path, symbols, strict=True):
        if x >= 0:
            emissions[y, x] += 1
    return transitions, emissions


def exact_posterior(symbols, offsets, start, trans, stop, beta, V, candidates=None):
    """Pr(path | symbols) of every path, with all parameters integrated out."""
    Y = len(start)
    paths = list(itertools.product(range(Y), repeat=len(symbols)))
    logs = []
    for path in paths:
        if candidates and any(y not in c for y, c in zip(path, candidates, strict=True)):
            logs.append(-math.inf)
            continue
        transitions, emissions = count(path, symbols, offsets, Y, V)
        log = log_row(transitions[Y, :Y], start)
        for y in range(Y):
            prior = trans[y] if stop is None else [*trans[y], stop[y]]
            log += log_row(transitions[y, : len(prior)], prior)
            log += log_row(emissions[y], np.full(V, beta))
        logs.append(log)
    probs = np.exp(np.array(logs) - max(logs))
    return probs / probs.sum()


def number(labels, Y):
    return int(labels @ Y ** np.arange(len(labels) - 1, -1, -1))


def total_variation(p, q):
    return 0.5 * float(np.abs(p - q).sum())


def log_grid(low, high, n):
    """Points at equal distances in log space, and their weights under an exponential prior."""
    points = np.exp(np.linspace(low, high, n))
    return points, points * np.exp(-points)
