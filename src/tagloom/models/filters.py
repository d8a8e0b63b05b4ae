"""Online filtering: the distribution of the present state, one token at a time.

The forward recursion of a hidden Markov model, normalised at each step in log space, so that it
runs forever. The state after a token costs one row of the trellis; earlier tokens are not kept.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import InfeasibleError, ParameterError
from tagloom.models.hidden import HiddenMarkov
from tagloom.scores.emissions import Features

Float64 = npt.NDArray[np.float64]


class OnlineFilter:
    r"""The state of a hidden Markov model now, given the tokens so far.

    `HMM.filter` makes one. After tokens x_1 … x_t, the posterior is that of the forward recursion::

        Pr(y_t | x_1 … x_t) ∝ Pr(x_t | y_t) Σ_p Pr(y_t | p) · Pr(y_{t-1} = p | x_1 … x_{t-1})

    The end of a sequence is not part of it: the tokens so far are a prefix.

    Attributes
    ----------
    labels : tuple of str
        The Y states.
    n_tokens : int
        t, the number of tokens so far.
    posterior : ndarray, shape (Y,)
        Pr(y_t | x_1 … x_t); before the first token, the distribution of the first state.
    log_likelihood : float
        log Pr(x_1 … x_t).

    Examples
    --------
    >>> import tagloom as tl
    >>> hmm = tl.HMM.from_probs(
    ...     ["calm", "storm"], ["low", "high"],
    ...     start=[0.9, 0.1], trans=[[0.9, 0.1], [0.2, 0.8]], emit=[[0.8, 0.2], [0.1, 0.9]],
    ... )
    >>> now = hmm.filter()
    >>> for x in ["low", "high", "high"]:
    ...     print(now.update(x).round(3))
    [0.986 0.014]
    [0.644 0.356]
    [0.293 0.707]
    >>> now.label, now.n_tokens, now.predict_next().round(3)
    ('storm', 3, array([0.405, 0.595]))
    """

    def __init__(self, model: HiddenMarkov) -> None:
        emission = model.emission
        if emission.has_edges or isinstance(emission, Features):
            raise ParameterError(
                where="HMM.filter",
                parameter="emissions",
                expected="an emission of one token at a time, such as Words or Gaussian",
                found=type(emission).__name__,
                hint="Pass the tokens so far to predict_marginals().",
            )
        if model.constraints.space is not None:
            raise ParameterError(
                where="HMM.filter",
                parameter="constraints",
                expected="a scheme, a tag dictionary or none",
                found="a state space",
            )
        self._model = model
        self._score = emission.token_scorer()
        chain, allowed = model.chain, model.constraints.transitions
        self._log_start, self._log_trans = chain.log_start, chain.log_trans
        if allowed is not None:
            self._log_start = np.where(allowed.initial, self._log_start, -np.inf)
            mask = np.where(allowed.transitions_allowed, 0.0, -np.inf)  # [Y, Y], the last two axes
            self._log_trans = tuple(level + mask for level in self._log_trans)
        self.reset()

    @property
    def labels(self) -> tuple[str, ...]:
        """The Y states."""
        return self._model.emission.labels

    def reset(self) -> Self:
        """Begin a new sequence."""
        self.n_tokens = 0
        self.log_likelihood = 0.0
        # [Y, …, Y] log Pr of the last labels, at most as many as the order of the chain
        self._log_history: Float64 = np.zeros(())
        return self

    def copy(self) -> Self:
        """Return an independent copy, to look ahead with."""
        return copy.copy(self)  # arrays are replaced, never changed

    # ---- the state now ---------------------------------------------------------------------

    @property
    def posterior(self) -> Float64:
        """Pr(y_t | x_1 … x_t) [Y]."""
        if not self.n_tokens:
            return self.predict_next()
        return np.exp(_last_label(self._log_history))

    @property
    def label(self) -> str:
        """The most probable state now."""
        return self.labels[int(self.posterior.argmax())]

    def predict_next(self, n: int = 1) -> Float64:
        """Compute the distribution of the state n tokens ahead [Y]."""
        history = self._log_history
        for i in range(n):
            history = self._advance(history, self.n_tokens + i)
        probs = np.exp(_last_label(history))
        return np.asarray(probs / probs.sum())

    def update(self, x: Any) -> Float64:
        """Take the next token; return the posterior of the present state.

        Parameters
        ----------
        x : token
            A word, a number or a vector, as the sequences of `fit` have them. None is a missing
            token: time passes, nothing is observed. An emission that accepts NaN takes NaN as a
            missing component.

        Returns
        -------
        ndarray, shape (Y,)
            Pr(y_t | x_1 … x_t).

        Raises
        ------
        InfeasibleError
            If no state can emit the token here; the filter stays as it was.
        """
        history = self._advance(self._log_history, self.n_tokens)
        if x is not None:
            history = self._restrict(history + self._score(x), x)
        total = _log_sum(history)
        if not total > -np.inf:
            raise InfeasibleError(
                f"HMM.filter, token {self.n_tokens}: no state can emit {checks.show(x)} here.",
                sequence=0,
                position=self.n_tokens,
                where=f"HMM.filter, token {self.n_tokens}",
                expected="a token that some state can emit",
                found=checks.show(x),
            )
        self._log_history = history - total
        self.n_tokens += 1
        self.log_likelihood += total
        return self.posterior

    # ---- one step of the recursion -----------------------------------------------------------

    def _advance(self, history: Float64, t: int) -> Float64:
        """Return log Pr of the last labels and the next one, without labels that are too old."""
        if t == 0:
            return self._log_start
        order = len(self._log_trans)
        longer = history[..., None] + self._log_trans[min(t, order) - 1]
        return np.asarray(np.logaddexp.reduce(longer, axis=0)) if t >= order else longer

    def _restrict(self, history: Float64, x: Any) -> Float64:
        """Apply the tag dictionary, unless it would leave no label, as predictions do."""
        sets = self._model.constraints.word_sets([[x]])
        if sets is None:
            return history
        numbers, allowed = sets
        restricted = np.where(allowed[numbers[0]], history, -np.inf)
        return restricted if _log_sum(restricted) > -np.inf else history

    def __repr__(self) -> str:
        return f"OnlineFilter({len(self.labels)} states, {self.n_tokens} tokens)"


def _last_label(history: Float64) -> Float64:
    """Sum log probabilities of the last labels [Y, …, Y] over all but the last one."""
    return np.asarray(np.logaddexp.reduce(history.reshape(-1, history.shape[-1]), axis=0))


def _log_sum(values: Float64) -> float:
    return float(np.logaddexp.reduce(values, axis=None))
