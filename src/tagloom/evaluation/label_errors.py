"""Find gold labels that are probably wrong, by models that have not seen them.

The sentences are split into folds. A copy of the tagger learns from all folds but one and computes
the probability of each label of that one. A gold label that the copy finds improbable, at a token
where it is confident of another, is suspect. Taggers are used through ``get_params``, ``fit`` and
``predict_marginals`` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import LabelError, ParameterError


class SuspectLabel(NamedTuple):
    """A gold label that is probably wrong.

    Attributes
    ----------
    sentence, token : int
        Its place, counted from 0.
    word : str
        The token as text.
    label : str
        The gold label.
    prob : float
        Its probability, by a model that was not trained on the sentence.
    suggestion : str
        The most probable label.
    suggestion_prob : float
        The probability of that one.
    """

    sentence: int
    token: int
    word: str
    label: str
    prob: float
    suggestion: str
    suggestion_prob: float


def find_label_errors(
    tagger: Any,
    X: Any,
    y: Any = None,
    *,
    n_folds: int = 5,
    n_most: int | None = None,
    random_state: int | np.random.Generator = 0,
) -> list[SuspectLabel]:
    r"""Find gold labels that are probably wrong, the most suspect first.

    Suspect labels are sorted by log γ(suggestion) − log γ(label), where γ are the marginal
    probabilities that a copy of the tagger computes after training on the other folds.

    Parameters
    ----------
    tagger : Tagger
        Its class and parameters are used; it need not be fitted and is not changed.
    X : Corpus or sequence of sentences
        Unknown labels (None) and sets of labels are not judged.
    y : sequence of list of str, optional
        The gold labels, unless X contains them.
    n_folds : int, default 5
        Number of folds. More folds find more errors and take longer.
    n_most : int, optional
        Return at most this many.
    random_state : int or Generator
        Chooses the folds; one seed gives one result.

    Returns
    -------
    list of SuspectLabel
        One for each token whose gold label is not its most probable one.

    Raises
    ------
    LabelError
        If a sentence has no labels.
    ParameterError
        If there are fewer than two folds, or fewer sentences than folds.

    Examples
    --------
    >>> import tagloom as tl
    >>> train = tl.datasets.load("english", "train")
    >>> labels = [list(row) for row in train.labels]
    >>> train[3].tokens[4], labels[3][4]
    ('of', 'ADP')
    >>> labels[3][4] = "VERB"
    >>> found = tl.evaluation.find_label_errors(tl.CRF(), train.with_labels(labels), n_most=10)
    >>> [(s.word, s.label, s.suggestion) for s in found if (s.sentence, s.token) == (3, 4)]
    [('of', 'VERB', 'ADP')]
    """
    sentences = checks.sentences(X)
    gold = _gold(sentences, y)
    n_folds = checks.count(n_folds, "n_folds", least=2)
    if len(sentences) < n_folds:
        raise ParameterError(
            parameter="n_folds",
            expected=f"at most the number of sentences, {len(sentences)}",
            found=str(n_folds),
        )
    rng = np.random.default_rng(random_state)
    folds = rng.permutation(len(sentences)) % n_folds  # [N]
    suspects: list[tuple[float, SuspectLabel]] = []
    for fold in range(n_folds):
        inside = np.flatnonzero(folds == fold).tolist()
        outside = np.flatnonzero(folds != fold).tolist()
        copy = type(tagger)(**tagger.get_params(deep=False))
        copy.fit([sentences[i] for i in outside], [gold[i] for i in outside])
        probs = copy.predict_marginals([sentences[i] for i in inside])
        names = copy.labels_.tolist()
        for i, gamma in zip(inside, probs, strict=True):
            suspects += _judge(i, sentences[i], gold[i], gamma, names)
    suspects.sort(key=lambda pair: (-pair[0], pair[1][:2]))
    return [suspect for _, suspect in suspects[:n_most]]


def _judge(
    i: int, sentence: Any, gold: Sequence[Any], gamma: npt.NDArray[Any], names: list[str]
) -> Iterator[tuple[float, SuspectLabel]]:
    """Yield the labels of a sentence that are not the most probable, with log odds against them."""
    if not len(gamma):
        return
    number = {name: k for k, name in enumerate(names)}
    best = gamma.argmax(axis=1)  # [T]
    for t, (label, k) in enumerate(zip(gold, best.tolist(), strict=True)):
        if not isinstance(label, str) or label == names[k]:
            continue
        # A label that no other fold has is as improbable as float64 can say.
        prob = float(gamma[t, number[label]]) if label in number else 0.0
        odds = float(np.log(gamma[t, k]) - np.log(max(prob, np.finfo(np.float64).tiny)))
        word = sentence[t] if isinstance(sentence[t], str) else str(t)
        yield odds, SuspectLabel(i, t, word, label, prob, names[k], float(gamma[t, k]))


def _gold(sentences: Sequence[Any], y: Iterable[Any] | None) -> list[list[Any]]:
    rows: list[Any]
    rows = [getattr(s, "labels", None) for s in sentences] if y is None else list(y)
    if len(rows) != len(sentences):
        raise LabelError(
            parameter="y",
            expected=f"{checks.plural(len(sentences), 'list')} of labels, one per sentence",
            found=str(len(rows)),
        )
    for i, (sentence, row) in enumerate(zip(sentences, rows, strict=True)):
        if row is None or len(row) != len(sentence):
            raise LabelError(
                where=checks.place(i),
                expected=f"{checks.plural(len(sentence), 'label')}, one per token",
                found="none" if row is None else str(len(row)),
            )
    return [list(row) for row in rows]
