"""The Markov chain of a hidden Markov model: the distribution of label sequences.

    Pr(y) = Pr(y_1) · Π_t Pr(y_t | y_{t-k} … y_{t-1}) · Pr(■ | y_T)

The chain is counted from labels or given as probabilities. It supplies the transitions of a
trellis, and draws label sequences. Emissions are in ``emissions/``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import ModelFileError, ParameterError
from tagloom.scores.linear import log_scores
from tagloom.scores.smoothing import Smoothing
from tagloom.storage import File
from tagloom.trellis import StateSpace

Float64 = npt.NDArray[np.float64]

# Largest number of transition probabilities in a table: order 2 of 270 labels, order 3 of 65.
MOST_TRANSITIONS = 20_000_000


def count_ngrams(
    labels: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    weight: Float64 | None,
    Y: int,
    k: int,
) -> Float64:
    """Count how often a label, or the end, follows each history of k labels.

    Parameters
    ----------
    labels : ndarray of int32, shape (T,)
    offsets : ndarray of int64, shape (N + 1,)
    weight : ndarray, shape (N,), or None
    Y, k : int

    Returns
    -------
    ndarray, shape (Y + 1,) * (k + 1)
        From the oldest label of the history to the outcome. In a history Y means that the sequence
        had not begun; as an outcome, that it ends.
    """
    counts: Float64 = _native.count_ngrams(labels, offsets, weight, Y, k)
    return counts.reshape((Y + 1,) * (k + 1))


def check_size(order: int, Y: int) -> None:
    """Raise if a chain of this order over Y labels would be too large.

    Raises
    ------
    ParameterError
    """
    n = (Y + 1) ** (order + 1)
    if n <= MOST_TRANSITIONS:
        return
    if order == 1:
        most = math.isqrt(MOST_TRANSITIONS) - 1
        raise ParameterError(
            f"{Y:,} labels are more than the {most:,} that an HMM can have.",
            parameter="labels",
            expected=f"at most {most:,} labels, since transitions are a full matrix",
            found=f"{Y:,}",
            hint="Join rare labels, or use TokenClassifier, which has no transitions.",
        )
    raise ParameterError(
        f"order={order} over {Y} labels has {n:,} transitions, more than {MOST_TRANSITIONS:,}.",
        parameter="order",
        expected=f"an order with at most {MOST_TRANSITIONS:,} transitions",
        found=f"{order}, which has {n:,}",
        hint="Choose a lower order.",
    )


class Transitions(NamedTuple):
    """A chain as the arguments of a `Trellis`."""

    trans: Float64  # [Y, Y]
    start: Float64  # [Y]
    stop: Float64  # [Y], 0 without a stop
    states: StateSpace | None  # of an order above 1
    weights: npt.NDArray[Any] | None  # [n_weights], those of the state space


@dataclass(frozen=True, eq=False)
class MarkovChain:
    """A Markov chain of order k over Y labels.

    Attributes
    ----------
    log_start : ndarray, shape (Y,)
        log Pr(y_1).
    log_trans : tuple of k ndarray
        log Pr(y_t | the j labels before), of shape (Y,) * (j + 1), for j from 1 to k; those for
        fewer than k labels apply at the beginning of a sequence.
    log_stop : ndarray, shape (Y,), or None
        log Pr(■ | y): whether a sequence ends depends on its last label only, at every order.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.scores.markov import MarkovChain, count_ngrams
    >>> from tagloom.scores.smoothing import Smoothing
    >>> labels, offsets = np.array([0, 1, 0, 0, 1], dtype=np.int32), np.array([0, 3, 5])
    >>> counts = count_ngrams(labels, offsets, None, Y=2, k=1)
    >>> chain = MarkovChain.from_counts(counts, Smoothing("add-k", k=0))
    >>> np.exp(chain.log_trans[0]).round(3), np.exp(chain.log_stop).round(3)
    (array([[0.   , 0.667],
           [0.5  , 0.   ]]), array([0.333, 0.5  ]))
    """

    log_start: Float64
    log_trans: tuple[Float64, ...]
    log_stop: Float64 | None

    @property
    def order(self) -> int:
        """k, the number of preceding labels that each label depends on."""
        return len(self.log_trans)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters; each distribution has one fewer than outcomes."""
        Y = len(self.log_start)
        labels = sum(int(Y**j) * (Y - 1) for j in range(self.order + 1))
        return labels + (0 if self.log_stop is None else Y)  # Pr(■ | y) has one for each y

    @classmethod
    def from_counts(cls, counts: Float64, smoothing: Smoothing) -> MarkovChain:
        """Estimate a chain from counts of label n-grams, which may be expected counts.

        Parameters
        ----------
        counts : ndarray, shape (Y + 1,) * (k + 1)
            As `count_ngrams` returns them.
        smoothing : Smoothing
        """
        Y, k = len(counts) - 1, counts.ndim - 1
        probs = smoothing.probs(counts)  # [history ..., outcome]
        stop: Float64 | None = None
        if smoothing.stop:
            after_one = smoothing.probs(counts.sum(axis=tuple(range(k - 1)))) if k > 1 else probs
            stop = after_one[:Y, Y]
            goes_on = np.append(1 - stop, 1.0)[:, None]  # [Y + 1, 1]
            labels = probs[..., :Y]
            total = labels.sum(axis=-1, keepdims=True)
            probs = np.divide(labels, total, out=np.zeros_like(labels), where=total > 0) * goes_on
        start = probs[(Y,) * k]
        trans = tuple(probs[(Y,) * (k - j)][(slice(Y),) * j] for j in range(1, k + 1))
        return cls.from_probs(start, trans, stop)

    @classmethod
    def from_probs(
        cls, start: Float64, trans: Sequence[Float64], stop: Float64 | None
    ) -> MarkovChain:
        """Make a chain from probabilities, in the shapes of the attributes."""
        with np.errstate(divide="ignore"):
            return cls(
                np.log(start),
                tuple(np.log(level) for level in trans),
                None if stop is None else np.log(stop),
            )

    def transitions(self, labels: Sequence[str]) -> Transitions:
        """Return the chain as the arguments of a `Trellis` over these labels."""
        states, weights = None, None
        if self.order > 1:
            # Each n-gram adds its difference from the shorter one, or 0 if both are −inf.
            states = StateSpace.order(labels, self.order)
            pairs = zip(self.log_trans, self.log_trans[1:], strict=False)
            weights = states.pack(
                {
                    f"ngram{j + 2}": np.where(shorter > -np.inf, longer - shorter, 0)
                    for j, (shorter, longer) in enumerate(pairs, start=1)
                }
            )
        stop = np.zeros(len(labels)) if self.log_stop is None else self.log_stop
        return Transitions(self.log_trans[0], self.log_start, stop, states, weights)

    def stationary_distribution(self) -> Float64:
        """Return the share of each label in an endless stream of sequences [Y].

        The solution of π = π · P, where P[y, y'] = Pr(y' | y) + Pr(■ | y) · Pr(y' | ♦).

        Raises
        ------
        ParameterError
            If the order is above 1.
        """
        if self.order != 1:
            raise ParameterError(
                where="stationary_distribution",
                expected="a chain of order 1",
                found=f"{self.order}",
            )
        start, trans = np.exp(self.log_start), np.exp(self.log_trans[0])
        if self.log_stop is not None:
            trans = trans + np.exp(self.log_stop)[:, None] * start
        Y = len(start)
        # The least-squares solution of π (P − I) = 0, Σ π = 1, which also exists for several.
        system = np.vstack([trans.T - np.eye(Y), np.ones(Y)])
        shares = np.linalg.lstsq(system, np.append(np.zeros(Y), 1.0), rcond=None)[0]
        shares = np.maximum(shares, 0)
        return np.asarray(shares / shares.sum())

    def generate(self, rng: np.random.Generator, length: int | None = None) -> list[int]:
        """Draw a sequence of labels.

        Parameters
        ----------
        rng : Generator
        length : int, optional
            Number of labels; the probability of stopping is then ignored. By default the chain
            draws its stop.

        Raises
        ------
        ParameterError
            If there is neither a length nor a stop.
        """
        if length is None and self.log_stop is None:
            raise ParameterError(
                parameter="length",
                expected="the number of tokens to draw from a model without stop",
                found="None",
            )
        Y, k = len(self.log_start), self.order
        ends = np.zeros(Y) if self.log_stop is None else np.exp(self.log_stop)
        path: list[int] = []
        while length is None or len(path) < length:
            if path and length is None and rng.random() < ends[path[-1]]:
                break
            before = tuple(path[-k:])
            log_probs = self.log_trans[len(before) - 1][before] if before else self.log_start
            probs = np.exp(log_probs)
            path.append(int(rng.choice(Y, p=probs / probs.sum())))
        return path

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the chain as header entries and arrays; see docs/format.md."""
        levels = {f"moves{j}_weights": level for j, level in enumerate(self.log_trans, start=1)}
        arrays = {"start": self.log_start}
        if self.log_stop is not None:
            arrays["stop"] = self.log_stop
        header = {"order": self.order, "stop": self.log_stop is not None}
        return File(header, arrays) | File({}, levels, frozenset(levels))

    @classmethod
    def from_file(cls, file: File, Y: int) -> MarkovChain:
        """Make a chain over Y labels from the result of `to_file`, which is not trusted.

        Raises
        ------
        ModelFileError, KeyError
            If its parts do not fit together.
        """
        order, arrays = file.header["order"], file.arrays
        if type(order) is not int or not 1 <= order <= 32 or Y ** (order + 1) > MOST_TRANSITIONS:
            raise ModelFileError(
                expected="an order of at least 1 whose transitions fit into memory",
                found=f"order {order!r} over {Y} labels",
            )
        return cls(
            log_scores(arrays, "start", (Y,)),
            tuple(
                log_scores(arrays, f"moves{j}_weights", (Y,) * (j + 1)) for j in range(1, order + 1)
            ),
            log_scores(arrays, "stop", (Y,)) if file.header["stop"] else None,
        )
