"""Choose the number of states of a hidden Markov model that is learned without labels.

The model is fitted with each number of states. Criteria that are computed on the training data add
a penalty for parameters; the likelihood of held-out sequences needs none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tagloom import checks
from tagloom.errors import ParameterError
from tagloom.evaluation.tables import Cell, Table, html_page, page
from tagloom.training.progress import Bar, shows_progress
from tagloom.training.records import Record

if TYPE_CHECKING:
    from tagloom.models.hmm import HMM

#: Criteria by name; all but "held-out" are the smaller, the better.
CRITERIA = ("bic", "aic", "icl", "held-out")


class StateCount(NamedTuple):
    """The fit with one number of states.

    Attributes
    ----------
    n_states : int
    n_parameters : int
        Number of free parameters.
    log_likelihood : float
        log Pr(X) of the training data.
    aic, bic : float
        −2 log Pr(X) plus 2, or log T, for each parameter; T tokens.
    icl : float
        bic plus twice the entropy of the state sequence given X: it prefers states that are well
        apart (Biernacki, Celeux and Govaert 2000).
    held_out : float or None
        Mean log-likelihood per token of sequences that were left out of training; None unless
        ``by="held-out"``.
    seconds : float
        Time of training.
    """

    n_states: int
    n_parameters: int
    log_likelihood: float
    aic: float
    bic: float
    icl: float
    held_out: float | None
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class StateSelection:
    """The result of :func:`select_states`. It prints as a table.

    Attributes
    ----------
    by : str
        The criterion.
    candidates : list of StateCount
        One for each number of states, in ascending order.
    best : StateCount
        The candidate with the best value of the criterion.
    n_states : int
        Its number of states.
    model : HMM
        The model with this number of states, fitted to all data.
    models : dict of int to HMM
        The models with each number of states, fitted to all data.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["a", "b"] * 20, ["b", "a"] * 20]
    >>> result = tl.select_states(tl.HMM(restarts=2), X, [1, 2])
    >>> result.n_states, result.by, len(result.candidates)
    (2, 'bic', 2)
    """

    by: str
    candidates: list[StateCount]
    models: dict[int, HMM] = field(repr=False)

    @property
    def best(self) -> StateCount:
        """The candidate with the best value of the criterion; of several, the smallest."""
        sign = -1.0 if self.by == "held-out" else 1.0
        return min(self.candidates, key=lambda row: sign * self.value(row))

    @property
    def n_states(self) -> int:
        """The number of states of the best candidate."""
        return self.best.n_states

    @property
    def model(self) -> HMM:
        """The best model, fitted to all data."""
        return self.models[self.n_states]

    def value(self, candidate: StateCount) -> float:
        """Return the value of the criterion for a candidate."""
        return float(getattr(candidate, self.by.replace("-", "_")))

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the models as plain values, ready for JSON.

        Examples
        --------
        >>> import tagloom as tl
        >>> tl.select_states(tl.HMM(), [["a", "b", "a"]], [1]).to_dict()["n_states"]
        1
        """
        rows = [candidate._asdict() for candidate in self.candidates]
        return {"by": self.by, "n_states": self.n_states, "candidates": rows}

    def _parts(self) -> list[str | Table]:
        better = "largest" if self.by == "held-out" else "smallest"
        has_held_out = self.candidates[0].held_out is not None
        rows: list[list[Cell]] = []
        for row in self.candidates:
            numbers: list[Cell] = [row.n_parameters, f"{row.log_likelihood:,.1f}"]
            numbers += [f"{value:,.1f}" for value in (row.aic, row.bic, row.icl)]
            numbers += [row.held_out] if has_held_out else []
            mark = "best" if row.n_states == self.n_states else ""
            rows.append([row.n_states, *numbers, f"{row.seconds:.2f}", mark])
        header = ["states", "parameters", "log-likelihood", "AIC", "BIC", "ICL"]
        header += ["held-out"] if has_held_out else []
        return [
            f"{checks.plural(self.n_states, 'state')}: the {better} {self.by} of "
            f"{checks.plural(len(self.candidates), 'model')}.",
            Table([*header, "seconds", ""], rows, (len(header) + 1,)),
        ]

    def __repr__(self) -> str:
        tried = [candidate.n_states for candidate in self.candidates]
        return f"StateSelection(n_states={self.n_states}, by={self.by!r}, tried={tried})"

    def __str__(self) -> str:
        return page(self._parts())

    def _repr_html_(self) -> str:
        return html_page(self._parts())


