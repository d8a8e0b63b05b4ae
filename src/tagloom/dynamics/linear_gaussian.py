"""`LinearGaussian`: states that are vectors, followed by the Kalman filter, smoothed, learnt by EM.

The model that users see. Its methods are in one file per subject: `parts` has the parameters,
`queries` filters and smooths, `forecasts` goes on in time, `learning` fits. They check what users
pass and call pure functions: `inference` runs the native recursions, `em` learns.
"""

from __future__ import annotations

from typing import Any, Self

from tagloom.dynamics.forecasts import Forecasts
from tagloom.dynamics.learning import Learning
from tagloom.dynamics.parts import State
from tagloom.dynamics.queries import Queries
from tagloom.storage import File


class LinearGaussian(Learning, Queries, Forecasts):
    r"""A linear dynamical system with Gaussian noise: Kalman filter, smoother and EM.

    ::

        x_t = A x_{t−1} + B u_t + b + w_t,   w_t ~ N(0, Q)
        y_t = C x_t     + D u_t + d + v_t,   v_t ~ N(0, R)
        x_0 ~ N(initial_mean, initial_covariance)

    x_t is the state, n numbers that are not observed; y_t the observation, m numbers of which any
    may be missing (NaN); u_t are k inputs that are known. A model can be used as soon as A, Q, C, R
    and the start are given; `fit` learns what is not.

    A part may have an axis of steps in front, with an entry for each step; the entry at t leads
    from x_{t−1} to x_t. Parts are learnt from where they are given, unless they are ``fixed`` or
    vary; parts that are not given are learnt from scratch.

    Attributes
    ----------
    parameters_ : Parameters
        All parts; each is also an attribute, ``transition_``, ``observation_covariance_``, ...
    history_ : list of Record
        The objective after each iteration of EM.
    training_ : dict
        The training record: sizes of the data, iterations, the objective, seconds.

    See Also
    --------
    tagloom.HMM : States that are labels.

    Examples
    --------
    A position that is observed with noise, and a velocity that is not:

    >>> import numpy as np
    >>> import tagloom as tl
    >>> model = tl.LinearGaussian(
    ...     transition=[[1, 1], [0, 1]], transition_covariance=[[0, 0], [0, 0.01]],
    ...     observation=[[1, 0]], observation_covariance=[[1]], diffuse=True,
    ... )
    >>> smoothed = model.smooth([1.0, 2.1, np.nan, 3.9, 5.0])
    >>> smoothed.means.round(2)
    array([[1.04, 0.98],
           [2.02, 0.98],
           [3.  , 0.98],
           [3.98, 0.98],
           [4.96, 0.98]])
    >>> model.forecast([1.0, 2.1, np.nan, 3.9, 5.0], 2).means.round(2)
    array([[5.94],
           [6.92]])
    """

    def to_file(self) -> File:
        """Return the parameters, and what they were learnt from."""
        from tagloom.dynamics.files import pack_model  # here, for a quick start

        state = self.__dict__.get("_fitted") or State(self.parameters_)
        return pack_model(
            self.get_params(), state.parameters, state.varying, state.training, state.history
        )

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a model from what `to_file` returned, checking everything."""
        from tagloom.dynamics.files import unpack_model  # here, for a quick start

        contents = unpack_model(file)
        model = cls(**contents.params)
        model._check_parameters()
        model._fitted = State(
            contents.parameters, contents.varying, contents.training, contents.history
        )
        return model

    # ---- scikit-learn ----------------------------------------------------------------------

    @classmethod
    def _metadata(cls, method: str) -> list[str]:
        return [name for name in super()._metadata(method) if name != "Y"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.allow_nan = True
        return tags
