"""Words, with a model of unknown words by shape, ending and capitals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import ModelFileError, ParameterError
from tagloom.scores.emissions.base import Emission, Float64, Gamma, check_gamma
from tagloom.scores.linear import Names, Scored
from tagloom.scores.parts import Parts
from tagloom.scores.smoothing import Smoothing
from tagloom.scores.tables import Int32, Int64, WordTable, backoff_templates
from tagloom.scores.word_counts import WordCounts, WordStats, WordTokens, count_words
from tagloom.storage import File

if TYPE_CHECKING:
    from tagloom.scores.decoders import Decoder

# Pseudo-counts of the next shorter ending in the distribution of an ending, and of the spelling in
# that of a case variant; chosen on development data (UPOS and XPOS of EWT), with little effect.
_SPELLING_STRENGTH = 2.0
_CASE_STRENGTH = 3.0
_TINY = np.finfo(float).tiny  # replaces 0 in a divisor


class Words(Emission):
    r"""Words, one per token, known or unknown.

    The labels of each word are counted and inverted by Bayes' rule,
    Pr(w | y) = Pr(w) · Pr(y | w) / Pr(y), where

        Pr(y | w) = (count(w, y) + k · Pr(y | case variants and spelling of w)) / (count(w) + k)

    with k = ``smoothing``. All unknown words together have the probability ``unknown``. Their
    labels depend on their spelling, as in TnT (Brants 2000): on the longest ending seen in rare
    words of the same shape (such as ``Xx``, ``x-x`` or ``d,d``), interpolated with shorter ones;
    and on the word in another capitalisation (``fishing``, ``Fishing``), if that is known. Their
    scores leave out the probability of the letters, which is the same for all labels.

    With ``smoothing=0, unknown=0`` the vocabulary is closed and Pr(w | y) is the relative
    frequency, the maximum likelihood estimate.

    Parameters
    ----------
    smoothing : float
        Pseudo-count of the prior Pr(y | case variants and spelling).
    unknown : float, optional
        The probability of an unknown word; by default the share of tokens whose word occurs once.
        With 0, a sentence with an unknown word is infeasible.
    max_suffix : int
        Length of the longest ending by which unknown words are scored; 0 ignores their spelling.
    rare : int
        Words that occur at most this often represent unknown words.
    fold_case : bool
        Whether an unknown word is scored like a known word that differs in capitals only.
    min_count : int
        Words that occur less often are treated as unknown.
    lexical : int, optional
        Words that occur at least this often depend on the label after their own, too; see
        `LexicalWords`.

    Attributes
    ----------
    table : WordTable
        log Pr(w | y) of the known words and of spellings, after `update`.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> words = tl.emissions.Words(smoothing=0, unknown=0, max_suffix=0).bind(["N", "V"])
    >>> X = [["they", "can", "fish"], ["they", "fish"]]
    >>> words = words.update(words.collect(X, np.array([0, 1, 1, 0, 0])))
    >>> np.exp(words.log_probs([["they", "fish"]])).round(3)
    array([[0.667, 0.   ],
           [0.333, 0.5  ]], dtype=float32)
    """

    learned: tuple[str, ...] = ("table",)

    def __init__(
        self,
        *,
        smoothing: float = 0.2,
        unknown: float | None = None,
        max_suffix: int = 5,
        rare: int = 10,
        fold_case: bool = True,
        min_count: int = 1,
        lexical: int | None = None,
    ) -> None:
        self.smoothing = smoothing
        self.unknown = unknown
        self.max_suffix = max_suffix
        self.rare = rare
        self.fold_case = fold_case
        self.min_count = min_count
        self.lexical = lexical

    table: WordTable

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        checks.number(self.smoothing, "smoothing", least=0)
        checks.count(self.max_suffix, "max_suffix")
        checks.flag(self.fold_case, "fold_case")
        for name in ("rare", "min_count"):
            checks.count(getattr(self, name), name, least=1)
        if self.lexical is not None:
            checks.count(self.lexical, "lexical", least=1)
        if self.unknown is not None and checks.number(self.unknown, "unknown", least=0) >= 1:
            raise ParameterError(
                parameter="unknown", expected="below 1", found=checks.show(self.unknown)
            )

    # ---- reading ---------------------------------------------------------------------------

    def bind(self, labels: Sequence[str], smoothing: Smoothing | None = None) -> Emission:
        """Return an emission of these labels: `LexicalWords` if ``lexical`` is set."""
        if self.lexical is None:
            return super().bind(labels, smoothing)
        from tagloom.scores.emissions.lexical import LexicalWords

        return LexicalWords(**self.get_params()).bind(labels, smoothing)

    def encode(self, X: Any) -> WordTokens:
        """Number the words of sentences."""
        if isinstance(X, WordTokens):
            return X
        return WordTokens.read(backoff_templates(self.max_suffix), X)

    # ---- scoring ---------------------------------------------------------------------------

    def log_probs(self, X: Any) -> npt.NDArray[Any]:
        """Look up log Pr(w | y) of every token [T, Y]."""
        return self.scores(X).emit

    def scores(self, X: Any, n_threads: int = 1) -> Scored:
        """Look up every token."""
        return self.scores_beside(None, X)

    def scores_beside(self, others: npt.NDArray[Any] | None, X: Any) -> Scored:
        """Look up every token, and add the scores of its other features [T, Y]."""
        offsets, places = self.locate(X)
        emit = np.take(self.table.rows, places, axis=0)
        if others is not None:
            emit += others
        return Scored(offsets, emit, None)

    def locate(self, X: Any) -> tuple[Int64, Int32]:
        """Return offsets [N + 1] and the row of the table for every token [T]."""
        self.check_learned("log_probs")
        if isinstance(X, WordTokens):
            return X.offsets, self.table.find(X.words)[X.ids]
        return self.table.locate(X)

    def decoder(self, transitions: _native.Dense) -> Decoder | None:
        """Make a native decoder; see `Emission.decoder`."""
        scoring = ("log_probs", "scores", "scores_beside", "locate")
        if any(getattr(type(self), name) is not getattr(Words, name) for name in scoring):
            return None  # a subclass scores in another way
        return self.table.decoder(transitions)

    def parts(self, sequence: Any) -> Parts:
        """Name the attribute that gives each token its score."""
        return self.table.parts(sequence)

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> Any:
        """Count the words with each label; see `Emission.collect`.

        Returns
        -------
        WordStats
        """
        data, Y = self.encode(X), len(self.labels)
        return WordStats.count(data, check_gamma(gamma, len(data.ids), Y), weight, Y)

    def merge(self, a: Any, b: Any) -> Any:
        """Sum the statistics of different sentences, which may have different words."""
        return a.merge(b)

    def update(self, stats: Any) -> Self:
        """Estimate Pr(w | y) from counts of words."""
        return self.replace(table=self.tabulate(self.count(stats)))

    def count(self, stats: WordStats) -> WordCounts:
        """Count the labels of known words, and of spellings for unknown words."""
        return count_words(
            stats,
            self.labels,
            min_count=self.min_count,
            rare=self.rare,
            fold_case=bool(self.fold_case),
        )

    def tabulate(self, counted: WordCounts) -> WordTable:
        """Estimate log Pr(w | y) of each word, and of an unknown word of each spelling."""
        n = counted.word_counts.sum()
        u = self.unknown
        if u is None:
            u = (counted.n_once + counted.n_left_out) / (n + counted.n_left_out)
            u = min(max(u, 1 / (n + 1)), 0.5)
        # In place, since tables can have more than a million cells.
        by_spelling = counted.spelling_probs(_SPELLING_STRENGTH)  # [S, Y]
        of_words = counted.twin_probs(by_spelling, _CASE_STRENGTH)  # [V, Y] the prior of Pr(y | w)
        by_case = counted.variant_probs(by_spelling, _CASE_STRENGTH)  # [M, Y]
        k, totals = self.smoothing, counted.totals
        of_words *= k
        of_words += counted.word_counts
        of_words /= np.maximum(totals + k, _TINY)  # Pr(y | w)
        # Pr(w, y); for spellings and variants, which were not seen, without that of their letters
        of_words *= (1 - u) * totals / n
        by_spelling *= u
        by_case *= u
        of_label = np.maximum(of_words.sum(axis=0) + by_spelling[0], _TINY)  # [Y] Pr(y)
        with np.errstate(divide="ignore"):
            for joint in (by_spelling, of_words, by_case):
                joint /= of_label
                np.log(joint, out=joint)
        return counted.table(counted.scores(by_spelling, of_words, by_case))

    def log_prior(self) -> float:
        """Return 0 without smoothing; with smoothing, raise: its prior depends on the data."""
        if self.smoothing == 0 and self.unknown == 0 and self.min_count == 1:
            return 0.0
        raise self.unsupported(
            "log_prior",
            "case variants and spellings, which smooth the counts, are counted from the same data",
            "Words(smoothing=0, unknown=0) maximises the likelihood.",
        )

    def draw_posterior(self, stats: Any, rng: np.random.Generator) -> Self:
        """Raise: case variants and spellings are not a prior to draw from."""
        raise self.unsupported(
            "draw_posterior",
            "case variants and spellings, which smooth the counts, are counted from the same data",
            "Features has a Dirichlet prior for each template.",
        )

    def mean_field(self, stats: Any) -> Self:
        """Raise: case variants and spellings are not a prior."""
        raise self.unsupported(
            "mean_field",
            "case variants and spellings, which smooth the counts, are counted from the same data",
            "Features has a Dirichlet prior for each template.",
        )

    # ---- looking inside --------------------------------------------------------------------

    def word_probs(self) -> Float64:
        """Return Pr(w | y) of the known words and, last, of all others together [Y, V + 1]."""
        self.check_learned("word_probs")
        rows = [*self.table.words, 0]
        probs = np.exp(self.table.rows[rows].astype(np.float64)).T
        return np.asarray(probs / probs.sum(axis=1, keepdims=True))

    def generate(
        self,
        y: npt.NDArray[np.integer[Any]],
        rng: np.random.Generator,
        unknown: str = "<unknown>",
    ) -> list[str]:
        """Draw a word for each label; ``unknown`` stands for unknown words."""
        emit, words = self.word_probs(), [*self.table.known_words(), unknown]
        return [words[int(rng.choice(len(words), p=p / p.sum()))] for p in emit[y]]

    @property
    def n_parameters(self) -> int:
        """Y · V: for each label, the V known words and the unknown ones, less one for the sum.

        The distribution over spellings is counted as part of the unknown words.
        """
        self.check_learned("n_parameters")
        return len(self.labels) * (len(self.table.words) - (self.unknown == 0))

    def order_key(self) -> Float64:
        """Return the number of each label's most probable word, and its probability, negative."""
        probs = self.word_probs()[:, :-1]  # [Y, V]
        if not probs.size:
            return np.zeros((len(probs), 2))
        return np.stack([probs.argmax(axis=1), -probs.max(axis=1)], axis=1)

    def permute(self, order: Sequence[int]) -> Self:
        """Return the same emission with its states in another order."""
        return self.replace(table=self.table.permute(order))

    # ---- given, not learnt -----------------------------------------------------------------

    @classmethod
    def from_probs(cls, labels: Sequence[str], words: Sequence[str], probs: Float64) -> Words:
        """Make a closed vocabulary from Pr(w | y).

        Parameters
        ----------
        labels, words : sequence of str
            The Y labels and the V words; other words are impossible.
        probs : ndarray, shape (Y, V)
        """
        extractor, index = backoff_templates(0), _native.Index()
        encoded = extractor.encode([list(words)], index, grow=True)
        # Row 0 is the bias, to which all other words back off.
        rows = np.full((max(index.size, 1), len(labels)), -np.inf)
        ids = encoded.ids[encoded.indptr[1:] - 1]
        with np.errstate(divide="ignore"):
            rows[ids] = np.log(probs.T)
        parent = np.zeros(len(rows), dtype=np.int32)
        names = Names(*index.names())
        table = WordTable(tuple(labels), extractor, index, names, ids, parent, rows)
        spec = cls(smoothing=0.0, unknown=0.0, max_suffix=0)
        return spec.replace(labels=tuple(labels), table=table)

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the table; see docs/format.md."""
        self.check_learned("to_file")
        return self.table.to_file()

    def from_file(self, file: File) -> Self:
        """Return the emission with the table of a file."""
        table = WordTable.from_file(file)
        if table.labels != self.labels:
            raise ModelFileError(
                where=self.kind, expected="the labels of the model", found="other labels"
            )
        return self.replace(table=table)
