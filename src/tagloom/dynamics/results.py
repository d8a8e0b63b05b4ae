"""What inference about numeric states returns, as named tuples of arrays.

T is the number of steps, n of states, m of observed components. A variance is infinite (``inf``)
as long as nothing is known of a state that starts diffuse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Filtered(NamedTuple):
    """The state at each step given the observations up to it: the forward recursion.

    Attributes
    ----------
    means : ndarray, shape (T, n)
        E[x_t | y_0 … y_t].
    covariances : ndarray, shape (T, n, n)
        Cov[x_t | y_0 … y_t].
    predicted_means : ndarray, shape (T, n)
        E[x_t | y_0 … y_{t−1}].
    predicted_covariances : ndarray, shape (T, n, n)
        Cov[x_t | y_0 … y_{t−1}].
    log_densities : ndarray, shape (T,)
        log p(y_t | y_0 … y_{t−1}), without the missing components; low where an observation is a
        surprise.
    log_likelihood : float
        Their sum, log p(y).
    n_diffuse : int
        Number of steps after which some variance is still infinite.
    """

    means: Floats
    covariances: Floats
    predicted_means: Floats
    predicted_covariances: Floats
    log_densities: Floats
    log_likelihood: float
    n_diffuse: int


class Smoothed(NamedTuple):
    """The state at each step given all observations: forward and backward.

    Attributes
    ----------
    means : ndarray, shape (T, n)
        E[x_t | y].
    covariances : ndarray, shape (T, n, n)
        Cov[x_t | y].
    lag_one_covariances : ndarray, shape (T − 1, n, n)
        Cov[x_{t+1}, x_t | y] in row t.
    log_likelihood : float
        log p(y).
    """

    means: Floats
    covariances: Floats
    lag_one_covariances: Floats
    log_likelihood: float


class Observed(NamedTuple):
    """Observations as a model expects them.

    Attributes
    ----------
    means : ndarray, shape (T, m)
    covariances : ndarray, shape (T, m, m)
    """

    means: Floats
    covariances: Floats


class Forecast(NamedTuple):
    """Observations after the last one, and their states.

    Attributes
    ----------
    means : ndarray, shape (n_steps, m)
        E[y_{T+h} | y_0 … y_{T−1}], h = 0 … n_steps − 1.
    covariances : ndarray, shape (n_steps, m, m)
        Their covariances, with the noise of the observations.
    state_means : ndarray, shape (n_steps, n)
    state_covariances : ndarray, shape (n_steps, n, n)
    """

    means: Floats
    covariances: Floats
    state_means: Floats
    state_covariances: Floats


class Generated(NamedTuple):
    """A run of a model.

    Attributes
    ----------
    states : ndarray, shape (T, n)
    observations : ndarray, shape (T, m)
    """

    states: Floats
    observations: Floats


class Belief(NamedTuple):
    """The present state given the observations so far, one after another.

    Attributes
    ----------
    mean : ndarray, shape (n,)
        E[x_t | y_0 … y_t].
    covariance : ndarray, shape (n, n)
        Cov[x_t | y_0 … y_t].
    log_density : float
        log p(y_t | y_0 … y_{t−1}) of the latest observation.
    n_steps : int
        Number of observations so far, t + 1.
    start : object or None
        What is known of a diffuse start; None as soon as all variances are finite.
    """

    mean: Floats
    covariance: Floats
    log_density: float
    n_steps: int
    start: Any = None
