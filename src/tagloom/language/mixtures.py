"""Mixtures of n-gram models, as one model."""

from __future__ import annotations

from typing import Any

import numpy as np

from tagloom import checks
from tagloom.errors import ParameterError
from tagloom.language.ngrams import NGramModel
from tagloom.language.tables import NGramTables

_MAX_ITERATIONS = 100


def interpolate(
    a: NGramModel, b: NGramModel, weight: float = 0.5, *, dev: Any = None
) -> NGramModel:
    r"""Mix two models: p(w | h) = weight · p_a(w | h) + (1 − weight) · p_b(w | h).

    The result is one back-off model with the n-grams of both (Stolcke 2002, static interpolation):
    each of them has exactly the mixed probability. Where neither model has an n-gram, the result
    backs off, which is near the mixture but not equal to it; probabilities still sum to 1. A word
    of only one vocabulary has probability 0 in the other model.

    Parameters
    ----------
    a, b : NGramModel
        Of the same order and unit.
    weight : float, default 0.5
        Weight of ``a``, 0 to 1.
    dev : Corpus or list of sentences, optional
        Text on which the weight is estimated by EM, starting from ``weight``.

    Returns
    -------
    NGramModel
        ``training_["weight"]`` is the weight of ``a``.

    Raises
    ------
    ParameterError
        If the models do not fit each other.

    Examples
    --------
    >>> import tagloom as tl
    >>> from tagloom.language import interpolate
    >>> a = tl.NGramModel(2).fit([["the", "boat"], ["the", "fog"]])
    >>> b = tl.NGramModel(2).fit([["the", "cat"], ["a", "cat"]])
    >>> mixed = interpolate(a, b, 0.25)
    >>> round(float(mixed.next_probs(["the"]).sum()), 9)
    1.0
    """
    for name, model in (("a", a), ("b", b)):
        if not isinstance(model, NGramModel):
            raise ParameterError(
                parameter=name, expected="an NGramModel", found=checks.show_type(model)
            )
        model._check_fitted("interpolate")
    for what in ("order", "unit"):
        one, other = (getattr(model if what == "unit" else model.tables_, what) for model in (a, b))
        if one != other:
            raise ParameterError(
                parameter="b", expected=f"a model with {what} {one!r}, as a has", found=repr(other)
            )
    weight = checks.number(weight, "weight", least=0, most=1)
    if dev is not None:
        weight = _estimate_weight(a, b, weight, dev)
    arrays, vocabulary = a.tables_.native.mix(
        a.tables_.vocabulary,
        b.tables_.native,
        b.tables_.vocabulary,
        weight,
        checks.threads(a.n_threads),
    )
    has_unknown = a.tables_.has_unknown or b.tables_.has_unknown
    model = NGramModel(a.order, unit=a.unit, closed=not has_unknown, n_threads=a.n_threads)
    return model._with_tables(NGramTables(arrays, vocabulary, has_unknown), {"weight": weight})


def _estimate_weight(a: NGramModel, b: NGramModel, weight: float, dev: Any) -> float:
    """Return the weight under which the text is most probable; EM, so no step lowers it."""
    dev = list(dev)
    probs = []
    for model in (a, b):
        scored = list(model._score_all(dev))
        log_probs = np.concatenate([part.log_probs for part in scored])
        is_unknown = np.concatenate([part.is_unknown for part in scored])
        probs.append((np.exp(log_probs), is_unknown))
    (p_a, unknown_a), (p_b, unknown_b) = probs
    p_a = np.where(unknown_a & ~unknown_b, 0.0, p_a)
    p_b = np.where(unknown_b & ~unknown_a, 0.0, p_b)
    is_possible = p_a + p_b > 0
    p_a, p_b = p_a[is_possible], p_b[is_possible]
    for _ in range(_MAX_ITERATIONS):
        shares = weight * p_a / (weight * p_a + (1 - weight) * p_b)
        before, weight = weight, float(np.mean(shares))
        if abs(weight - before) < 1e-6:
            break
    return weight
