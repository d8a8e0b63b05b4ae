"""Where EM starts: states guessed from the data, or drawn at random.

The first start is subspace identification by canonical variates (Larimore 1990): the state at t is
that part of the last few observations which best predicts the next few. With it EM begins near a
good model, where a random start may take hundreds of iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tagloom.dynamics.parameters import SHAPES, Floats, Parameters
from tagloom.dynamics.regressions import solve_symmetric
from tagloom.dynamics.series import Series

# Windows beyond this many add time and no precision to a first guess.
_MOST_WINDOWS = 20_000


def make_start(
    series: Series,
    given: Mapping[str, Floats],
    diffuse: Any,
    n: int,
    number: int,
    rng: np.random.Generator,
) -> Parameters:
    """Return the parameters of a start.

    Parameters
    ----------
    series : Series
    given : mapping of str to ndarray
        Parts that the user gave.
    diffuse : ndarray of bool, shape (n,)
    n : int
        Number of states.
    number : int
        Of the start: 0 is guessed from the data where that is possible, others are random.
    rng : Generator
    """
    m = series.y.shape[1]
    k = 0 if series.inputs is None else series.inputs.shape[1]
    level, spread = _moments(series)
    parts: dict[str, Floats] | None = None
    if number == 0 and not {"transition", "observation"} & set(given):
        parts = _subspace(series, n, level)
    if parts is None:
        parts = _random(n, spread, number, rng)
    sizes = {"n": n, "m": m, "k": k}
    for name in ("transition_offset", "transition_input", "observation_input", "initial_mean"):
        parts[name] = np.zeros([sizes[letter] for letter in SHAPES[name]])
    parts["observation_offset"] = level
    parts |= given
    cov = parts["initial_covariance"].copy()
    cov[diffuse] = 0
    cov[:, diffuse] = 0
    parts["initial_covariance"] = cov
    return Parameters(**parts, diffuse=diffuse)


def _moments(series: Series) -> tuple[Floats, Floats]:
    """Mean and variance of each component; 0 and 1 where nothing is observed."""
    is_seen = np.isfinite(series.y)
    count = np.maximum(is_seen.sum(axis=0), 1)
    level = np.where(is_seen, series.y, 0).sum(axis=0) / count
    spread = np.where(is_seen, (series.y - level) ** 2, 0).sum(axis=0) / count
    return level, np.where(spread > 0, spread, 1.0)


def _random(n: int, spread: Floats, number: int, rng: np.random.Generator) -> dict[str, Floats]:
    """States that decay at random rates and directions, and explain half of the variance."""
    A = np.diag(np.linspace(0.95, 0.5, n))  # states with different rates
    if number:
        turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A = (turn * rng.uniform(0.5, 0.99, size=n)) @ turn.T
        A = A @ np.linalg.qr(np.eye(n) + 0.3 * rng.standard_normal((n, n)))[0]  # some rotate
        A *= min(1.0, 0.99 / max(abs(np.linalg.eigvals(A))))
    m = len(spread)
    C = rng.standard_normal((m, n)) * np.sqrt(spread / (2 * n))[:, None]
    return {
        "transition": A,
        "transition_covariance": 0.2 * np.eye(n),
        "observation": C,
        "observation_covariance": np.diag(spread / 2),
        "initial_covariance": np.eye(n),
    }


def _subspace(series: Series, n: int, level: Floats) -> dict[str, Floats] | None:
    """Canonical variates of the past and the future; None if sequences are too short."""
    m = series.y.shape[1]
    lags = max(2, -(-(n + 1) // m) + 1)
    pasts, futures = _windows(_interpolated(series, level), series, lags)
    if len(pasts) < 4 * lags * m + 4 * n:
        return None
    pasts, futures = pasts - pasts.mean(axis=0), futures - futures.mean(axis=0)
    roots = []
    for windows in (pasts, futures):
        cov = windows.T @ windows / len(windows)
        cov += 1e-6 * np.trace(cov) / len(cov) * np.eye(len(cov)) + 1e-300 * np.eye(len(cov))
        roots.append(np.linalg.inv(np.linalg.cholesky(cov)))
    cross = roots[1] @ (futures.T @ pasts / len(pasts)) @ roots[0].T
    _, values, right = np.linalg.svd(cross)
    if len(values) < n:
        return None
    weights = np.sqrt(values[:n] + 1e-3)[:, None] * (right[:n] @ roots[0])
    states = pasts @ weights.T  # [windows, n]
    # Windows are in order within a sequence; a few pairs across a boundary do no harm to a guess.
    before, after = states[:-1], states[1:]
    A = solve_symmetric(before.T @ before, before.T @ after).T
    A *= min(1.0, 0.999 / max(max(abs(np.linalg.eigvals(A))), 1e-12))
    C = solve_symmetric(states.T @ states, states.T @ futures[:, :m]).T
    noise = np.cov(after - before @ A.T, rowvar=False).reshape(n, n)
    errors = futures[:, :m] - states @ C.T
    scale = np.trace(states.T @ states) / len(states) / n
    spread = errors.T @ errors / len(errors)
    return {
        "transition": A,
        "transition_covariance": noise + 1e-4 * scale * np.eye(n),
        "observation": C,
        "observation_covariance": np.diag(np.diag(spread)) * 0.5
        + 0.5 * spread
        + 1e-8 * np.trace(spread) * np.eye(m) / m
        + 1e-300 * np.eye(m),
        "initial_covariance": np.cov(states, rowvar=False).reshape(n, n),
    }


def _interpolated(series: Series, level: Floats) -> Floats:
    """The observations with gaps filled along straight lines."""
    y = series.y
    if np.isfinite(y).all():
        return y
    y = y.copy()
    for span in series.spans():
        for i, column in enumerate(y[span].T):
            is_seen = np.isfinite(column)
            if not is_seen.any():
                column[:] = level[i]
            elif not is_seen.all():
                t = np.arange(len(column))
                column[~is_seen] = np.interp(t[~is_seen], t[is_seen], column[is_seen])
    return y


def _windows(y: Floats, series: Series, lags: int) -> tuple[Floats, Floats]:
    """Pasts (y_{t−1} … y_{t−lags}) and futures (y_t … y_{t+lags−1}), [windows, lags m] each."""
    pasts, futures, left = [], [], _MOST_WINDOWS
    for span in series.spans():
        count = min(span.stop - span.start - 2 * lags + 1, left)
        if count <= 0:
            continue
        left -= count
        t = span.start + lags + np.arange(count)
        pasts.append(np.concatenate([y[t - 1 - i] for i in range(lags)], axis=1))
        futures.append(np.concatenate([y[t + i] for i in range(lags)], axis=1))
    width = lags * y.shape[1]
    empty = np.zeros((0, width))
    return np.concatenate([*pasts, empty]), np.concatenate([*futures, empty])
