"""The hidden Markov model: labels that follow labels and emit words, learnt by counting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import LabelError, ModelFileError, ParameterError, ShapeError
from tagloom.models import constraints
from tagloom.models.constraints import Constraints
from tagloom.models.counts import (
    LabelledWords,
    WordCounts,
    count_ngrams,
    count_words,
    read_labelled,
)
from tagloom.models.crf import CRF
from tagloom.models.data import Gold, as_sentences
from tagloom.models.emissions import count_features, find_templates
from tagloom.models.linear import LinearTagger, check_at_least, check_choice
from tagloom.models.tables import TableTagger
from tagloom.scores import LinearScores, Names, Rows
from tagloom.scores.linear import log_scores
from tagloom.scores.parts import Part, Parts
from tagloom.scores.tables import PairTable, WordTable, chain
from tagloom.sequences import Sentence
from tagloom.storage import File
from tagloom.trellis import StateSpace, Trellis
from tagloom.trellis.machine import ALL_THREADS

Float64 = npt.NDArray[np.float64]
RandomState: TypeAlias = "int | np.random.Generator | None"  # as text, for a quick start

# Probabilities of moves that a table may hold: order 2 of 270 labels, or order 3 of 65.
_MOST_MOVES = 20_000_000
# How many occurrences of an ending the next shorter one is worth, and of a word with or without a
# capital its spelling; chosen on development data (UPOS and XPOS of EWT), where little hangs on it.
_SPELLING_STRENGTH = 2.0
_CASE_STRENGTH = 3.0
# How many occurrences of a word with a label each label seen after it is worth, in what the label
# alone says about the next one; chosen on the same data.
_AFTER_STRENGTH = 2.0
_TINY = np.finfo(float).tiny  # instead of 0, where that would be divided by


class HMM(TableTagger):
    r"""A hidden Markov model.

    A sentence begins at ♦, each label depends on the k labels before it, each word on its label,
    and ■ ends the sentence::

        Pr(x, y) = Π_t Pr(y_t | y_{t-k} … y_{t-1}) · Pr(x_t | y_t) · Pr(■ | y_T)

    All of these are counted, not searched for: one pass over the data. Labels of a sentence are
    the most probable ones given its words, found by Viterbi.

    **Words.** What is counted for each word is which labels it has, and this is turned around by
    Bayes' rule, Pr(w | y) = Pr(w) · Pr(y | w) / Pr(y), where

        Pr(y | w) = (count(w, y) + k · Pr(y | likeness of w)) / (count(w) + k)

    with k = ``emission_smoothing``; a word is like itself with other capitals, and like words of
    its spelling. Words that were never seen have, together, the probability
    ``unknown``; what their labels are is told by their spelling, as in TnT (Brants 2000): by the
    longest ending that rare words of the same shape (such as ``Xx``, ``x-x`` or ``d,d``) have had,
    mixed with shorter ones; and, if the word is known with another first letter (``fishing``,
    ``Fishing``), by that. The probability of the very letters, which is the same for all labels,
    is left out of their scores.

    **Moves.** ``smoothing`` says how probabilities of labels after labels are estimated:

    - ``"add-k"``: (count + k) / (total + k · outcomes), k = ``k``; 0 gives relative frequencies;
    - ``"witten-bell"``: the more different labels followed a history, the more it is mixed with
      the shorter history;
    - ``"interpolation"``: all histories of one length are mixed with shorter ones in one
      proportion, which leaves each n-gram out once to see which length foretells it best.

    Whether a sentence ends depends on its last label only, whatever the order.

    **Words and the label after them.** ``have`` before a participle is another ``have`` than before
    a noun. With ``lexical=n`` words that occur at least n times depend on the label after their
    own, too (y⁺, or ■)::

        Pr(w | y, y⁺) ∝ Pr(w | y) · Pr(y⁺ | w, y) / Pr(y⁺ | y)

    where Pr(y⁺ | w, y) leans on Pr(y⁺ | y); on the development data of EWT (UPOS, order 2) this
    raises accuracy from 92.8 to 94.1, at a quarter of the speed. In the spirit of the lexicalised
    models of Pla and Molina (2004), it is more than what the textbooks call a hidden Markov model;
    hence the choice.

    **Features.** With ``emissions=[...]`` a token is a bunch of features, and its label emits each
    of them on its own, as in naive Bayes::

        Pr(x_t | y) = Π_d Pr(x_{t,d} | y)

    Features are templates as for `CRF`. ``"word"`` is the word as above; of any other feature
    every value v has (count(v, y) + k) / (count(y) + k · (V + 1)), where V values were seen and one
    more stands for all others; k = ``emission_smoothing``.

    Parameters
    ----------
    order : int
        How many labels before it a label depends on.
    smoothing : {"witten-bell", "interpolation", "add-k"}
        How moves are smoothed.
    k : float
        What ``"add-k"`` adds to each count of moves.
    emission_smoothing : float
        How many occurrences of a word its likeness to others is worth.
    unknown : float, optional
        The probability of a word that is not known; by default the share of tokens whose word
        occurs once. With 0, a sentence with such a word is infeasible.
    max_suffix : int
        The longest ending that tells labels of unknown words; 0 leaves spelling out.
    rare : int
        Words that occur at most so often tell what unknown words are like.
    fold_case : bool
        Whether unknown words take after known ones that differ in capitals only.
    min_count : int
        Words that occur less often are taken as unknown.
    stop : bool
        Whether the end of a sentence is part of the model.
    emissions : list of str, optional
        Templates of the features that labels emit; by default the word alone.
    lexical : int, optional
        Words that occur at least so often depend on the label after theirs, too; 3 is a good
        choice. By default no word does.
    constraints : {"auto", None, "bio", "iob1", "io", "bioes", "bilou"} or other
        What is never predicted, as for `CRF`. The joint distribution does not know of it.
    labels : sequence of str, optional
        The labels in their order; by default those of the training data, sorted.
    n_threads : int, optional
        All cores by default; nothing depends on it but the time that tagging takes.

    Attributes
    ----------
    labels_ : ndarray of str, shape (Y,)
    log_start_ : ndarray, shape (Y,)
        log Pr(y_1).
    log_moves_ : tuple of k ndarray
        log Pr(y_t | the j labels before), of shape (Y,) * (j + 1), for j from 1 to k: those for
        fewer than k labels are for the beginning of a sentence.
    log_stop_ : ndarray, shape (Y,), or None
        log Pr(■ | y).
    features_ : LinearScores or None
        log Π Pr(x_{t,d} | y) of the features that are not the word.
    pairs_ : PairTable or None
        log Pr(w | y, y⁺) − log Pr(w | y), with ``lexical``.
    training_ : dict
        Where this comes from.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
    >>> tagger = tl.HMM().fit(X, y)
    >>> tagger.predict([["they", "can", "swim"]])
    [['N', 'V', 'V']]
    >>> tagger.generate(random_state=1).labels
    ['N', 'V', 'V']
    """

    order: int
    smoothing: str
    k: float
    emission_smoothing: float
    unknown: float | None
    max_suffix: int
    rare: int
    fold_case: bool
    min_count: int
    stop: bool
    emissions: Sequence[str] | None
    lexical: int | None
    constraints: Any
    labels: Sequence[str] | None
    n_threads: int | None

    constraints_: Constraints

    features_: LinearScores | None
    emits_words_: bool
    pairs_: PairTable | None
    log_start_: Float64
    log_moves_: tuple[Float64, ...]
    log_stop_: Float64 | None
    _table: WordTable | Callable[[], WordTable]

    def __init__(
        self,
        order: int = 1,
        *,
        smoothing: str = "witten-bell",
        k: float = 1.0,
        emission_smoothing: float = 0.2,
        unknown: float | None = None,
        max_suffix: int = 5,
        rare: int = 10,
        fold_case: bool = True,
        min_count: int = 1,
        stop: bool = True,
        emissions: Sequence[str] | None = None,
        lexical: int | None = None,
        constraints: Any = "auto",
        labels: Sequence[str] | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.order = order
        self.smoothing = smoothing
        self.k = k
        self.emission_smoothing = emission_smoothing
        self.unknown = unknown
        self.max_suffix = max_suffix
        self.rare = rare
        self.fold_case = fold_case
        self.min_count = min_count
        self.stop = stop
        self.emissions = emissions
        self.lexical = lexical
        self.constraints = constraints
        self.labels = labels
        self.n_threads = n_threads

    # ---- learning --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> HMM:
        """Count words, labels and moves of labelled sentences.

        What the counts say about each word, and about unknown words of each spelling, is worked out
        when it is first needed: to tag, or to save the model.

        Parameters
        ----------
        X : Corpus, or sequence of sentences
        y : sequence of list of str, optional
            The labels; a `Corpus` brings its own.
        sample_weight : sequence of float, optional
            How much each sentence counts.

        Returns
        -------
        self

        Raises
        ------
        SentenceError, LabelError
            If the data are wrong; the message names the sentence.
        """
        began = time.perf_counter()
        self._check_parameters()
        read = read_labelled(X, y, sample_weight, labels=self.labels, max_suffix=self.max_suffix)
        Y = len(read.labels)
        if (Y + 1) ** (self.order + 1) > _MOST_MOVES:
            raise ParameterError(
                f"order={self.order} over {Y} labels has {(Y + 1) ** (self.order + 1):,} moves, "
                f"more than {_MOST_MOVES:,}. Choose a lower order."
            )
        ngrams = count_ngrams(read.gold, read.offsets, read.weight, Y, self.order)
        with np.errstate(divide="ignore"):
            start, moves, stop = self._moves_of(ngrams)
            self.log_start_ = np.log(start)
            self.log_moves_ = tuple(np.log(level) for level in moves)
            self.log_stop_ = None if stop is None else np.log(stop)
        self.emits_words_, self.features_ = True, None
        if self.emissions is not None:
            templates = find_templates(self.emissions)
            self.emits_words_ = "word" in templates
            others = [template for template in templates if template != "word"]
            if others:
                self.features_ = count_features(
                    others,
                    read.sentences,
                    read.labels,
                    read.gold,
                    read.token_weight,
                    self.emission_smoothing,
                )
        everything = np.ones((1, Y), dtype=np.bool_)
        gold = Gold(read.labels, read.gold, everything)
        scheme = constraints.choose_scheme(
            self.constraints, gold, read.rows, read.offsets, stacklevel=2
        )
        self.constraints_ = constraints.resolve(
            self.constraints, scheme, gold, read.sentences, read.rows
        )
        read.forget_sentences()
        self.pairs_ = None
        if self.lexical is None:
            # With the parameters of now, whatever they are when the table is needed.
            asked = copy(self)
            asked.__dict__.pop("_table", None)
            self._table = lambda: asked._tabulate(asked._count(read))
        else:
            counted = self._count(read)
            self.table_ = self._tabulate(counted)
            after = self._smoothed(ngrams.sum(axis=tuple(range(self.order - 1))))  # [Y + 1, ·]
            self.pairs_ = self._pairs(read, counted, after[:Y])
        self.labels_ = np.array(read.labels, dtype=object)
        self.training_ = {
            "sentences": len(read.offsets) - 1,
            "tokens": len(read.gold),
            "digest": read.digest,
            "seconds": round(time.perf_counter() - began, 3),
        }
        return self

    @property
    def table_(self) -> WordTable:
        """Log Pr(w | y) of words and of spellings; worked out when it is first asked for."""
        if "_table" not in self.__dict__:
            self._check_fitted("table_")
        table = self._table
        if not isinstance(table, WordTable):
            table = self._table = table()  # two threads that ask at once make the same
        return table

    @table_.setter
    def table_(self, table: WordTable) -> None:
        self._table = table

    def _count(self, read: LabelledWords) -> WordCounts:
        return count_words(read, min_count=self.min_count, rare=self.rare, fold_case=self.fold_case)

    def _tabulate(self, counted: WordCounts) -> WordTable:
        return counted.table(self._emissions(counted))

    def _check_parameters(self) -> None:
        constraints.check(self.constraints)
        check_choice("smoothing", self.smoothing, tuple(_SMOOTHINGS))
        for name, least in (("order", 1), ("rare", 1), ("min_count", 1), ("max_suffix", 0)):
            check_at_least(name, getattr(self, name), least, whole=True)
        for name in ("k", "emission_smoothing"):
            check_at_least(name, getattr(self, name), 0)
        for name in ("n_threads", "lexical"):
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), 1, whole=True)
        if self.unknown is not None:
            check_at_least("unknown", self.unknown, 0)
            if self.unknown >= 1:
                raise ParameterError(f"unknown must be below 1; got {self.unknown!r}.")
        if self.emissions is not None:
            others = set(find_templates(self.emissions)) - {"word"}
            if others and self.emission_smoothing == 0:
                raise ParameterError(
                    "emissions need emission_smoothing above 0, for values that were never seen; "
                    "got 0."
                )
            if self.lexical is not None and "word" not in find_templates(self.emissions):
                raise ParameterError(
                    "lexical= is about words, and emissions leave the word out. Add 'word' to them."
                )
        if self.order > 1 and self.smoothing == "add-k" and self.k == 0:
            raise ParameterError(
                f"order={self.order} needs smoothing, since most histories of labels are never "
                "seen; got k=0. Choose k above 0, or another smoothing."
            )

    def _emissions(self, counted: WordCounts) -> npt.NDArray[np.float32]:
        """Estimate log Pr(w | y) of each word, and of an unknown word of each spelling [A, Y]."""
        n = counted.word_counts.sum()
        u = self.unknown
        if u is None:
            u = (counted.n_once + counted.n_left_out) / (n + counted.n_left_out)
            u = min(max(u, 1 / (n + 1)), 0.5)
        # Tables have a million cells and more: they are worked on in place.
        by_spelling = counted.spelling_probs(_SPELLING_STRENGTH)  # [S, Y]
        by_likeness = counted.twin_probs(by_spelling, _CASE_STRENGTH)  # [V, Y]
        by_case = counted.variant_probs(by_spelling, _CASE_STRENGTH)  # [M, Y]
        k, totals = self.emission_smoothing, counted.totals
        of_words = by_likeness  # [V, Y] Pr(y | w)
        of_words *= k
        of_words += counted.word_counts
        of_words /= np.maximum(totals + k, _TINY)
        # Pr(w, y); for spellings and variants, which were never seen, without that of their letters
        of_words *= (1 - u) * totals / n
        by_spelling *= u
        by_case *= u
        of_label = np.maximum(of_words.sum(axis=0) + by_spelling[0], _TINY)  # [Y] Pr(y)
        with np.errstate(divide="ignore"):
            for joint in (by_spelling, of_words, by_case):
                joint /= of_label
                np.log(joint, out=joint)
        return counted.scores(by_spelling, of_words, by_case)

    def _moves_of(self, ngrams: Float64) -> tuple[Float64, list[Float64], Float64 | None]:
        """Estimate Pr(y_1), Pr(y_t | history) for each length of history, and Pr(■ | y_T)."""
        Y, k = len(ngrams) - 1, self.order
        probs = self._smoothed(ngrams)  # [history …, what follows]
        stop: Float64 | None = None
        if self.stop:
            one = self._smoothed(ngrams.sum(axis=tuple(range(k - 1)))) if k > 1 else probs
            stop = one[:Y, Y]
            goes_on = np.append(1 - stop, 1.0)[:, None]  # [Y + 1, 1]
            on = probs[..., :Y]
            total = on.sum(axis=-1, keepdims=True)
            probs = np.divide(on, total, out=np.zeros_like(on), where=total > 0) * goes_on
        start = probs[(Y,) * k]
        moves = [probs[(Y,) * (k - j)][(slice(Y),) * j] for j in range(1, k + 1)]
        return start, moves, stop

    def _smoothed(self, ngrams: Float64) -> Float64:
        """Estimate what follows each history [history …, labels and, with stop, the end]."""
        Y = len(ngrams) - 1
        if not self.stop:
            return _SMOOTHINGS[self.smoothing](ngrams[..., :Y], self.k)
        probs = _SMOOTHINGS[self.smoothing](ngrams, self.k)
        begin = probs[(Y,) * (ngrams.ndim - 1)]
        begin[Y] = 0  # a sentence has a word
        begin /= begin.sum()
        return probs

    def _pairs(self, read: LabelledWords, counted: WordCounts, after: Float64) -> PairTable:
        """Estimate what frequent words say about the label after theirs.

        after : ndarray, shape (Y, Y + 1) or (Y, Y)
            Pr(y⁺ | y), with ■ or without.
        """
        assert self.lexical is not None
        Y, outcomes = after.shape
        often = counted.word_counts.sum(axis=1) >= self.lexical  # [V]
        followed = np.append(read.gold[1:], Y)  # [T] the label after each token
        followed[read.offsets[1:] - 1] = Y
        weight = read.token_weight
        if weight is None:
            weight = np.ones(len(followed))
        used = (
            (counted.word_of >= 0) & often[counted.word_of] & (followed < outcomes) & (weight > 0)
        )
        keys, row = np.unique(
            counted.word_of[used] * np.int64(Y) + read.gold[used], return_inverse=True
        )
        word, label = keys // Y, keys % Y  # [R] seen together
        counts = np.zeros((len(keys), outcomes))
        np.add.at(counts, (row, followed[used]), weight[used])
        leaning = _AFTER_STRENGTH * (counts > 0).sum(axis=1, keepdims=True)
        given = (counts + leaning * after[label]) / (counts.sum(axis=1, keepdims=True) + leaning)
        # Pr(y⁺ | w, y) / Pr(y⁺ | y); what is impossible is left to the moves.
        ratio = np.divide(given, after[label], out=np.ones_like(given), where=after[label] > 0)
        # Pr(w | y, y⁺) sums to one over the words: known ones here, all others with a ratio of 1.
        word_probs = np.exp(self.table_.rows[counted.words[word], label].astype(np.float64))
        total = np.ones((Y, outcomes))
        np.add.at(total, label, word_probs[:, None] * (ratio - 1))
        scores = np.log(np.concatenate([1 / total, ratio / total[label]]))  # [Y + R, ·]
        if outcomes == Y:  # no end, and nothing to say about it
            scores = np.column_stack([scores, np.zeros(len(scores))])
        words = np.unique(word)
        rows = np.tile(np.arange(Y, dtype=np.int32), (len(words), 1))
        rows[np.searchsorted(words, word), label] = Y + np.arange(len(keys))
        by_row = np.argsort(counted.words[words])
        return PairTable(
            counted.words[words][by_row].astype(np.int32), rows[by_row], scores.astype(np.float32)
        )

    # ---- given, not learnt -----------------------------------------------------------------

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
    ) -> HMM:
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
            Pr(■ | y): together with the moves from y it sums to one.

        Returns
        -------
        HMM

        Raises
        ------
        ShapeError, ParameterError
            If the arrays do not fit, or are no probabilities that sum to one.

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
        Y, V = len(labels), len(words)
        if len(set(words)) != V or not all(type(w) is str for w in words):
            raise ParameterError(f"words must be different strings; got {list(words)[:10]!r}.")
        if len(set(labels)) != Y or not all(type(y) is str for y in labels) or not Y:
            raise LabelError(f"labels must be different strings; got {list(labels)!r}.")
        tables = {
            "start": _probs(start, "start", (Y,)),
            "trans": _probs(trans, "trans", (Y, Y)),
            "emit": _probs(emit, "emit", (Y, V)),
        }
        ends = np.zeros(Y) if stop is None else _probs(stop, "stop", (Y,))
        _check_sums("start", tables["start"].sum(keepdims=True), "")
        _check_sums("emit", tables["emit"].sum(axis=1), "of each label")
        _check_sums(
            "trans" if stop is None else "trans and stop",
            tables["trans"].sum(axis=1) + ends,
            "of each label",
        )
        extractor = chain(0)
        index = _native.Index()
        encoded = extractor.encode([list(words)], index, grow=True)
        rows = np.full((max(index.size, 1), Y), -np.inf)  # the bias, that is other words, is none
        ids = encoded.ids[encoded.indptr[1:] - 1]
        with np.errstate(divide="ignore"):
            rows[ids] = np.log(tables["emit"].T)
            model = cls(stop=stop is not None, unknown=0.0, emission_smoothing=0.0, max_suffix=0)
            model.log_start_ = np.log(tables["start"])
            model.log_moves_ = (np.log(tables["trans"]),)
            model.log_stop_ = None if stop is None else np.log(ends)
        model.emits_words_, model.features_, model.pairs_ = True, None, None
        names = Names(*index.names())
        model.table_ = WordTable(
            tuple(labels), extractor, index, names, ids, np.zeros(len(rows), dtype=np.int32), rows
        )
        model.labels_ = np.array(labels, dtype=object)
        model.constraints_ = Constraints(tuple(labels))
        model.training_ = {}
        return model

    # ---- predicting ------------------------------------------------------------------------

    def score_sentences(self, sentences: Sequence[Any], n_threads: int | None) -> Trellis:
        """Score sentences; see `Tagger.score_sentences`."""
        batch = self._scored_with(self._moves.bound, sentences, n_threads)
        return self.constraints_.restrict(batch, sentences)

    def _scored_with(
        self, moves: Trellis, sentences: Sequence[Any], n_threads: int | None
    ) -> Trellis:
        offsets, places = self.table_.locate(sentences)
        emit, edge = np.take(self.table_.rows, places, axis=0), None
        if not self.emits_words_:
            emit[:] = 0
        if self.features_ is not None:
            emit += self.features_.score(sentences, n_threads or self.n_threads or ALL_THREADS).emit
        if self.pairs_ is not None:
            edge = self.pairs_.edges(places)
            last = offsets[1:][np.diff(offsets) > 0] - 1
            emit[last] += self.pairs_.ends(places[last])
        batch = moves.with_scores(emit, edge=edge, offsets=offsets)
        batch.n_threads = n_threads or self.n_threads
        return batch

    @property
    def scheme_(self) -> str | None:
        """The scheme that constrains predictions."""
        return self.constraints_.scheme

    def score_parts(self, sentence: Any, trellis: Trellis) -> Parts:
        """Name the terms of the scores, for `explain`."""
        words, table, Y = super().score_parts(sentence, trellis), self.table_, len(self.labels_)
        others = None if self.features_ is None else self.features_.parts(sentence)
        _, places = table.locate([sentence])
        after = None if self.pairs_ is None else self.pairs_.scores[self.pairs_.rows_of(places)]

        def of_move(t: int, y_prev: int | None, y: int) -> Iterator[Part]:
            if self.emits_words_:
                yield from words(t, y_prev, y)
            if others is not None:
                yield from others(t, y_prev, y)
            if after is not None and y_prev is not None:
                name = f"after {table.names[places[t - 1]]}"
                yield Part(name, float(after[t - 1, y_prev, y]), 2)
            if after is not None and t + 1 == len(places):
                yield Part(f"end after {table.names[places[t]]}", float(after[t, y, Y]))

        return of_move

    def _scores_per_token(self) -> int:
        Y = len(self.labels_)
        return Y if self.pairs_ is None else Y * Y

    @property
    def _moves(self) -> _Moves:
        """Trellises of no tokens, whose moves all batches share; made when first needed."""
        made: _Moves | None = self.__dict__.get("_made_moves")
        if made is None or made.table is not self.table_ or made.found is not self.constraints_:
            states, weights = None, None
            names = self._label_list
            order = len(self.log_moves_)
            if order > 1:
                # A move of n labels adds what it has beyond the move of n-1: inf - inf is nothing.
                states = StateSpace.order(names, order)
                weights = states.pack(
                    {
                        f"ngram{j + 2}": np.where(shorter > -np.inf, longer - shorter, 0)
                        for j, (shorter, longer) in enumerate(
                            zip(self.log_moves_, self.log_moves_[1:], strict=False), start=1
                        )
                    }
                )
            stop = np.zeros(len(names)) if self.log_stop_ is None else self.log_stop_
            moves = (self.log_moves_[0], self.log_start_, stop, states)
            free, bound = (
                Trellis(
                    np.empty((0, len(names)), dtype=self.table_.rows.dtype),
                    trans,
                    start,
                    stop,
                    states=space,
                    weights=weights,
                    labels=names,
                )
                for trans, start, stop, space in (moves, self.constraints_.forbid(*moves))
            )
            made = _Moves(self.table_, self.constraints_, free, bound)
            self._made_moves = made
        return made

    # ---- the joint distribution ------------------------------------------------------------

    @property
    def transitions_(self) -> Float64:
        """Log Pr(y | y_prev) [Y, Y], in the order of ``labels_``; at order k, after the first."""
        self._check_fitted("transitions_")
        return self.log_moves_[0]

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """The same by name: (from, to) → log Pr(to | from), without what is impossible."""
        names = self._label_list
        from_, to = np.nonzero(self.transitions_ > -np.inf)
        weights = self.transitions_[from_, to].tolist()
        return {(names[i], names[j]): w for i, j, w in zip(from_, to, weights, strict=True)}

    def log_joint(self, x: Sequence[str], y: Sequence[str]) -> float:
        """Compute log Pr(x, y), of a sentence together with its labels.

        Parameters
        ----------
        x : sentence
        y : sequence of str
            Its labels.

        Returns
        -------
        float
            −inf if it is impossible. A word that is not known counts as some unknown word of its
            spelling.

        Examples
        --------
        >>> import math
        >>> import tagloom as tl
        >>> hmm = tl.HMM.from_probs(
        ...     ["N", "V"], ["can", "fish"],
        ...     start=[0.5, 0.5], trans=[[0.2, 0.8], [0.6, 0.4]], emit=[[0.1, 0.9], [0.7, 0.3]],
        ... )
        >>> round(math.exp(hmm.log_joint(["can", "fish"], ["V", "N"])), 9)  # 0.5 · 0.7 · 0.6 · 0.9
        0.189
        """
        self._check_fitted("log_joint")
        trellis = self._scored_with(self._moves.free, as_sentences([x]), None)
        if len(y) != trellis.offsets[-1]:
            raise LabelError(f"x has {trellis.offsets[-1]} tokens but y {len(y)} labels.")
        return float(trellis[0].path_score(list(y)))

    def generate(
        self,
        random_state: RandomState = None,
        *,
        length: int | None = None,
        unknown: str = "<unknown>",
    ) -> Sentence:
        """Draw a sentence with its labels from the model.

        Label after label is drawn given those before it, until ■ is drawn; then a word for each.

        Parameters
        ----------
        random_state : int, Generator or None
            A generator goes on from call to call.
        length : int, optional
            How many words to draw; needed by a model without stop, and never stopping before with
            one that has it.
        unknown : str
            What to write for a word that is not known.

        Returns
        -------
        Sentence

        Raises
        ------
        ParameterError
            If the model does not know where to stop.

        Examples
        --------
        >>> import tagloom as tl
        >>> hmm = tl.HMM.from_probs(
        ...     ["N", "V"], ["can", "fish"],
        ...     start=[0.5, 0.5], trans=[[0.2, 0.8], [0.6, 0.4]], emit=[[0.1, 0.9], [0.7, 0.3]],
        ... )
        >>> sentence = hmm.generate(random_state=0, length=4)
        >>> sentence.tokens, sentence.labels
        (['fish', 'fish', 'fish', 'fish'], ['V', 'N', 'N', 'N'])
        """
        self._check_fitted("generate")
        self._check_words_alone("generate")
        if length is None and self.log_stop_ is None:
            raise ParameterError("a model without stop needs length=, how many words to draw.")
        if length is not None:
            check_at_least("length", length, 0, whole=True)
        rng = np.random.default_rng(random_state)
        Y, k = len(self.labels_), len(self.log_moves_)
        ends = np.zeros(Y) if self.log_stop_ is None else np.exp(self.log_stop_)
        path: list[int] = []
        while length is None or len(path) < length:
            if path and length is None and rng.random() < ends[path[-1]]:
                break
            before = tuple(path[-k:])
            log_probs = self.log_moves_[len(before) - 1][before] if before else self.log_start_
            probs = np.exp(log_probs)
            path.append(int(rng.choice(Y, p=probs / probs.sum())))
        emit = self._word_probs  # [Y, V + 1]
        words = []
        for y, after in zip(path, [*path[1:], Y], strict=True):
            probs = emit[y]
            if self.pairs_ is not None:
                rows = self.pairs_.rows_of(np.append(self.table_.words, np.int32(0)))[:, y]
                probs = probs * np.exp(self.pairs_.scores[rows, after])
            words.append(int(rng.choice(emit.shape[1], p=probs / probs.sum())))
        known = [*self.words_, unknown]
        return Sentence([known[w] for w in words], labels=[self.labels_[y] for y in path])

    @property
    def _word_probs(self) -> Float64:
        """Pr(w | y) of the known words and, last, of all others [Y, V + 1]."""
        rows = [*self.table_.words, 0]
        probs = np.exp(self.table_.rows[rows].astype(np.float64)).T
        return np.asarray(probs / probs.sum(axis=1, keepdims=True))

    # ---- the same model as weights ---------------------------------------------------------

    def as_vector(self) -> Float64:
        """Lay out the model as a weight vector.

        log Pr(x, y) is its inner product with `feature_vector`, which counts what happens in
        (x, y). First come the Y starts, then the Y·Y moves, all those from the first label first,
        then the Y·V words of ``words_``, all those of the first label first, and last the Y stops,
        if there are any.

        Returns
        -------
        ndarray of float64
            −inf for what is impossible.

        Raises
        ------
        ParameterError
            If the order is above 1.
        """
        self._check_fitted("as_vector")
        self._check_first_order("as_vector")
        emit = self.table_.rows[self.table_.words].astype(np.float64).T  # [Y, V]
        parts = [self.log_start_, self.log_moves_[0].ravel(), emit.ravel()]
        return np.concatenate(parts if self.log_stop_ is None else [*parts, self.log_stop_])

    def feature_vector(self, x: Sequence[str], y: Sequence[str]) -> Float64:
        """Count what happens in a labelled sentence, in the order of `as_vector`.

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
        ParameterError
            If a word is not known, or the order is above 1.
        """
        self._check_fitted("feature_vector")
        self._check_first_order("feature_vector")
        place = {label: i for i, label in enumerate(self._label_list)}
        number = {word: i for i, word in enumerate(self.words_)}
        missing = [w for w in x if w not in number] + [label for label in y if label not in place]
        if missing or len(x) != len(y) or len(x) == 0:
            raise ParameterError(
                f"expected as many labels as words, all of them known; got {len(x)} words and "
                f"{len(y)} labels" + (f", and {missing[0]!r} is not known." if missing else ".")
            )
        Y, V = len(place), len(number)
        path = np.array([place[label] for label in y])
        start, moves, words = np.zeros(Y), np.zeros((Y, Y)), np.zeros((Y, V))
        start[path[0]] = 1
        np.add.at(moves, (path[:-1], path[1:]), 1)
        np.add.at(words, (path, np.array([number[w] for w in x])), 1)
        parts = [start, moves.ravel(), words.ravel()]
        if self.log_stop_ is None:
            return np.concatenate(parts)
        stop = np.zeros(Y)
        stop[path[-1]] = 1
        return np.concatenate([*parts, stop])

    def to_linear(self) -> CRF:
        """Make a linear tagger that scores every labelling as this model does.

        Its weights are logarithms of probabilities: of moves, of words, and of spellings, where a
        longer ending has what it adds to the shorter one. Training can go on from there, see
        ``warm_start`` of `CRF`. Where the model rules unknown words out, the tagger does not: all
        labels are equally good for them.

        Returns
        -------
        CRF

        Raises
        ------
        ParameterError
            If the order is above 1.

        Examples
        --------
        >>> import tagloom as tl
        >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
        >>> hmm = tl.HMM().fit(X, [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]])
        >>> crf = hmm.to_linear()
        >>> crf.predict([["they", "swim"]]) == hmm.predict([["they", "swim"]])
        True
        """
        self._check_fitted("to_linear")
        self._check_first_order("to_linear")
        table = self.table_
        A, Y = table.rows.shape
        rows = table.rows.astype(np.float64)
        # Where no word is unknown, a spelling tells nothing: −inf would hold for every word.
        is_spelling = np.ones(A, dtype=bool)
        is_spelling[table.words] = False
        rows[is_spelling[:, None] & np.isneginf(rows)] = 0
        weights = rows - rows[table.parent]
        weights[0] = rows[0]
        scores = LinearScores(
            labels=table.labels,
            extractor=table.extractor,
            index=table.index,
            rows=Rows(
                np.arange(A + 1, dtype=np.int64) * Y,
                np.tile(np.arange(Y, dtype=np.uint16), A),
                weights.astype(np.float32).ravel(),
            ),
            names=table.names,
            trans=self.log_moves_[0].copy(),
            start=self.log_start_.copy(),
            stop=np.zeros(Y) if self.log_stop_ is None else self.log_stop_.copy(),
        )
        return CRF.from_scores(
            scores,
            self.constraints_,
            training={**self.training_, "words": len(table.words)},
            features=table.extractor,
            labels=self._label_list,
        )

    @classmethod
    def from_linear(cls, linear: LinearTagger) -> HMM:
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
            If it has other features, or its weights are no such logarithms.

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
        scores = linear.scores_
        templates = getattr(scores.extractor, "templates", [])
        max_suffix = max(len(templates) - 3, 0)
        extractor = chain(max_suffix)
        if scores.extractor.to_dict() != extractor.to_dict() or scores.edge_rows is not None:
            raise ParameterError(
                f"the features {templates} are not those of a hidden Markov model: bias, word, and "
                "the shape and endings between them."
            )
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
        ids = ids[: linear.training_.get("words", len(ids))]  # then come variants in case
        emit = np.exp(rows[ids]).sum(axis=0)  # [Y]
        stop = np.exp(scores.stop) if scores.stop.any() else np.zeros(Y)
        moves = np.exp(scores.trans).sum(axis=1) + stop
        for name, sums in (("start", np.exp(scores.start).sum()), ("moves", moves)):
            if not np.allclose(sums, 1, rtol=1e-4):
                raise ParameterError(
                    f"the weights of {name} are no logarithms of probabilities: exp of them sums "
                    f"to {np.ravel(sums)[0]:.4g}, expected 1. Only what to_linear() made goes back."
                )
        if (emit > 1 + 1e-4).any():
            raise ParameterError(
                "the weights of words are no logarithms of probabilities: exp of them sums to "
                f"{emit.max():.4g} for a label, expected at most 1."
            )
        kept = np.zeros(A, dtype=bool)
        kept[encoded.ids] = True
        number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        if np.allclose(emit, 1, rtol=1e-4):  # no room for unknown words
            is_spelling = kept.copy()
            is_spelling[ids] = False
            rows[is_spelling] = -np.inf
        has_stop = bool(scores.stop.any())
        model = cls(stop=has_stop, max_suffix=max_suffix, labels=linear.labels)
        model.table_ = WordTable(
            scores.labels,
            extractor,
            scores.index.keep(kept),
            scores.names.keep(kept),
            number[ids],
            number[parent[kept]],
            rows[kept].astype(np.float32),
        )
        model.log_start_ = scores.start.copy()
        model.log_moves_ = (scores.trans.copy(),)
        model.log_stop_ = scores.stop.copy() if has_stop else None
        model.emits_words_, model.features_, model.pairs_ = True, None, None
        model.labels_ = np.array(scores.labels, dtype=object)
        model.constraints_ = linear.constraints_
        model.training_ = {k: v for k, v in linear.training_.items() if k != "words"}
        return model

    def _check_first_order(self, method: str) -> None:
        order = len(self.log_moves_)
        if order != 1:
            raise ParameterError(f"{method} is for models of order 1; this one has {order}.")
        self._check_words_alone(method)
        if self.pairs_ is not None:
            raise ParameterError(
                f"{method} is for models whose words depend on their label alone; this one has "
                f"lexical={self.lexical}."
            )

    def _check_words_alone(self, method: str) -> None:
        if self.features_ is not None or not self.emits_words_:
            raise ParameterError(
                f"{method} is for models that emit words and nothing else; this one has "
                f"emissions={self.emissions!r}."
            )

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return what was learnt, as a header of plain data and arrays."""
        header: dict[str, Any] = {}
        moves = {f"moves{j}_weights": level for j, level in enumerate(self.log_moves_, start=1)}
        file = self.table_.to_file() | File({}, moves, frozenset(moves))
        file |= File({}, {"start": self.log_start_})
        if self.log_stop_ is not None:
            file |= File({}, {"stop": self.log_stop_})
        if self.pairs_ is not None:
            file |= self.pairs_.to_file()
            header["lexical"] = True
        if self.emissions is not None:
            header["emissions"] = {"words": self.emits_words_}
        if self.features_ is not None:
            features = self.features_.to_file()
            header["emissions"] |= features.header
            file |= File({}, features.arrays, features.unverified).prefixed("features_")
        params = self.get_params()
        header["constraints"] = self.constraints_.to_dict()
        if not (params["constraints"] is None or isinstance(params["constraints"], str)):
            params.pop("constraints")  # they themselves are stored
        for name in ("labels", "emissions"):
            if params[name] is not None and not isinstance(params[name], str):
                params[name] = list(params[name])
        header |= {"order": len(self.log_moves_), "stop": self.log_stop_ is not None}
        return file | File({**header, "params": params, "training": self.training_})

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a model from what `to_file` returned, checking everything."""
        table = WordTable.from_file(file)
        header, arrays = file.header, file.arrays
        found = Constraints.from_dict(table.labels, header["constraints"])
        model = cls(**{"constraints": found.spec} | header["params"])
        model._check_parameters()
        model.constraints_ = found
        Y = len(table.labels)
        model.table_ = table
        model.log_start_ = log_scores(arrays, "start", (Y,))
        order = header["order"]
        if type(order) is not int or not 1 <= order <= 32 or Y ** (order + 1) > _MOST_MOVES:
            raise ModelFileError(f"the order is {order!r}, with {Y} labels")
        model.log_moves_ = tuple(
            log_scores(arrays, f"moves{j}_weights", (Y,) * (j + 1)) for j in range(1, order + 1)
        )
        model.log_stop_ = log_scores(arrays, "stop", (Y,)) if header["stop"] else None
        model.emits_words_, model.features_, model.pairs_ = True, None, None
        emissions = header.get("emissions")
        if emissions is not None:
            model.emits_words_ = bool(emissions["words"])
            if "features" in emissions:
                model.features_ = LinearScores.from_file(file.part("features_", emissions), None)
                if model.features_.labels != table.labels:
                    raise ModelFileError("the features are over other labels")
        if header.get("lexical"):
            model.pairs_ = PairTable.from_file(arrays, table.index.size, Y)
        model.labels_ = np.array(table.labels, dtype=object)
        model.training_ = dict(header["training"])
        return model


class _Moves(NamedTuple):
    """The moves of a model, and what they were made of."""

    table: WordTable
    found: Constraints
    free: Trellis  # of the joint distribution
    bound: Trellis  # under the constraints


# ---- smoothing ---------------------------------------------------------------------------------
# Each takes counts [history …, outcome] and the k of add-k, and gives probabilities of outcomes.


def _relative(counts: Float64, otherwise: Float64 | float) -> Float64:
    """Divide by the total of each history; what was never seen gets something else."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1), otherwise)


