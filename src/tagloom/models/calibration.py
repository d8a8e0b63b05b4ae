"""Calibration: the reliability of a tagger's probabilities and the temperature to correct them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tagloom import checks, evaluation
from tagloom.errors import LabelError, ModelFileError
from tagloom.models.data import gold_labels
from tagloom.trellis import Trellis

if TYPE_CHECKING:
    from tagloom.models.taggers import Tagger


def reliability(tagger: Tagger, X: Any, y: Any, n_bins: int) -> evaluation.Reliability:
    """Compare the probabilities of predicted labels with the share that is right.

    Parameters
    ----------
    tagger : Tagger
    X, y, n_bins
        As for `Tagger.reliability`.
    """
    sentences = checks.sentences(X)
    gold = gold_labels(sentences, X, y)
    place = {label: i for i, label in enumerate(tagger.labels_.tolist())}
    confidence, is_right = [np.empty(0)], [np.empty(0, dtype=np.bool_)]
    for predicted, truth, gamma in zip(
        tagger.predict(sentences), gold, tagger.predict_marginals(sentences), strict=True
    ):
        path = [place[label] for label in predicted]
        confidence.append(gamma[np.arange(len(path)), path])
        right = [a == b for a, b in zip(predicted, truth, strict=True)]
        is_right.append(np.array(right, dtype=np.bool_))
    return evaluation.reliability(
        np.concatenate(confidence), np.concatenate(is_right), n_bins=n_bins
    )


def fit_temperature(tagger: Tagger, X: Any, y: Any) -> float:
    """Find the temperature that maximises the marginal probabilities of the gold labels.

    Parameters
    ----------
    tagger : Tagger
    X, y
        As for `Tagger.calibrate`.

    Raises
    ------
    LabelError
        If no label is one of the tagger's.
    """
    sentences = checks.sentences(X)
    place = {label: i for i, label in enumerate(tagger.labels_.tolist())}
    numbers = [place.get(label, -1) for path in gold_labels(sentences, X, y) for label in path]
    gold: npt.NDArray[np.int64] = np.array(numbers, dtype=np.int64)
    tokens = np.flatnonzero(gold >= 0)
    if not len(tokens):
        raise LabelError(
            expected="labels that the tagger predicts, to calibrate with",
            found="none",
            hint="Pass labelled sentences that were not used for training.",
        )
    batches = [
        batch.astype(np.float64) if isinstance(batch, Trellis) else batch
        for batch in tagger.score_batches(sentences)
    ]

    def loss(temperature: float) -> float:
        gamma = np.concatenate([b.tempered(temperature).marginals() for b in batches])
        # An impossible label has the same loss at every temperature.
        return -float(np.log(np.maximum(gamma[tokens, gold[tokens]], 1e-300)).mean())

    return evaluation.fit_temperature(loss)


def check_temperature(value: Any) -> float:
    """Return the temperature of a file.

    Raises
    ------
    ModelFileError
        If it is not a float that `fit_temperature` can return.
    """
    from tagloom.evaluation.calibration import MAX_TEMPERATURE, MIN_TEMPERATURE

    if type(value) is not float or not MIN_TEMPERATURE <= value <= MAX_TEMPERATURE:
        raise ModelFileError(
            where="temperature",
            expected=f"a float between {MIN_TEMPERATURE} and {MAX_TEMPERATURE:.0f}",
            found=checks.show(value),
        )
    return value
