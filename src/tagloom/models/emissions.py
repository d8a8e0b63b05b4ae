"""Several features of a token, each emitted by its label on its own: naive Bayes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native, features
from tagloom.errors import ParameterError
from tagloom.features import Templates
from tagloom.scores import LinearScores, Names, Rows

Float64 = npt.NDArray[np.float64]


def find_templates(spec: Any) -> list[str]:
    """Return the templates that are asked for as emissions, one for each feature.

    Raises
    ------
    ParameterError
        If they are none, or look at the label before.
    TemplateError
        If one cannot be read.
    """
    made = features.make(list(spec) if isinstance(spec, tuple) else spec)
    if not isinstance(made, Templates) or not made.templates:
        raise ParameterError(
            f"emissions must be templates, such as ['word', 'suffix(2)', 'col(pos)']; got {spec!r}."
        )
    edge = next((t for t in made.templates if t.startswith("edge(")), None)
    if edge is not None:
        raise ParameterError(
            f"emissions: {edge!r} looks at two labels, but a label emits on its own. Leave it out, "
            "or take MEMM or CRF."
        )
    return [t for t in dict.fromkeys(made.templates) if t != "bias"]


def count_features(
    templates: Sequence[str],
    sentences: Sequence[Any],
    labels: Sequence[str],
    gold: npt.NDArray[np.int32],
    weight: Float64 | None,
    k: float,
) -> LinearScores:
    """Estimate Pr(value of a feature | y) for every template.

    Pr(v | y) = (count(v, y) + k) / (count(y) + k · (V + 1))

    where V values were seen, and one more stands for all others and for none.

    Parameters
    ----------
    templates : sequence of str
        Each gives a token at most one value.
    sentences : sequence of sentences
    labels : sequence of str
        The Y labels.
    gold : ndarray of int32, shape (T,)
    weight : ndarray, shape (T,), or None
        How much each token counts.
    k : float
        Above 0.

    Returns
    -------
    LinearScores
        Its emissions are log Π Pr(v | y): the bias has what a token without any known value gets,
        and each value what it changes.

    Raises
    ------
    ParameterError
        If a template gives a token numbers, or several values.
    """
    Y = len(labels)
    index = _native.Index()
    extractor = features.make(["bias", *templates])
    index_bias = features.make(["bias"]).encode(sentences, index, grow=True)
    assert index_bias.ids[0] == 0
    of_label = np.bincount(gold, weight, minlength=Y)  # [Y]
    bias, parts = np.zeros(Y), []
    for template in templates:
        first = index.size
        encoded = features.make([template]).encode(sentences, index, grow=True)
        lengths = np.diff(encoded.indptr)
        if encoded.values is not None or lengths.max(initial=0) > 1:
            what = "numbers" if encoded.values is not None else "several values"
            raise ParameterError(
                f"emissions: {template!r} gives a token {what}; expected one value or none, which "
                "a label can emit. Leave it out."
            )
        has = lengths > 0
        cells = (encoded.ids - first).astype(np.int64) * Y + gold[has]
        n = index.size - first
        counts = np.bincount(cells, None if weight is None else weight[has], minlength=n * Y)
        seen = counts.reshape(n, Y) + k
        missing = of_label - counts.reshape(n, Y).sum(axis=0) + k  # [Y] without a value
        bias += np.log(missing / (of_label + k * (n + 1)))
        parts.append(np.log(seen / missing))
    rows = np.concatenate([bias[None, :], *parts]).astype(np.float32)
    return LinearScores(
        labels=tuple(labels),
        extractor=extractor,
        index=index,
        rows=Rows(
            np.arange(len(rows) + 1, dtype=np.int64) * Y,
            np.tile(np.arange(Y, dtype=np.uint16), len(rows)),
            rows.ravel(),
        ),
        names=Names(*index.names()),
        trans=np.zeros((Y, Y)),
        start=np.zeros(Y),
        stop=np.zeros(Y),
    )
