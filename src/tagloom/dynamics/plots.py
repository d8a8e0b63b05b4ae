"""Pictures of smoothed series; matplotlib, the extra ``[plot]``, is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from tagloom import checks
from tagloom.errors import MissingExtraError, ParameterError, ShapeError

if TYPE_CHECKING:
    from tagloom.dynamics.linear_gaussian import LinearGaussian


def plot_smooth(
    model: LinearGaussian,
    Y: Any,
    *,
    component: int = 0,
    inputs: Any = None,
    varying: Mapping[str, Any] | None = None,
    times: Any = None,
    level: float = 0.95,
    ax: Any = None,
) -> Any:
    """Draw one observed component, what it is smoothed to, and a band around that.

    The band contains the signal C x + D u + d, without the noise of an observation, with a
    probability of ``level`` at each step.

    Parameters
    ----------
    model : LinearGaussian
    Y : array_like, shape (T, m) or (T,)
        One sequence.
    component : int
        Which of the m components.
    inputs, varying
        As for `LinearGaussian.smooth`.
    times : array_like, shape (T,), optional
        Values on the horizontal axis; by default 0 … T − 1.
    level : float
        Probability of the band.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ShapeError, ParameterError
        If arrays do not fit each other.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import tagloom as tl
    >>> from tagloom.dynamics import plot_smooth
    >>> walk = tl.LinearGaussian(
    ...     transition=[[1]], transition_covariance=[[1]], observation=[[1]],
    ...     observation_covariance=[[2]], diffuse=True,
    ... )
    >>> plot_smooth(walk, [1.0, 2.0, 4.0], level=0.0)
    Traceback (most recent call last):
    ...
    tagloom.errors.ParameterError: level must be a finite number above 0 and of at most 1; got 0.0.
    """
    from tagloom.dynamics.series import read_series

    parameters = model.parameters_
    series = read_series(Y, inputs, sizes=parameters.sizes)
    if series.is_list:
        raise ParameterError(parameter="Y", expected="one sequence", found="a list")
    if not 0 <= checks.count(component, "component") < parameters.n_observed:
        raise ParameterError(
            parameter="component",
            expected=f"an integer below {parameters.n_observed}",
            found=checks.show(component),
        )
    share = checks.number(level, "level", above=0, most=1)
    t = np.arange(series.n_steps) if times is None else np.asarray(times)
    if t.shape != (series.n_steps,):
        raise ShapeError(
            parameter="times", expected=f"shape ({series.n_steps},)", found=f"shape {t.shape}"
        )
    if ax is None:
        ax = _new_axes()
    smoothed = model.smooth(Y, inputs=inputs, varying=varying)
    assert not isinstance(smoothed, list)
    signal = model.to_observations(smoothed, inputs=inputs, varying=varying, noise=False)
    mean = signal.means[:, component]
    width = NormalDist().inv_cdf((1 + min(share, 1 - 1e-12)) / 2)
    band = width * np.sqrt(signal.covariances[:, component, component])
    band = np.where(np.isfinite(band), band, np.nan)  # nothing is known there
    ax.fill_between(
        t,
        mean - band,
        mean + band,
        color="C0",
        alpha=0.25,
        linewidth=0,
        label=f"{100 * share:g}% band",
    )
    ax.plot(t, mean, color="C0", label="smoothed")
    ax.plot(t, series.y[:, component], ".", color="0.35", markersize=4, label="observed")
    ax.legend(frameon=False)
    return ax


def _new_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError(
            "plot_smooth needs matplotlib. Install it with: pip install 'tagloom[plot]'"
        ) from None
    return plt.subplots(figsize=(8, 3.5), layout="constrained")[1]
