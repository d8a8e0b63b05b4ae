"""Token classifiers: each label on its own, whatever its neighbours are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tagloom import _native
from tagloom.errors import ParameterError
from tagloom.models.layouts import Layout
from tagloom.models.linear import LinearTagger
from tagloom.models.local import LocalTagger
from tagloom.models.reading import TrainingData


class TokenClassifier(LocalTagger):
    r"""A linear classifier of tokens, without any dependence between labels.

    It sees the whole sentence through its features, but not the other labels: every token is a
    sentence of its own to the learner, and moves between labels have no weights. ::

        loss="log"         Σ_t −log Pr(y_t | x, t) + l2·‖θ‖²        logistic regression
        loss="perceptron"  θ ← θ + φ(x, t, y_t) − φ(x, t, ŷ)         averaged perceptron
        loss="hinge"       ½‖θ‖² + C·Σ_t max_ŷ [1{ŷ ≠ y_t} + θ·φ(x, t, ŷ) − θ·φ(x, t, y_t)]

    Parameters
    ----------
    features : str, list of str, extractor, callable or None
        As for `CRF`; templates of edges, which see the label before, are refused.
    loss : {"log", "perceptron", "hinge"}
        What is learnt from. Only "log" gives probabilities that mean something.
    algorithm : {"auto", "adagrad", "lbfgs", "perceptron", "subgradient", "frank-wolfe"}
        How the weights are found: "adagrad" or "lbfgs" for log, "perceptron", "subgradient" or
        "frank-wolfe" for hinge. "auto" takes the first of them.
    l2 : float, optional
        Penalty of the log loss: 1 for lbfgs, otherwise 0.
    C : float
        How much mistakes count beside the size of the weights; only with loss="hinge".
    eta : float
        Learning rate of adagrad.
    average : bool
        Whether learners that go token by token predict with the mean of their weights.
    max_iterations : int, optional
        The largest number of iterations (lbfgs: 100) or epochs (adagrad: 5, perceptron: 10,
        subgradient: 15, frank-wolfe: 50).
    patience : int, optional
        With development data: stop after so many iterations (lbfgs: 10) or epochs (3) without a
        better score.
    min_weight : float, optional
        Forget weights of features that are smaller in absolute value: 0.02 for adagrad, otherwise
        0.
    constraints : {"auto", None, "bio", "iob1", "io", "bioes", "bilou"} or other
        The scheme whose illegal moves are never predicted. "auto" finds it in the training labels,
        if all of them are legal; None lets every label go its own way. See `CRF` for others.
    min_count, combinations, labels, random_state, n_threads, warm_start
        As for `CRF`.

    Examples
    --------
    What ``can`` is hangs on its neighbours, not only on itself:

    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["can", "of", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "P", "N"]]
    >>> tl.TokenClassifier(features=["word"]).fit(X, y).score(X, y) < 1
    True
    >>> tl.TokenClassifier(features=["word[-1..1]"]).fit(X, y).predict(X)
    [['N', 'V', 'V'], ['N', 'P', 'N']]
    """

    boundaries = False

    def _problem(self, data: TrainingData) -> tuple[_native.Problem, Layout]:
        encoded = data.encoded
        if encoded.edge_indptr is not None:
            raise ParameterError(
                parameter="features",
                expected="without edge(...) templates: TokenClassifier does not see the label "
                "before",
                found="edge templates",
                hint="Leave them out, or use MEMM or CRF.",
            )
        weight = data.weight
        if weight is not None:
            weight = np.repeat(weight, np.diff(encoded.offsets))
        alone = np.arange(len(data.gold.numbers) + 1, dtype=np.int64)  # each token is a sentence
        tokens = replace(data, encoded=encoded._replace(offsets=alone), weight=weight)
        problem, layout = LinearTagger._problem(self, tokens)
        free = problem.mask()
        free[layout.moves_at :] = False
        problem.set_mask(free)
        return problem, layout
