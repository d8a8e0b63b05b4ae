"""`fit` of `LinearGaussian`: reads the data, makes the learner, keeps what it has learnt.

The loop is that of all models (`tagloom.training.fit_iteratively`); its learner is `em.EM`.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tagloom.dynamics.parameters import SHAPES, Floats, Parameters, check_diffuse
from tagloom.dynamics.parts import NEEDED, Parts, State, Varying
from tagloom.dynamics.series import Series, add_varying, read_series
from tagloom.errors import NotFittedError, ParameterError

if TYPE_CHECKING:
    from tagloom.dynamics.plans import Plan
    from tagloom.training import Fitting, Learner, Listener, Outcome, Record


class Learning(Parts):
    """The part of `LinearGaussian` that learns."""

    def fit(  # type: ignore[override]
        self,
        Y: Any,
        y: Any = None,
        *,
        inputs: Any = None,
        varying: Varying = None,
        callback: Listener | None = None,
        progress: bool | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn by EM what is not fixed.

        Ctrl-C ends training after the running iteration and keeps the best parameters so far.

        Parameters
        ----------
        Y : array_like, shape (T, m) or (T,), or list of those
            Observations, NaN where they are missing. An array is one sequence.
        y : None
            Not used; for scikit-learn.
        inputs : array_like, shape (T, k), or list of those, optional
        varying : mapping of str to array_like, or to list of those, optional
            Parts with an entry for each step of these sequences, such as ``transition``, shape
            (T, n, n), for observations at uneven times. They are not learnt.
        callback, progress, checkpoint
            As for the other models: called after each iteration, whether to show a progress bar,
            and a file from which an interrupted run resumes.

        Returns
        -------
        self

        Raises
        ------
        ShapeError, ParameterError
            If arrays do not fit each other.
        TrainingError
            If the likelihood is not finite.

        Examples
        --------
        >>> import tagloom as tl
        >>> truth = tl.LinearGaussian(
        ...     transition=[[0.95]], transition_covariance=[[0.1]], observation=[[1], [2]],
        ...     observation_covariance=[[0.5, 0], [0, 0.5]], initial_covariance=[[1]],
        ... )
        >>> Y = truth.generate(500).observations
        >>> model = tl.LinearGaussian(n_states=1).fit(Y)
        >>> model.transition_.round(1), model.training_["stopped"]
        (array([[0.9]]), 'converged')
        >>> model.log_likelihood(Y) > truth.log_likelihood(Y)
        True
        """
        began = time.perf_counter()
        self._check_parameters()
        data = self._read(Y, inputs, varying)
        return self.fit_data(
            data, callback=callback, progress=progress, checkpoint=checkpoint, began=began
        )

    def read_data(self, X: Any, y: Any, sample_weight: Any) -> Series:
        """Check the observations."""
        return self._read(X, None, None)

    def _read(self, Y: Any, inputs: Any, varying: Varying) -> Series:
        """Return the series with all parts that vary, those of the constructor among them."""
        series = read_series(Y, inputs, sizes={"m": None, "k": None})
        sizes = self._sizes(series)
        return add_varying(series, varying, self._given(sizes), sizes)

    def _sizes(self, series: Series) -> dict[str, int]:
        k = 0 if series.inputs is None else series.inputs.shape[1]
        return {"n": self._n_states(), "m": series.y.shape[1], "k": k}

    def make_learner(self, data: Series) -> Learner[Parameters]:
        """Make the learner at its first start."""
        return self._learner(data, 0)

    def learn(self, data: Series, fitting: Fitting[Parameters]) -> Outcome[Parameters]:
        """Run EM from each start and keep the best."""
        return fitting.run_best(lambda i: self._learner(data, i), self.restarts)

    def finish(self, data: Series, outcome: Outcome[Parameters], record: dict[str, Any]) -> None:
        """Keep what was learnt."""
        varying = frozenset(n for n in data.varying if not outcome.weights.is_varying(n))
        self._fitted = State(outcome.weights, varying, record, outcome.records)

    def identity(self, data: Series) -> dict[str, Any]:
        """Return what a checkpoint must agree with; given parts count by their numbers."""
        given = {name: _digest(self.__dict__[name]) for name in SHAPES}
        return super().identity(data) | given

    @property
    def history_(self) -> list[Record]:
        """The objective after each iteration."""
        return self._state("history_").history

    @property
    def training_(self) -> dict[str, Any]:
        """The training record."""
        return self._state("training_").training

    def _state(self, name: str) -> State:
        if "_fitted" not in self.__dict__:
            raise NotFittedError(f"This LinearGaussian has no {name}. Call fit() first.")
        return self._fitted

    def _learner(self, series: Series, number: int) -> Learner[Parameters]:
        from tagloom.dynamics.em import EM  # here, for a quick start

        start = self._start(series, number)
        return EM(series, start, self._plan(start, series), self._steady(), self._threads())

    def _start(self, series: Series, number: int) -> Parameters:
        from tagloom.dynamics.starts import make_start  # here, for a quick start

        n, given = self._n_states(), self._given_or_fixed(self._sizes(series))
        rng = np.random.default_rng([self.random_state, number])
        return make_start(series, given, check_diffuse(self.diffuse, n), n, number, rng)

    def _given_or_fixed(self, sizes: dict[str, int]) -> dict[str, Floats]:
        """Return the parts that are given, and 0 for offsets and the like that are only fixed."""
        from tagloom.dynamics.plans import read_fixed  # here, for a quick start

        given = self._given(sizes)
        for name, mask in read_fixed(self.fixed).items():
            if name in given:
                continue
            if mask is not True or name in (*NEEDED, "initial_covariance"):
                raise ParameterError(
                    parameter="fixed",
                    expected="names of parts that are given",
                    found=f"{name!r}, which is not",
                )
            given[name] = np.zeros([sizes[letter] for letter in SHAPES[name]])
        return given

    def _plan(self, start: Parameters, series: Series) -> Plan:
        from tagloom.dynamics.plans import make_plan  # here, for a quick start

        constant = set(series.varying)
        if self.transition_offset is None:
            constant.add("transition_offset")
        return make_plan(start, constant, self.fixed, self.prior, self.tolerance)


def _digest(value: Any) -> str | None:
    """Fingerprint of a part, or None."""
    if value is None:
        return None
    from hashlib import blake2b

    array = np.ascontiguousarray(value, dtype=np.float64)
    data = repr(array.shape).encode() + array.tobytes()
    return blake2b(data, digest_size=8).hexdigest()