def select_states(
    hmm: HMM,
    X: Any,
    n_states: Iterable[int],
    *,
    by: str = "bic",
    lengths: Sequence[int] | None = None,
    n_folds: int = 5,
    progress: bool | None = None,
) -> StateSelection:
    """Fit a hidden Markov model with several numbers of states, and choose among them.

    Parameters
    ----------
    hmm : HMM
        A model with any emission and algorithm; it is copied, and its ``n_states`` is replaced.
    X : sequences, array or data frame
        Data without labels, as for `HMM.fit`.
    n_states : iterable of int
        The numbers of states to try, such as ``range(2, 12)``.
    by : {"bic", "aic", "icl", "held-out"}, default "bic"
        The criterion; see `StateCount`. "held-out" is cross-validation. It is slower, and the only
        one that makes sense for an algorithm that does not maximise the likelihood.
    lengths : sequence of int, optional
        Lengths of the sequences, if they are joined in X.
    n_folds : int, default 5
        Number of parts for "held-out". Fewer sequences than this are cut into contiguous blocks.
    progress : bool, optional
        Whether to show a progress bar on stderr; by default, if stderr is a terminal.

    Returns
    -------
    StateSelection

    Raises
    ------
    ParameterError
        If an argument is out of range, or the emission does not count its parameters.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["a", "b"] * 30, ["b", "a"] * 30]
    >>> tl.select_states(tl.HMM(random_state=1), X, range(1, 4)).n_states
    2
    """
    from tagloom.models.unlabelled import read_sequences

    checks.choice(by, "by", CRITERIA)
    numbers = _check_numbers(n_states)
    sequences = read_sequences(X, lengths)
    folds = _folds(sequences, n_folds) if by == "held-out" else []
    candidates, models = [], {}
    began = time.perf_counter()
    with ExitStack() as stack:
        bar = None
        if shows_progress(progress):
            bar = stack.enter_context(Bar("Choosing the number of states", len(numbers)))
        for i, n in enumerate(numbers, start=1):
            candidate, models[n] = _fit(hmm, sequences, folds, n)
            candidates.append(candidate)
            if bar is not None:
                seconds = time.perf_counter() - began
                bar(Record(i, -candidate.log_likelihood, None, None, True, 1, seconds, None,
                           "log_likelihood", True))  # fmt: skip
    return StateSelection(by, candidates, models)


def _check_numbers(n_states: Any) -> list[int]:
    try:
        numbers = sorted({checks.count(n, "n_states", least=1) for n in n_states})
    except TypeError:
        numbers = []
    if not numbers:
        raise ParameterError(
            parameter="n_states",
            expected="numbers of states to try, such as range(2, 12)",
            found=checks.show(n_states),
        )
    return numbers


def _copy(hmm: HMM, n: int) -> HMM:
    return type(hmm)(**hmm.get_params() | {"n_states": n})


def _fit(
    hmm: HMM, sequences: Sequence[Any], folds: Sequence[tuple[list[Any], list[Any]]], n: int
) -> tuple[StateCount, HMM]:
    """Fit the model with n states to all data and, for each fold, to the rest."""
    began = time.perf_counter()
    model = _copy(hmm, n).fit(sequences)
    seconds = time.perf_counter() - began
    log_likelihood = model.log_likelihood(sequences)
    aic, bic = model.aic(sequences), model.bic(sequences)
    entropy = float(np.sum(model.trellis(sequences).entropy()))
    held_out = None
    if folds:
        pairs = [(_copy(hmm, n).fit(rest), part) for rest, part in folds]
        total = sum(fitted.log_likelihood(part) for fitted, part in pairs)
        held_out = total / sum(len(x) for x in sequences)
    return StateCount(
        n, model.n_parameters_, log_likelihood, aic, bic, bic + 2 * entropy, held_out, seconds
    ), model


def _folds(sequences: Sequence[Any], n_folds: Any) -> list[tuple[list[Any], list[Any]]]:
    """Return pairs of the sequences to learn from and those to score.

    Sequences are dealt out by turns. If there are too few, each is cut into blocks.
    """
    n = checks.count(n_folds, "n_folds", least=2)
    parts = [x for x in sequences if len(x)]
    if len(parts) < n:
        parts = [block for x in parts for block in _blocks(x, n)]
    if len(parts) < n:
        raise ParameterError(
            parameter="n_folds",
            expected=f"at most {len(parts)}, the number of tokens",
            found=str(n),
        )
    return [
        ([x for i, x in enumerate(parts) if i % n != fold], parts[fold::n]) for fold in range(n)
    ]


def _blocks(x: Any, n: int) -> list[Any]:
    """Cut a sequence into at most n contiguous blocks."""
    tokens = getattr(x, "tokens", x)
    ends = np.linspace(0, len(tokens), min(n, len(tokens)) + 1).astype(int).tolist()
    return [tokens[a:b] for a, b in pairwise(ends)]
