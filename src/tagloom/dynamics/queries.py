"""What `LinearGaussian` answers about observations: filter, smooth, sample, log-likelihood.

Each method checks what users pass, calls `inference`, and answers one sequence or a list in kind.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from tagloom import checks
from tagloom.dynamics import inference
from tagloom.dynamics.parameters import Floats
from tagloom.dynamics.parts import Parts, Sequences, Varying
from tagloom.dynamics.results import Filtered, Observed, Smoothed
from tagloom.errors import ParameterError


class Queries(Parts):
    """The part of `LinearGaussian` that answers about observations."""

    @overload
    def filter(
        self,
        Y: Sequences,
        *,
        inputs: Any = None,
        varying: Varying = None,
    ) -> list[Filtered]: ...
    @overload
    def filter(
        self,
        Y: Any,
        *,
        inputs: Any = None,
        varying: Varying = None,
    ) -> Filtered: ...
    def filter(
        self, Y: Any, *, inputs: Any = None, varying: Varying = None
    ) -> Filtered | list[Filtered]:
        """Return the state at each step given the observations up to it.

        Parameters
        ----------
        Y : array_like, shape (T, m) or (T,), or list of those
            Observations, NaN where they are missing.
        inputs : array_like, shape (T, k), or list of those, optional
        varying : mapping of str to array_like, or to list of those, optional
            Parts with an entry for each step.

        Returns
        -------
        Filtered
            For a list, a list.

        Examples
        --------
        >>> import tagloom as tl
        >>> walk = tl.LinearGaussian(
        ...     transition=[[1]], transition_covariance=[[1]], observation=[[1]],
        ...     observation_covariance=[[2]], initial_mean=[0], initial_covariance=[[2]],
        ... )
        >>> filtered = walk.filter([3.0, 3.0])
        >>> filtered.means[:, 0], filtered.covariances[:, 0, 0]
        (array([1.5 , 2.25]), array([1., 1.]))
        """
        series = self._series(Y, inputs, varying)
        found = inference.filter_series(self.parameters_, series, self._steady(), self._threads())
        return found if series.is_list else found[0]

    @overload
    def smooth(
        self,
        Y: Sequences,
        *,
        inputs: Any = None,
        varying: Varying = None,
    ) -> list[Smoothed]: ...
    @overload
    def smooth(
        self,
        Y: Any,
        *,
        inputs: Any = None,
        varying: Varying = None,
    ) -> Smoothed: ...
    def smooth(
        self, Y: Any, *, inputs: Any = None, varying: Varying = None
    ) -> Smoothed | list[Smoothed]:
        """Return the state at each step given all observations.

        Parameters
        ----------
        Y, inputs, varying
            As for `filter`.

        Returns
        -------
        Smoothed
            For a list, a list.

        Examples
        --------
        >>> import tagloom as tl
        >>> walk = tl.LinearGaussian(
        ...     transition=[[1]], transition_covariance=[[1]], observation=[[1]],
        ...     observation_covariance=[[2]], initial_mean=[0], initial_covariance=[[2]],
        ... )
        >>> walk.smooth([3.0, 3.0]).means[:, 0]
        array([1.875, 2.25 ])
        """
        series = self._series(Y, inputs, varying)
        found = inference.smooth_series(self.parameters_, series, self._steady(), self._threads())
        return found if series.is_list else found[0]

    @overload
    def sample(
        self,
        Y: Sequences,
        n_samples: int = 1,
        *,
        inputs: Any = None,
        varying: Varying = None,
        random_state: int | None = None,
    ) -> list[Floats]: ...
    @overload
    def sample(
        self,
        Y: Any,
        n_samples: int = 1,
        *,
        inputs: Any = None,
        varying: Varying = None,
        random_state: int | None = None,
    ) -> Floats: ...
    def sample(
        self,
        Y: Any,
        n_samples: int = 1,
        *,
        inputs: Any = None,
        varying: Varying = None,
        random_state: int | None = None,
    ) -> Floats | list[Floats]:
        """Draw paths of states given the observations.

        Parameters
        ----------
        Y, inputs, varying
            As for `filter`.
        n_samples : int
        random_state : int, optional
            Seed; by default that of the model.

        Returns
        -------
        ndarray, shape (n_samples, T, n)
            For a list, a list.

        Raises
        ------
        ParameterError
            If the observations leave an infinite variance.

        Examples
        --------
        >>> import numpy as np
        >>> import tagloom as tl
        >>> walk = tl.LinearGaussian(
        ...     transition=[[1]], transition_covariance=[[1]], observation=[[1]],
        ...     observation_covariance=[[2]], initial_mean=[0], initial_covariance=[[2]],
        ... )
        >>> paths = walk.sample([3.0, 3.0], 10_000)
        >>> paths.shape, np.allclose(paths.mean(axis=0)[:, 0], [1.875, 2.25], atol=0.05)
        ((10000, 2, 1), True)
        """
        series = self._series(Y, inputs, varying)
        count = checks.count(n_samples, "n_samples", least=1)
        states = inference.sample_series(
            self.parameters_,
            series,
            count,
            self._rng(random_state),
            self._steady(),
            self._threads(),
        )
        found = [states[:, span] for span in series.spans()]
        return found if series.is_list else found[0]

    def log_likelihood(self, Y: Any, *, inputs: Any = None, varying: Varying = None) -> float:
        """Return log p(Y), the sum over sequences.

        With a diffuse start this is the limit of log p(Y) + ½ log κ per determined state, as their
        variance κ grows (Durbin and Koopman 2012, section 7.2.2).

        Parameters
        ----------
        Y, inputs, varying
            As for `filter`.

        Returns
        -------
        float
        """
        series = self._series(Y, inputs, varying)
        return float(
            inference.log_likelihoods(
                self.parameters_, series, self._steady(), self._threads()
            ).sum()
        )

    def score(
        self,
        Y: Any,
        y: Any = None,
        *,
        inputs: Any = None,
        varying: Varying = None,
    ) -> float:
        """Return the mean log-likelihood per step, as scikit-learn's searches expect.

        Parameters
        ----------
        Y, inputs, varying
            As for `filter`.
        y : None
            Not used.
        """
        series = self._series(Y, inputs, varying)
        total = inference.log_likelihoods(
            self.parameters_, series, self._steady(), self._threads()
        ).sum()
        return float(total) / max(1, series.n_steps)

    @overload
    def to_observations(
        self,
        states: list[Filtered] | list[Smoothed],
        *,
        inputs: Any = None,
        varying: Varying = None,
        noise: bool = True,
    ) -> list[Observed]: ...
    @overload
    def to_observations(
        self,
        states: Filtered | Smoothed,
        *,
        inputs: Any = None,
        varying: Varying = None,
        noise: bool = True,
    ) -> Observed: ...
    def to_observations(
        self,
        states: Filtered | Smoothed | list[Filtered] | list[Smoothed],
        *,
        inputs: Any = None,
        varying: Varying = None,
        noise: bool = True,
    ) -> Observed | list[Observed]:
        """Return the observations that states let expect: C x + D u + d.

        Of smoothed states, these are the best values for missing observations.

        Parameters
        ----------
        states : Filtered or Smoothed, or list of those
        inputs : array_like, shape (T, k), or list of those, optional
        varying : mapping, optional
        noise : bool
            Whether the covariances contain the noise R of an observation.

        Returns
        -------
        Observed
            For a list, a list.

        Examples
        --------
        >>> import numpy as np
        >>> import tagloom as tl
        >>> walk = tl.LinearGaussian(
        ...     transition=[[1]], transition_covariance=[[1]], observation=[[1], [2]],
        ...     observation_covariance=[[2, 0], [0, 2]], initial_mean=[0],
        ...     initial_covariance=[[2]],
        ... )
        >>> walk.to_observations(walk.smooth([[3.0, np.nan]])).means
        array([[1.5, 3. ]])
        """
        parameters, has_noise = self.parameters_, checks.flag(noise, "noise")
        paths = states if isinstance(states, list) else [states]
        for path in paths:
            if not isinstance(path, Filtered | Smoothed):
                raise ParameterError(
                    parameter="states",
                    expected="what filter() or smooth() returned",
                    found=checks.show_type(path),
                )
        blanks = [np.full((len(path.means), parameters.n_observed), np.nan) for path in paths]
        is_list = isinstance(states, list)
        series = self._series(blanks if is_list else blanks[0], inputs, varying)

        def make(i: int, span: slice) -> Observed:
            means, covs = paths[i].means, paths[i].covariances
            return inference.observed(parameters, means, covs, series, span, has_noise)

        answer: Observed | list[Observed] = series.answer(make)
        return answer
