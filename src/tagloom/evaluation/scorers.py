"""Scorers for scikit-learn's searches and cross-validation.

scikit-learn's scorers require one label per row. These take lists of labels: pass one as
``scoring=``, or several in a dict. They also work without scikit-learn, on any tagger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tagloom import checks
from tagloom.errors import ParameterError
from tagloom.evaluation.evaluations import evaluate
from tagloom.evaluation.scores import scores_of

_OF_TOKENS = ("accuracy", "sentence_accuracy")
_OF_SPANS = ("precision", "recall", "f1")


@dataclass(frozen=True)
class Scorer:
    """A measure of a tagger's predictions: ``scorer(tagger, X, y)``.

    `accuracy`, `sentence_accuracy`, `span_precision`, `span_recall` and `span_f1` are ready-made
    instances.

    Parameters
    ----------
    measure : {"accuracy", "sentence_accuracy", "precision", "recall", "f1"}
        The measure; the last three are over spans.
    strict : bool, default False
        Whether spans are read strictly; see `tagloom.evaluate`.
    scheme : str, optional
        The scheme of the labels, if several fit.
    weighted : bool, str or None
        Whether scikit-learn passes ``sample_weight`` to it; see `set_score_request`.

    Raises
    ------
    ParameterError
        If the measure does not exist, or ``strict`` or ``scheme`` is set for a measure over tokens.

    Examples
    --------
    >>> import tagloom as tl
    >>> from tagloom.evaluation import Scorer, span_f1
    >>> X = [["Ada", "wrote"], ["Ada", "Byron", "met", "Ada"]]
    >>> y = [["B-PER", "O"], ["B-PER", "I-PER", "O", "B-PER"]]
    >>> tagger = tl.HMM().fit(X, y)
    >>> span_f1(tagger, X, y)
    1.0
    >>> span_f1
    Scorer('f1')
    >>> Scorer("f1", strict=True, scheme="bio")(tagger, X, y)
    1.0
    """

    measure: str
    strict: bool = False
    scheme: str | None = None
    weighted: bool | str | None = None

    def __post_init__(self) -> None:
        checks.choice(self.measure, "measure", (*_OF_TOKENS, *_OF_SPANS))
        if self.measure in _OF_TOKENS and (self.strict or self.scheme is not None):
            raise ParameterError(
                parameter="scheme" if self.scheme is not None else "strict",
                expected=f"left out for {self.measure!r}, which scores tokens, not spans",
                found=checks.show(self.scheme if self.scheme is not None else self.strict),
            )

    def __call__(self, tagger: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Predict labels for X and score them.

        Parameters
        ----------
        tagger : object
            Any object with ``predict``: a tagger, a pipeline that ends in one, a search.
        X : sequence of sentences
        y : sequence of list of str, optional
            The gold labels; by default those of the `Corpus` X.
        sample_weight : sequence of float, optional
            Weight of each sentence.

        Returns
        -------
        float
        """
        gold = X if y is None else y
        counts = evaluate(
            gold,
            tagger.predict(X),
            strict=self.strict,
            scheme=self.scheme,
            spans=self.measure in _OF_SPANS,
            n_bootstrap=0,
        ).sentence_counts
        weights = np.ones(len(counts)) if sample_weight is None else np.asarray(sample_weight)
        if weights.shape != (len(counts),):
            raise ParameterError(
                parameter="sample_weight",
                expected=f"one number per sentence, shape ({len(counts)},)",
                found=f"shape {weights.shape}",
            )
        return float(scores_of((weights @ counts)[np.newaxis])[self.measure][0])

    def __repr__(self) -> str:
        changed = {"strict": self.strict, "scheme": self.scheme, "weighted": self.weighted}
        options = "".join(f", {name}={value!r}" for name, value in changed.items() if value)
        return f"Scorer({self.measure!r}{options})"

    def set_score_request(self, *, sample_weight: bool | str | None) -> Scorer:
        """Return a scorer that requests weights through scikit-learn's metadata routing.

        Parameters
        ----------
        sample_weight : bool, str or None
            True: use the weights. False: ignore them. None: raise an error if they are passed.
            A str: use the weights passed under that name.

        Returns
        -------
        Scorer
            A new scorer; this one is not changed.

        Examples
        --------
        >>> span_f1.set_score_request(sample_weight=True)
        Scorer('f1', weighted=True)
        """
        return replace(self, weighted=sample_weight)

    def get_metadata_routing(self) -> Any:
        """Return the request for weights in scikit-learn's form."""
        from sklearn.utils.metadata_routing import (  # type: ignore[import-untyped]
            MetadataRequest,
        )

        request = MetadataRequest(owner=repr(self))
        request.score.add_request(param="sample_weight", alias=self.weighted)
        return request


accuracy = Scorer("accuracy")
sentence_accuracy = Scorer("sentence_accuracy")
span_precision = Scorer("precision")
span_recall = Scorer("recall")
span_f1 = Scorer("f1")
