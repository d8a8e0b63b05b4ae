"""The baseline that every tagger has to beat: each word gets its most frequent label."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from tagloom import _native, checks
from tagloom.models.fitted import Fitted
from tagloom.models.labelled import read_labelled
from tagloom.models.tables import TableTagger
from tagloom.scores.decoders import Decoder
from tagloom.scores.parts import Parts
from tagloom.scores.tables import WordTable, spelling_chain
from tagloom.scores.word_counts import WordStats, WordTokens, count_words
from tagloom.storage import File
from tagloom.trellis import Trellis

# Pseudo-count of the label distribution of a word's spelling: it only breaks ties.
_TIE = 1e-3

# With more labels, the matrix of transitions of a decoder would be larger than the table of words.
_MOST_LABELS = 1000


class MostFrequentTag(TableTagger):
    r"""The lookup baseline: a word gets its most frequent label, whatever its context.

    An unknown word is looked up with or without a capital (``fishing``, ``Fishing``). If that is
    unknown, too, it gets the most frequent label of words that occur once, among those with the
    same shape and the longest common ending, for endings of up to ``max_suffix`` letters. Ties
    between labels are broken by their frequency in such words.

    The scores of its trellis are logarithms of relative frequencies, log Pr(y | word), and all
    transitions are free: marginals, n-best lists and samples are those of independent tokens.

    Parameters
    ----------
    max_suffix : int
        Length of the longest ending by which unknown words are scored; with 0 they all get the
        same label.
    fold_case : bool
        Whether an unknown word is scored like a known word that differs in capitals only.
    min_count : int
        Words that occur less often are treated as unknown.
    labels : sequence of str, optional
        The labels in their order; by default those of the training data, sorted.
    n_threads : int, optional
        All cores by default; the result does not depend on it.

    Attributes
    ----------
    labels_ : ndarray of str, shape (Y,)
    training_ : dict
        The training record.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["can", "of", "fish"], ["they", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "P", "N"], ["N", "V"]]
    >>> tl.MostFrequentTag().fit(X, y).predict([["they", "fish"], ["can", "of", "fish"]])
    [['N', 'V'], ['N', 'P', 'V']]
    """

    max_suffix: int
    fold_case: bool
    min_count: int
    labels: Sequence[str] | None
    n_threads: int | None

    _fitted: _FittedTable

    decodes_natively = True

    def __init__(
        self,
        *,
        max_suffix: int = 3,
        fold_case: bool = True,
        min_count: int = 1,
        labels: Sequence[str] | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.max_suffix = max_suffix
        self.fold_case = fold_case
        self.min_count = min_count
        self.labels = labels
        self.n_threads = n_threads

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Count the labels of each word.

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
        read = read_labelled(X, y, sample_weight, self.labels)
        data = WordTokens.read(spelling_chain(self.max_suffix), read.sentences)
        counted = count_words(
            WordStats.count(data, read.gold, read.token_weight, len(read.labels)),
            read.labels,
            min_count=self.min_count,
            rare=max(self.min_count - 1, 1),
            fold_case=bool(self.fold_case),
        )
        by_spelling = counted.spelling_probs(_TIE)  # [S, Y] Pr(y | spelling)
        by_case = counted.variant_probs(by_spelling, _TIE)  # [M, Y]
        of_words = counted.word_counts + _TIE * by_spelling[counted.spelling]
        of_words /= of_words.sum(axis=1, keepdims=True)
        rows = counted.scores(np.log(by_spelling), np.log(of_words), np.log(by_case))
        return self._finish(counted.table(rows), read.record(data, began))

    def _finish(self, table: WordTable, training: dict[str, Any]) -> Self:
        labels = Fitted.label_array(table.labels)
        self._fitted = _FittedTable(labels, table=table, training=training)
        return self

    def _check_parameters(self) -> None:
        checks.count(self.max_suffix, "max_suffix")
        checks.flag(self.fold_case, "fold_case")
        checks.count(self.min_count, "min_count", least=1)
        checks.threads(self.n_threads)

    def score_sentences(self, sentences: Sequence[Any], n_threads: int | None) -> Trellis:
        """Score sentences; see `Tagger.score_sentences`."""
        offsets, emit = self.table_.score(sentences)
        return Trellis(
            emit, offsets=offsets, labels=self._label_list, n_threads=n_threads or self.n_threads
        )

    def score_parts(self, sentence: Any, trellis: Trellis) -> Parts:
        """Name the attribute of each token, for `explain`."""
        return self.table_.parts(sentence)

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return what was learnt, as a header of plain data and arrays."""
        params = self.get_params()
        if params["labels"] is not None:
            params["labels"] = list(params["labels"])
        return self.table_.to_file() | File({"params": params, "training": self.training_})

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a tagger from what `to_file` returned, checking everything."""
        table = WordTable.from_file(file)
        header = file.header
        model = cls(**header["params"])
        model._check_parameters()
        return model._finish(table, dict(header["training"]))


@dataclass(frozen=True, eq=False)
class _FittedTable(Fitted):
    """The state of a fitted baseline."""

    table: WordTable = field(kw_only=True)
    training: dict[str, Any] = field(kw_only=True)

    @cached_property
    def decoder(self) -> Decoder | None:
        """The native decoder of ordinary sentences; transitions are free."""
        Y = len(self.labels)
        if Y > _MOST_LABELS:
            return None
        return self.table.decoder(_native.Dense(Y, 1, None, None, None))
