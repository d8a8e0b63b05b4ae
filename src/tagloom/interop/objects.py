"""Fitted objects of other Python packages as models of tagloom: sklearn-crfsuite, hmmlearn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tagloom import checks
from tagloom.errors import NotFittedError, ParameterError
from tagloom.interop.crfsuite import read_crfsuite
from tagloom.models.crf import CRF
from tagloom.models.hidden import HiddenMarkov
from tagloom.models.hmm import HMM
from tagloom.scores.emissions import Gaussian
from tagloom.scores.markov import MarkovChain

_CONVERTIBLE = "a fitted sklearn_crfsuite.CRF, or CategoricalHMM or GaussianHMM of hmmlearn"


def convert(
    obj: Any, *, labels: Sequence[str] | None = None, words: Sequence[str] | None = None
) -> Any:
    """Convert a fitted object of another package.

    =============================================  ===========================================
    ``sklearn_crfsuite.CRF``                       `CRF` over dicts of features
    ``tagloom.interop.sklearn_crfsuite.CRF``       the `CRF` inside
    ``hmmlearn.hmm.CategoricalHMM``                `HMM` over words
    ``hmmlearn.hmm.GaussianHMM``                   `HMM` over arrays, with `emissions.Gaussian`
    =============================================  ===========================================

    Parameters
    ----------
    obj : object
    labels : sequence of str, optional
        Names for the states of an hmmlearn model, by default "0", "1", …
    words : sequence of str, optional
        Names for its symbols, by default "0", "1", …

    Returns
    -------
    Model

    Raises
    ------
    ParameterError
        If the object is of another kind.
    NotFittedError
        If it is not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> from hmmlearn.hmm import CategoricalHMM
    >>> theirs = CategoricalHMM(n_components=2)
    >>> theirs.startprob_ = np.array([0.8, 0.2])
    >>> theirs.transmat_ = np.array([[0.3, 0.7], [0.6, 0.4]])
    >>> theirs.emissionprob_ = np.array([[0.5, 0.1, 0.4], [0.0, 0.6, 0.4]])
    >>> hmm = tl.interop.convert(theirs, labels=["N", "V"], words=["they", "can", "fish"])
    >>> hmm.predict([["they", "can", "fish"]])
    [['N', 'V', 'N']]
    """
    kinds = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(obj).__mro__}
    if any(kind.startswith("sklearn_crfsuite.") and kind.endswith(".CRF") for kind in kinds):
        return _from_sklearn_crfsuite(obj)
    if "tagloom.interop.sklearn_crfsuite.estimators.CRF" in kinds:
        return obj._fitted
    if "hmmlearn.hmm.CategoricalHMM" in kinds:
        return _from_categorical(obj, labels, words)
    if "hmmlearn.hmm.GaussianHMM" in kinds:
        return _from_gaussian(obj, labels)
    if any(kind.endswith("pycrfsuite.Tagger") for kind in kinds):
        raise ParameterError(
            parameter="obj",
            expected=_CONVERTIBLE,
            found="a pycrfsuite.Tagger, which does not give its weights",
            hint="Load its file: tagloom.load(path).",
        )
    raise ParameterError(parameter="obj", expected=_CONVERTIBLE, found=checks.show_type(obj))


def _from_sklearn_crfsuite(obj: Any) -> CRF:
    """Read the model file that the object keeps."""
    path = obj.modelfile.name
    if path is None:
        raise NotFittedError("This sklearn_crfsuite.CRF is not fitted.", hint="Call fit() first.")
    return read_crfsuite(path)


def _check_fitted(obj: Any, *names: str) -> None:
    if not all(hasattr(obj, name) for name in ("startprob_", "transmat_", *names)):
        raise NotFittedError(f"This {type(obj).__name__} is not fitted.", hint="Call fit() first.")


def _from_gaussian(obj: Any, labels: Any) -> HMM:
    _check_fitted(obj, "means_", "_covars_")
    names = [str(y) for y in range(len(obj.means_))] if labels is None else list(labels)
    covariances = np.asarray(obj._covars_)  # in the shape of their kind; covars_ expands it
    if obj.covariance_type == "spherical":
        covariances = covariances.reshape(len(names), -1)[:, 0]
    emission = Gaussian.from_params(names, obj.means_, covariances, obj.covariance_type)
    chain = MarkovChain.from_probs(np.asarray(obj.startprob_), (np.asarray(obj.transmat_),), None)
    return HMM._given(HiddenMarkov.join(chain, emission), names)


def _from_categorical(obj: Any, labels: Any, words: Any) -> HMM:
    _check_fitted(obj, "emissionprob_")
    emit = obj.emissionprob_
    Y, V = np.shape(emit)
    return HMM.from_probs(
        [str(y) for y in range(Y)] if labels is None else list(labels),
        [str(w) for w in range(V)] if words is None else list(words),
        start=obj.startprob_,
        trans=obj.transmat_,
        emit=emit,
    )
