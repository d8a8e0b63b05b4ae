"""The hidden Markov model in other forms: given probabilities, a weight vector, a linear tagger.

log Pr(x, y) is a sum of log-probabilities, one for each transition and each word: the score of a
linear model whose weights they are. This holds at order 1, for emissions of words alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import LabelError, ParameterError, ShapeError
from tagloom.models.crf import CRF
from tagloom.models.hidden import HiddenMarkov, HiddenMarkovTagger
from tagloom.models.linear import LinearTagger
from tagloom.scores import LinearScores, Rows
from tagloom.scores.emissions import Words
from tagloom.scores.markov import MarkovChain
from tagloom.scores.tables import WordTable, backoff_templates

Float64 = npt.NDArray[np.float64]


class Convertible(HiddenMarkovTagger):
    """A hidden Markov model that converts from and to other forms."""

    @classmethod
    def from_probs(
        cls,
        labels: Sequence[str],
        words: Sequence[str],
        *,
        start: npt.ArrayLike,
        trans: npt.ArrayLike,
        emit: npt.ArrayLike,
        stop: npt.ArrayLike | None = None,
    ) -> Self:
        """Make a model of order 1 from its probabilities.

        Parameters
        ----------
        labels : sequence of str
            The Y labels.
        words : sequence of str
            The V words; others are impossible.
        start : array, shape (Y,)
            Pr(y_1).
        trans : array, shape (Y, Y)
            Pr(y | y_prev), from → to.
        emit : array, shape (Y, V)
            Pr(w | y).
        stop : array, shape (Y,), optional
            Pr(■ | y): together with the transitions from y it sums to one.

        Returns
        -------
        HMM

        Raises
        ------
        ShapeError, ParameterError
            If the arrays do not fit, or are not probabilities that sum to one.

        Examples
        --------
        >>> import tagloom as tl
        >>> hmm = tl.HMM.from_probs(
        ...     ["N", "V"], ["can", "fish"],
        ...     start=[0.5, 0.5], trans=[[0.2, 0.8], [0.6, 0.4]], emit=[[0.1, 0.9], [0.7, 0.3]],
        ... )
        >>> hmm.predict([["can", "fish"]])
        [['V', 'N']]
        """
        names = checks.label_names(list(labels))
        if len(set(words)) != len(words) or not all(type(word) is str for word in words):
            raise ParameterError(
                parameter="words", expected="distinct str", found=checks.show(list(words))
            )
        Y, V = len(names), len(words)
        start_probs, trans_probs = _probs(start, "start", (Y,)), _probs(trans, "trans", (Y, Y))
        emit_probs = _probs(emit, "emit", (Y, V))
        stop_probs = None if stop is None else _probs(stop, "stop", (Y,))
        _check_sums("start", start_probs.sum(keepdims=True))
        _check_sums("emit", emit_probs.sum(axis=1))
        if stop_probs is None:
            _check_sums("trans", trans_probs.sum(axis=1))
        else:
            _check_sums("trans and stop", trans_probs.sum(axis=1) + stop_probs)
        chain = MarkovChain.from_probs(start_probs, (trans_probs,), stop_probs)
        emission = Words.from_probs(names, words, emit_probs)
        return cls._given(HiddenMarkov.join(chain, emission), None)

    @classmethod
    @abstractmethod
    def _given(cls, model: HiddenMarkov, labels: Sequence[str] | None) -> Self:
        """Return a tagger around a given model, with parameters that describe it."""

    def as_vector(self) -> Float64:
        """Lay out the model as a weight vector.

        log Pr(x, y) is its inner product with `feature_vector`, which counts the events of (x, y).
        First come the Y starts, then the Y·Y transitions, all those from the first label first,
        then the Y·V words of ``words_``, all those of the first label first, and last the Y stops,
        if the model has them.

        Returns
        -------
        ndarray of float64
            −inf for impossible events.

        Raises
        ------
        ParameterError
            If the order is above 1, or labels emit more than words.
        """
        trans, start, stop, table = _first_order(self._model("as_vector"), "as_vector")
        emit = table.rows[table.words].astype(np.float64).T  # [Y, V]
        parts = [start, trans.ravel(), emit.ravel()]
        return np.concatenate(parts if stop is None else [*parts, stop])

    def feature_vector(self, x: Sequence[str], y: Sequence[str]) -> Float64:
        """Count the events of a labelled sentence, in the order of `as_vector`.

        Parameters
        ----------
        x : sentence
        y : sequence of str
            Its labels.

        Returns
        -------
        ndarray of float64

        Raises
        ------
        LabelError, ParameterError
            If a word is not known, or as `as_vector`.
        """
        model = self._model("feature_vector")
        return _count_events(_first_order(model, "feature_vector"), x, y)

    def to_linear(self) -> CRF:
        """Make a linear tagger that scores every labelling as this model does.

        Its weights are log-probabilities: of transitions, of words, and of spellings, where a
        longer ending has the difference from the shorter one. Training can continue from there, see
        ``warm_start`` of `CRF`. Unknown words that are impossible in the model get the same score
        for all labels.

        Returns
        -------
        CRF

        Raises
        ------
        ParameterError
            If the order is above 1, or labels emit more than words.

        Examples
        --------
        >>> import tagloom as tl
        >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
        >>> hmm = tl.HMM().fit(X, [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]])
        >>> crf = hmm.to_linear()
        >>> crf.predict([["they", "swim"]]) == hmm.predict([["they", "swim"]])
        True
        """
        model = _first_order(self._model("to_linear"), "to_linear")
        return CRF.from_scores(
            _linear_scores(model),
            self.constraints_,
            training={**self.training_, "words": len(model.table.words)},
            features=model.table.extractor,
            labels=list(model.table.labels),
        )

    @classmethod
    def from_linear(cls, linear: LinearTagger) -> Self:
        """Make a model from the weights of a linear tagger; the inverse of `to_linear`.

        Parameters
        ----------
        linear : LinearTagger
            With the features of `to_linear`, and weights that are logarithms of probabilities.
            Endings that no known word has are left out.

        Returns
        -------
        HMM

        Raises
        ------
        ParameterError
            If it has other features, or its weights are not such logarithms.

        Examples
        --------
        >>> import tagloom as tl
        >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
        >>> hmm = tl.HMM().fit(X, [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]])
        >>> again = tl.HMM.from_linear(hmm.to_linear())
        >>> again.predict(X) == hmm.predict(X)
        True
        """
        linear._check_fitted("from_linear")
        training = dict(linear.training_)
        chain, words = _from_scores(linear.scores_, training.pop("words", None))
        model = HiddenMarkov.join(chain, words, linear.constraints_, training)
        return cls._given(model, linear.labels)


class _FirstOrder(NamedTuple):
    """A model of order 1 that emits words and nothing else."""

    trans: Float64  # [Y, Y]
    start: Float64  # [Y]
    stop: Float64 | None  # [Y]
    table: WordTable  # log Pr(w | y) of V words


def _first_order(model: HiddenMarkov, method: str) -> _FirstOrder:
    """Return the parts of a model that is linear in transitions and words.

    Raises
    ------
    ParameterError
        If it is not.
    """
    chain, emission = model.chain, model.emission
    if chain.order != 1 or type(emission) is not Words:
        raise ParameterError(
            where=f"HMM.{method}",
            expected="a model of order 1 that emits words alone: emissions=Words() without lexical",
            found=f"order {chain.order}, {emission!r}",
        )
    return _FirstOrder(chain.log_trans[0], chain.log_start, chain.log_stop, emission.table)


def _count_events(model: _FirstOrder, x: Sequence[str], y: Sequence[str]) -> Float64:
    """Count the events of a labelled sentence; see `Convertible.feature_vector`."""
    if len(x) != len(y) or len(x) == 0:
        raise LabelError(
            where="HMM.feature_vector",
            expected="as many labels as words, at least one",
            found=f"{len(x)} words and {len(y)} labels",
        )
    place = {label: i for i, label in enumerate(model.table.labels)}
    number = {word: i for i, word in enumerate(model.table.known_words())}
    missing = [w for w in x if w not in number] + [label for label in y if label not in place]
    if missing:
        raise ParameterError(
            where="HMM.feature_vector",
            expected="known words and labels",
            found=f"{missing[0]!r}, which is not known",
        )
    Y, V = len(place), len(number)
    path = np.array([place[label] for label in y])
    start, trans, words, stop = np.zeros(Y), np.zeros((Y, Y)), np.zeros((Y, V)), np.zeros(Y)
    start[path[0]] = stop[path[-1]] = 1
    np.add.at(trans, (path[:-1], path[1:]), 1)
    np.add.at(words, (path, np.array([number[w] for w in x])), 1)
    parts = [start, trans.ravel(), words.ravel()]
    return np.concatenate(parts if model.stop is None else [*parts, stop])


def _linear_scores(model: _FirstOrder) -> LinearScores:
    """Write log-probabilities as weights; see `Convertible.to_linear`."""
    trans, start, stop, table = model
    A, Y = table.rows.shape
    rows = table.rows.astype(np.float64)
    # In a closed vocabulary spellings have −inf, which must not be added to known words.
    is_spelling = np.ones(A, dtype=bool)
    is_spelling[table.words] = False
    rows[is_spelling[:, None] & np.isneginf(rows)] = 0
    weights = rows - rows[table.parent]
    weights[0] = rows[0]
    return LinearScores(
        labels=table.labels,
        extractor=table.extractor,
        index=table.index,
        rows=Rows(
            np.arange(A + 1, dtype=np.int64) * Y,
            np.tile(np.arange(Y, dtype=np.uint16), A),
            weights.astype(np.float32).ravel(),
        ),
        names=table.names,
        trans=trans.copy(),
        start=start.copy(),
        stop=np.zeros(Y) if stop is None else stop.copy(),
    )


def _from_scores(scores: LinearScores, n_words: int | None) -> tuple[MarkovChain, Words]:
    """Read weights as log-probabilities; see `Convertible.from_linear`."""
    max_suffix = _check_features(scores)
    table, emit = _read_table(scores, max_suffix, n_words)
    has_stop = bool(scores.stop.any())
    stop = np.exp(scores.stop) if has_stop else np.zeros(len(scores.labels))
    _check_exp_sums("start", np.exp(scores.start).sum())
    _check_exp_sums("transitions", np.exp(scores.trans).sum(axis=1) + stop)
    if (emit > 1 + 1e-4).any():
        raise _not_probabilities("words", "at most 1 for each label", float(emit.max()))
    log_stop = scores.stop.copy() if has_stop else None
    chain = MarkovChain(scores.start.copy(), (scores.trans.copy(),), log_stop)
    return chain, Words(max_suffix=max_suffix).replace(labels=scores.labels, table=table)


def _check_features(scores: LinearScores) -> int:
    """Return the length of the longest ending; the features must be those of `to_linear`."""
    templates = getattr(scores.extractor, "templates", [])
    max_suffix = max(len(templates) - 3, 0)
    is_backoff = scores.extractor.to_dict() == backoff_templates(max_suffix).to_dict()
    if not is_backoff or scores.edge_rows is not None:
        raise ParameterError(
            where="HMM.from_linear",
            expected="the features of HMM.to_linear: bias, shape and endings, word",
            found=f"the features {templates}",
        )
    return max_suffix


def _read_table(
    scores: LinearScores, max_suffix: int, n_words: int | None
) -> tuple[WordTable, Float64]:
    """Sum the weights of each word's back-off attributes; also return Σ_w exp of the sums [Y].

    Endings that no known word has are left out.
    """
    extractor = backoff_templates(max_suffix)
    A, Y = scores.rows.n_attributes, len(scores.labels)
    weights = np.zeros((A, Y))
    weights[scores.rows.attributes, scores.rows.cols] = scores.rows.weights
    ids = np.array([a for a, name in enumerate(scores.names) if name.startswith("word=")])
    words = [scores.names[a].removeprefix("word=") for a in ids]
    encoded = extractor.encode([words], scores.index)
    rows, parent = np.zeros((A, Y)), np.zeros(A, dtype=np.int32)
    lengths = np.diff(encoded.indptr)
    for step in range(int(lengths.max(initial=0))):  # from the bias to the word
        at = encoded.indptr[:-1][lengths > step] + step
        a = encoded.ids[at]
        parent[a] = encoded.ids[at - 1] if step else 0
        rows[a] = weights[a] + (rows[parent[a]] if step else 0)
    ids = ids[: len(ids) if n_words is None else n_words]  # case variants follow
    emit = np.exp(rows[ids]).sum(axis=0)  # [Y]
    kept = np.zeros(A, dtype=bool)
    kept[encoded.ids] = True
    number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    if np.allclose(emit, 1, rtol=1e-4):  # a closed vocabulary
        is_spelling = kept.copy()
        is_spelling[ids] = False
        rows[is_spelling] = -np.inf
    table = WordTable(
        scores.labels,
        extractor,
        scores.index.keep(kept),
        scores.names.keep(kept),
        number[ids],
        number[parent[kept]],
        rows[kept].astype(np.float32),
    )
    return table, emit


def _check_exp_sums(name: str, sums: npt.NDArray[Any] | np.floating[Any]) -> None:
    if not np.allclose(sums, 1, rtol=1e-4):
        raise _not_probabilities(name, "1", float(np.ravel(sums)[0]))


def _not_probabilities(name: str, expected: str, found: float) -> ParameterError:
    return ParameterError(
        where=f"HMM.from_linear, weights of {name}",
        expected=f"logarithms of probabilities, whose exp sums to {expected}",
        found=f"{found:.4g}",
        hint="Only a tagger that HMM.to_linear made converts back.",
    )


def _probs(values: npt.ArrayLike, name: str, shape: tuple[int, ...]) -> Float64:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ShapeError(parameter=name, expected=f"of shape {shape}", found=str(array.shape))
    if not ((array >= 0) & (array <= 1)).all():
        raise ParameterError(
            parameter=name, expected="probabilities, between 0 and 1", found=checks.show(array)
        )
    return array


def _check_sums(name: str, sums: Float64) -> None:
    if not np.allclose(sums, 1, rtol=1e-6):
        raise ParameterError(
            parameter=name,
            expected="probabilities that sum to 1 for each label",
            found="sums of " + ", ".join(f"{total:.6g}" for total in sums),
        )
