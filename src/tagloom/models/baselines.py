"""The baseline that other taggers must beat: each word gets its most frequent label."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from tagloom import _native
from tagloom.errors import LabelError
from tagloom.models.fitted import Fitted
from tagloom.models.labelled import read_labelled
from tagloom.models.shared import LabelParameters
from tagloom.models.tables import TableTagger
from tagloom.parameters import attribute, count, flag
from tagloom.records import field
from tagloom.scores.decoders import Decoder
from tagloom.scores.parts import Parts
from tagloom.scores.sparse_tables import LookupDecoder, SparseWordTable, count_sparsely
from tagloom.scores.tables import WordTable, backoff_templates
from tagloom.scores.word_counts import WordStats, WordTokens, count_words
from tagloom.storage import File
from tagloom.trellis import Trellis

# Pseudo-count of the label distribution of a word's spelling: it only breaks ties.
_TIE = 1e-3

# With more labels, the transition matrix of a decoder would be larger than the table of words.
_MOST_LABELS = 1000

# Words times labels of a table with a row for each word, 256 MB; larger ones hold counts only.
_MOST_DENSE = 1 << 26

# A trellis has a matrix of pairs of labels, here 1.6 GB.
_MOST_IN_TRELLIS = 20_000


class MostFrequentTag(LabelParameters, TableTagger):
    r"""The lookup baseline: a word gets its most frequent label, whatever its context.

    An unknown word is looked up with or without a capital (``fishing``, ``Fishing``). If that is
    unknown, too, it gets the most frequent label of words that occur once, among those with the
    same shape and the longest common ending, for endings of up to ``max_suffix`` letters. Ties
    between labels are broken by their frequency in such words.

    With very many words and labels, only the counts that are not 0 are stored: 100,000 words and
    labels take some megabytes.

    The scores of its trellis are logarithms of relative frequencies, log Pr(y | word), and all
    transitions are free: marginals, n-best lists and samples are those of independent tokens.

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

    max_suffix: int = count(
        default=3,
        help="Length of the longest ending that decides the label of unknown words.",
        details="With 0 they all get the same label.",
    )
    fold_case: bool = flag(
        default=True,
        help="Whether unknown words are scored like known ones that differ in capitals only.",
    )
    min_count: int = count(
        default=1, least=1, help="Words that occur less often are treated as unknown."
    )

    decodes_natively = True

    _fitted: _FittedTable = attribute(init=False)

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Count the labels of each word.

        Parameters
        ----------
        X : Corpus, or sequence of sentences
        y : sequence of list of str, optional
            The labels; a `Corpus` contains them.
        sample_weight : sequence of float, optional
            The weight of each sentence.

        Returns
        -------
        self

        Raises
        ------
        SentenceError, LabelError
            If the data are wrong; the message names the sentence.
        """
        began = time.perf_counter()
        self.check_parameters()
        read = read_labelled(X, y, sample_weight, self.labels)
        data = WordTokens.read(backoff_templates(self.max_suffix), read.sentences)
        Y = len(read.labels)
        if len(data.hashes) * Y > _MOST_DENSE:
            sparse = count_sparsely(
                data,
                read.gold,
                read.token_weight,
                read.labels,
                min_count=self.min_count,
                fold_case=self.fold_case,
                strength=_TIE,
            )
            return self._finish(sparse, read.record(data, began))
        counted = count_words(
            WordStats.count(data, read.gold, read.token_weight, Y),
            read.labels,
            min_count=self.min_count,
            rare=max(self.min_count - 1, 1),
            fold_case=self.fold_case,
        )
        by_spelling = counted.spelling_probs(_TIE)  # [S, Y] Pr(y | spelling)
        by_case = counted.variant_probs(by_spelling, _TIE)  # [M, Y]
        of_words = counted.word_counts + _TIE * by_spelling[counted.spelling]
        of_words /= of_words.sum(axis=1, keepdims=True)
        rows = counted.scores(np.log(by_spelling), np.log(of_words), np.log(by_case))
        return self._finish(counted.table(rows), read.record(data, began))

    def _finish(self, table: WordTable | SparseWordTable, training: dict[str, Any]) -> Self:
        labels = Fitted.label_array(table.labels)
        self._fitted = _FittedTable(labels, table=table, training=training)
        return self

    def score_sentences(self, sentences: Sequence[Any], n_threads: int | None) -> Trellis:
        """Score sentences; see `Tagger.score_sentences`."""
        if len(self._label_list) > _MOST_IN_TRELLIS:
            raise LabelError(
                expected=f"at most {_MOST_IN_TRELLIS:,} labels in a trellis",
                found=f"{len(self._label_list):,}",
                hint="predict and predict_with_probs work with any number.",
            )
        offsets, emit = self.table_.score(sentences)
        return Trellis(
            emit, offsets=offsets, labels=self._label_list, n_threads=n_threads or self.n_threads
        )

    def score_parts(self, sentence: Any, trellis: Trellis) -> Parts:
        """Name the attribute of each token, for `explain`."""
        return self.table_.parts(sentence)

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the fitted state as a header of plain data and arrays."""
        params = self.get_params()
        if params["labels"] is not None:
            params["labels"] = list(params["labels"])
        return self.table_.to_file() | File({"params": params, "training": self.training_})

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a tagger from the result of `to_file`; everything is checked."""
        is_sparse = "label_keys" in file.arrays
        table = (SparseWordTable if is_sparse else WordTable).from_file(file)
        header = file.header
        model = cls(**header["params"])
        model.check_parameters()
        return model._finish(table, dict(header["training"]))


class _FittedTable(Fitted):
    """The state of a fitted baseline."""

    table: WordTable | SparseWordTable = field(kw_only=True)
    training: dict[str, Any] = field(kw_only=True)

    @cached_property
    def decoder(self) -> Decoder | None:
        """The decoder of ordinary sentences; transitions are free."""
        if isinstance(self.table, SparseWordTable):
            return LookupDecoder(self.table)
        Y = len(self.labels)
        if Y > _MOST_LABELS:
            return None
        return self.table.decoder(_native.Dense(Y, 1, None, None, None))