def _add_k(counts: Float64, k: float) -> Float64:
    return _relative(counts + k, 1 / counts.shape[-1])


def _witten_bell(counts: Float64, k: float) -> Float64:
    """Mix in as much of the shorter history as different outcomes were seen.

    Pr(y | h) = (count(h, y) + n(h) · Pr(y | h')) / (count(h) + n(h))
    """
    shorter: Float64 | float = 1 / counts.shape[-1]
    if counts.ndim > 1:
        shorter = _witten_bell(counts.sum(axis=0), k)
    different = (counts > 0).sum(axis=-1, keepdims=True)
    return _relative(counts + different * shorter, shorter)


def _interpolate(counts: Float64, k: float) -> Float64:
    """Mix all lengths of history in one proportion, found by leaving out each n-gram once.

    Pr(y | h) = Σ_j λ_j · count(h_j, y) / count(h_j), where h_j are the last j labels of h
    """
    levels = [counts]
    while levels[0].ndim > 1:
        levels.insert(0, levels[0].sum(axis=0))  # from no history to the whole one
    outcomes = counts.shape[-1]
    foretold = [np.full(counts.shape, 1 / outcomes)]
    for level in levels:
        total = level.sum(axis=-1, keepdims=True)
        left_out = np.where(total > 1, np.maximum(level - 1, 0) / np.maximum(total - 1, 1), 0)
        foretold.append(np.broadcast_to(left_out, counts.shape))
    best = np.argmax(foretold, axis=0)  # the shorter history where two do equally well
    lambdas = np.bincount(best.ravel(), counts.ravel(), minlength=len(foretold)) + 1
    probs: Float64 = np.full(outcomes, 1 / outcomes)
    for j, level in enumerate(levels, start=1):
        share = lambdas[j] / lambdas[: j + 1].sum()
        probs = share * _relative(level, probs) + (1 - share) * probs
    return probs


_SMOOTHINGS = {"witten-bell": _witten_bell, "interpolation": _interpolate, "add-k": _add_k}


def _probs(values: npt.ArrayLike, name: str, shape: tuple[int, ...]) -> Float64:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ShapeError(f"{name} must have shape {shape}; got {array.shape}.")
    if not ((array >= 0) & (array <= 1)).all():
        raise ParameterError(f"{name} must be probabilities, between 0 and 1; got {array}.")
    return array


def _check_sums(name: str, sums: Float64, of: str) -> None:
    if not np.allclose(sums, 1, rtol=1e-6):
        found = ", ".join(f"{x:.6g}" for x in sums)
        raise ParameterError(f"{name} must sum to 1{of and ' ' + of}; got {found}.")
