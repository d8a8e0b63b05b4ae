"""States that are numbers: linear Gaussian models, filtered, smoothed and learnt.

Where a trellis has a label at each position, a linear Gaussian model has a vector. The Kalman
filter is its forward recursion, the smoother its backward recursion; see docs/dynamics.md. The
recursions are native (``src/cpp/core/kalman*``); this package checks what users pass, and learns.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.dynamics.linear_gaussian import LinearGaussian
    from tagloom.dynamics.parameters import Parameters
    from tagloom.dynamics.plots import plot_smooth
    from tagloom.dynamics.priors import InverseWishart, Normal
    from tagloom.dynamics.results import (
        Belief,
        Filtered,
        Forecast,
        Generated,
        Observed,
        Smoothed,
    )
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "linear_gaussian": ["LinearGaussian"],
            "parameters": ["Parameters"],
            "plots": ["plot_smooth"],
            "priors": ["InverseWishart", "Normal"],
            "results": ["Belief", "Filtered", "Forecast", "Generated", "Observed", "Smoothed"],
        },
    )

__all__ = [
    "Belief",
    "Filtered",
    "Forecast",
    "Generated",
    "InverseWishart",
    "LinearGaussian",
    "Normal",
    "Observed",
    "Parameters",
    "Smoothed",
    "plot_smooth",
]
