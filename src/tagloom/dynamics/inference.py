"""Filter, smooth, sample and forecast: pure functions from a model and a series to arrays.

Nothing here checks what users pass; `tagloom.dynamics.series` and `parameters` have done so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tagloom.dynamics.parameters import Floats, Parameters, make_system
from tagloom.dynamics.results import Filtered, Observed, Smoothed
from tagloom.dynamics.series import Series
from tagloom.errors import ParameterError


def log_likelihoods(
    parameters: Parameters, series: Series, tolerance: float, n_threads: int
) -> Floats:
    """Return log p(y) of each sequence, shape (N,)."""
    system = make_system(parameters, series.varying, series.inputs, tolerance)
    out = np.empty(series.n_sequences)
    system.filter(series.native, out, threads=n_threads)
    return out


def filter_series(
    parameters: Parameters, series: Series, tolerance: float, n_threads: int
) -> list[Filtered]:
    """Run the forward recursion over each sequence."""
    system = make_system(parameters, series.varying, series.inputs, tolerance)
    steps, n = series.n_steps, parameters.n_states
    likelihoods = np.empty(series.n_sequences)
    n_diffuse = np.empty(series.n_sequences, dtype=np.int64)
    densities = np.empty(steps)
    means, predicted_means = np.empty((steps, n)), np.empty((steps, n))
    covs, predicted_covs = np.empty((steps, n, n)), np.empty((steps, n, n))
    system.filter(
        series.native,
        likelihoods,
        n_diffuse,
        densities,
        means,
        covs,
        predicted_means,
        predicted_covs,
        threads=n_threads,
    )
    return [
        Filtered(
            means[span],
            covs[span],
            predicted_means[span],
            predicted_covs[span],
            densities[span],
            float(likelihoods[i]),
            int(n_diffuse[i]),
        )
        for i, span in enumerate(series.spans())
    ]


class Posterior(NamedTuple):
    """Smoothed moments of a whole series.

    Attributes
    ----------
    log_likelihoods : ndarray, shape (N,)
    n_diffuse : ndarray of int64, shape (N,)
    means, covs : ndarray, shapes (steps, n) and (steps, n, n)
    lags : ndarray, shape (steps, n, n), or None
        Cov[x_{t+1}, x_t | y]; rows of last steps have no meaning.
    sum_covs : ndarray, shape (patterns, n, n), or None
        Sums of ``covs`` by the pattern of missing components; see `Series.native`.
    sum_lags : ndarray, shape (n, n), or None
    """

    log_likelihoods: Floats
    n_diffuse: Any
    means: Floats
    covs: Floats
    lags: Floats | None
    sum_covs: Floats | None
    sum_lags: Floats | None


class Workspace:
    """Arrays of a smoother that is run again and again, so that their memory is used again."""

    def __init__(self, steps: int, n: int) -> None:
        self.means = np.empty((steps, n))
        self.covs = np.empty((steps, n, n))
        self._lags: Floats | None = None

    def lags(self) -> Floats:
        """Memory for lag-one covariances, shape (steps, n, n)."""
        if self._lags is None:
            self._lags = np.empty(self.covs.shape)
        return self._lags


def smooth_all(
    parameters: Parameters,
    series: Series,
    tolerance: float,
    n_threads: int,
    *,
    lags: bool = True,
    sums: bool = False,
    workspace: Workspace | None = None,
) -> Posterior:
    """Run both recursions over all sequences.

    Parameters
    ----------
    parameters, series, tolerance, n_threads
    lags : bool
        Whether to keep the lag-one covariance of each step.
    sums : bool
        Whether to add up the covariances.
    workspace : Workspace, optional
        The arrays of the answer, overwritten by the next call.
    """
    system = make_system(parameters, series.varying, series.inputs, tolerance)
    n = parameters.n_states
    space = Workspace(series.n_steps, n) if workspace is None else workspace
    posterior = Posterior(
        np.empty(series.n_sequences),
        np.empty(series.n_sequences, dtype=np.int64),
        space.means,
        space.covs,
        space.lags() if lags else None,
        np.empty((series.native.n_patterns, n, n)) if sums else None,
        np.empty((n, n)) if sums else None,
    )
    system.smooth(
        series.native,
        posterior.log_likelihoods,
        posterior.n_diffuse,
        posterior.means,
        posterior.covs,
        posterior.lags,
        posterior.sum_covs,
        posterior.sum_lags,
        n_threads,
    )
    return posterior


def smooth_series(
    parameters: Parameters, series: Series, tolerance: float, n_threads: int
) -> list[Smoothed]:
    """Run the forward and backward recursions over each sequence."""
    all_ = smooth_all(parameters, series, tolerance, n_threads)
    assert all_.lags is not None
    return [
        Smoothed(
            all_.means[span],
            all_.covs[span],
            all_.lags[span.start : max(span.stop - 1, span.start)],
            float(all_.log_likelihoods[i]),
        )
        for i, span in enumerate(series.spans())
    ]


def sample_series(
    parameters: Parameters,
    series: Series,
    n_samples: int,
    rng: np.random.Generator,
    tolerance: float,
    n_threads: int,
) -> Floats:
    """Draw paths of states given the observations, shape (n_samples, steps, n).

    Raises
    ------
    ParameterError
        If a sequence leaves a state that starts diffuse without a finite variance.
    """
    system = make_system(parameters, series.varying, series.inputs, tolerance)
    n = parameters.n_states
    noise = rng.standard_normal((n_samples, series.n_steps + series.n_sequences, n))
    states = np.empty((n_samples, series.n_steps, n))
    unresolved = system.sample(series.native, noise, states, n_threads)
    if unresolved >= 0:
        raise unresolved_error(unresolved)
    return states


def unresolved_error(i: int) -> ParameterError:
    """Return the error for a sequence whose diffuse start is not resolved."""
    return ParameterError(
        where=f"sequence {i}",
        parameter="diffuse",
        expected="False for states that the observations say nothing about",
        found="a state whose variance stays infinite",
        hint="Give it a finite initial_covariance.",
    )


def observed(
    parameters: Parameters,
    means: Floats,
    covs: Floats,
    series: Series,
    steps: slice,
    noise: bool,
) -> Observed:
    """Map states to observations: C x + D u + d, with the noise R or without.

    Parameters
    ----------
    parameters : Parameters
    means, covs : ndarray, shapes (T, n) and (T, n, n)
    series : Series
        Has the inputs and the parts that vary.
    steps : slice
        The T steps of the series that these are.
    noise : bool
    """

    def part(name: str) -> Floats:
        if name in series.varying:
            return series.varying[name][steps]
        array: Floats = getattr(parameters, name)
        return array[None]

    inputs = None if series.inputs is None else series.inputs[steps]
    C = part("observation")
    out = np.einsum("tij,tj->ti", np.broadcast_to(C, (len(means), *C.shape[1:])), means)
    out += part("observation_offset")
    if inputs is not None and inputs.shape[1]:
        D = part("observation_input")
        out += np.einsum("tij,tj->ti", np.broadcast_to(D, (len(means), *D.shape[1:])), inputs)
    out_covs = _sandwich(C, covs)
    if noise:
        out_covs = out_covs + part("observation_covariance")
    return Observed(out, out_covs)


def _sandwich(C: Floats, covs: Floats) -> Floats:
    """C V C' at each step; a component is infinite where it contains an infinite variance."""
    infinite = np.isinf(covs)
    product: Floats = C @ np.where(infinite, 0.0, covs) @ C.swapaxes(-1, -2)
    if infinite.any():
        reaches = (C != 0).astype(float)
        diagonal = np.zeros(covs.shape)
        index = np.arange(covs.shape[-1])
        diagonal[:, index, index] = infinite[:, index, index]
        touched = (reaches @ diagonal @ reaches.swapaxes(-1, -2)) > 0
        product = np.where(touched, np.inf, product)
    return product
