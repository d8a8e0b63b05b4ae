"""N-gram language models: counted, smoothed, and asked for probabilities, words and text.

The model here is what users see. Counting, smoothing and scoring are native; the tables lie in
`tables`, ARPA files in `arpa`, mixtures in `mixtures`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import FormatError, ParameterError, SentenceError
from tagloom.language import arpa, decoding
from tagloom.language.decoding import Decoding
from tagloom.language.tables import END, SPECIAL, UNKNOWN, NGramTables, bad_token
from tagloom.language.units import UNITS, batches
from tagloom.models.files import Model
from tagloom.parameters import choice, count, flag, number, parameter
from tagloom.sequences.files import Input, Source, check_bytes, check_size
from tagloom.storage import File

Float64 = npt.NDArray[np.float64]

MAX_ORDER = 7
#: In the order of the native core.
SMOOTHINGS = ("modified-kneser-ney", "kneser-ney", "absolute", "witten-bell", "add-k")

_READ = 1 << 20  # bytes of text that are counted at once


def _check_order(order: Any) -> None:
    if checks.count(order, "order", least=1) > MAX_ORDER:
        expected = f"an integer of 1 to {MAX_ORDER}"
        raise ParameterError(parameter="order", expected=expected, found=checks.show(order))


def _check_vocabulary(words: Any) -> None:
    listed = list(words) if isinstance(words, Iterable) and not isinstance(words, str) else []
    if not listed or not all(isinstance(word, str) for word in listed):
        raise ParameterError(
            parameter="vocabulary", expected="a list of str", found=checks.show(words)
        )


class TokenScores(NamedTuple):
    """Scores of the tokens of one sentence, and of its end."""

    tokens: list[str]  #: [T + 1] the last is ``"</s>"``, unless the end was left out
    log_probs: Float64  #: [T + 1] log p(token | history), in nats
    lengths: npt.NDArray[np.int8]  #: [T + 1] length of the longest n-gram found
    is_unknown: npt.NDArray[np.bool_]  #: [T + 1]


class NextWord(NamedTuple):
    """A word and the probability that it comes next."""

    word: str
    prob: float


class NGramModel(Model):
    r"""An n-gram language model: the probability of a word given the n − 1 words before it.

    All smoothings interpolate with shorter histories and have the form of a back-off model. With
    h′ the history h without its first word::

        p(w | h) = explicit(h w)         if the model has the n-gram h w
                 = backoff(h) p(w | h′)  otherwise

    Given any history, the probabilities of all words and of the end of the sentence sum to 1.

    Attributes
    ----------
    vocabulary_ : tuple of str
        All words, with ``<unk>``, ``<s>`` and ``</s>`` in front.
    ngram_counts_ : list of int
        Number of n-grams of each length.
    discounts_ : list of tuple of float
        For each length, what was taken off counts of 1, 2, and 3 or more. Where a text is too
        small to estimate discounts, they are 0.5, 1 and 1.5, as of ``lmplz --discount_fallback``.
    training_ : dict
        Sentences, tokens and seconds of `fit`.

    Notes
    -----
    Log-probabilities are natural; divide by ``math.log(10)`` to compare with KenLM and SRILM.
    Memory while training is about 30 bytes for each distinct n-gram of any length; the text itself
    is not kept.

    Examples
    --------
    >>> import tagloom as tl
    >>> lm = tl.NGramModel(2, smoothing="witten-bell").fit(
    ...     [["the", "old", "boat"], ["the", "old", "man"], ["the", "boat"]])
    >>> [(word, round(prob, 3)) for word, prob in lm.next_words(["the"], n=2)]
    [('old', 0.471), ('boat', 0.271)]
    >>> round(lm.perplexity([["the", "old", "boat"]]), 3)
    1.795
    """

    order: int = count(
        default=3,
        least=1,
        check=_check_order,
        help="Length of the longest n-grams, 1 to 7.",
        kw_only=False,
    )
    smoothing: str = choice(
        default="modified-kneser-ney",
        choices=SMOOTHINGS,
        help="How probability is set aside for n-grams that were not seen.",
        details='"modified-kneser-ney" equals KenLM\'s ``lmplz``: three discounts per order, and '
        'counts of left neighbours below the highest order. "kneser-ney" has one discount per '
        'order. "absolute" discounts plain counts. "witten-bell" sets as much aside as there are '
        'different words after a history. "add-k" adds k to every count and does not interpolate; '
        "it learns nothing from a history that is too short and does not start a sentence.",
    )
    k: float = number(default=1.0, above=0, help='What "add-k" adds to every count.')
    unit: str = choice(
        default="words",
        choices=tuple(UNITS),
        help="What a token is.",
        details='With "letters" and "bytes" a sentence may be a str.',
    )
    vocabulary: Sequence[str] | None = parameter(
        default=None,
        type="list of str",
        check=_check_vocabulary,
        help="The words to distinguish; all others are unknown.",
        details="By default all words of the text.",
        is_option=False,
    )
    closed: bool = flag(
        default=False,
        help="Whether unknown words have no probability: log-probability −inf.",
    )
    min_word_count: int = count(
        default=1,
        least=1,
        help="Words that occur less often are counted as the unknown word <unk>.",
    )
    min_counts: int | Sequence[int] = parameter(
        default=1,
        type="int or list of int",
        help="Occurrences that an n-gram of each length needs to be in the model.",
        details="``[1, 1, 2]`` drops trigrams that occur once; the last number holds for all "
        "longer n-grams. Their probability goes to back-off.",
        is_option=False,
    )
    n_threads: int | None = count(
        default=None,
        check=checks.threads,
        help="Number of threads, all cores by default; results do not depend on it.",
    )

    # ---- learning --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count n-grams and smooth them.

        Parameters
        ----------
        X : Corpus, Stream, or iterable of sentences
            Read once and not kept, so a generator over a large file will do. A sentence is a list
            of tokens; with other units than words it may be a str, or bytes.
        y : None
            Not used; labels of a corpus are ignored.

        Returns
        -------
        self

        Raises
        ------
        SentenceError
            If the data are empty, or contain something other than sentences of tokens.
        ParameterError
            If a parameter is out of range.

        Examples
        --------
        >>> import tagloom as tl
        >>> tl.NGramModel(3).fit(tl.datasets.load("english", "train")).ngram_counts_
        [2165, 5909, 7031]
        """
        began = time.perf_counter()
        counter = self._counter()
        n = 0
        for batch in batches(X, self.unit):
            place = counter.add(batch)
            if place is not None:
                raise bad_token(batch, place, n)
            n += len(batch)
        return self._finish(counter, began)

    def fit_files(self, *paths: Source, encoding: str = "utf-8") -> Self:
        """Count the n-grams of text files: a sentence per line, tokens separated by blanks.

        Files are read piece by piece and may be larger than memory. Blank lines are skipped. With
        ``unit="letters"`` or ``"bytes"`` every character of a line counts, blanks among them.

        Parameters
        ----------
        *paths : str, path, "-" for stdin, or open file
            Plain or compressed with gzip, xz or zstd.
        encoding : str

        Returns
        -------
        self

        Raises
        ------
        FormatError
            If a file is not text in this encoding; names file and line.
        """
        began = time.perf_counter()
        counter = self._counter()
        for path in paths:
            for line, text in _whole_lines(path, encoding):
                place = self._add_lines(counter, text)
                if place is not None:
                    raise FormatError(
                        path=os.fspath(path) if isinstance(path, str | os.PathLike) else None,
                        line=line + place[0],
                        expected="tokens of the text",
                        found=f"'<s>' or '</s>' as token {place[1]}",
                        hint="Leave them out: the model adds them itself.",
                    )
        return self._finish(counter, began)

    def _add_lines(self, counter: _native.NGramCounter, text: bytes) -> tuple[int, int] | None:
        if self.unit == "words":
            return counter.add_lines(text)
        split = UNITS[self.unit].split
        lines = text.decode().split("\n")
        return counter.add([split(line.rstrip("\r"), None) for line in lines if line.strip()])

    def _counter(self) -> _native.NGramCounter:
        self.check_parameters()
        vocabulary = self.vocabulary
        if vocabulary is None and self.unit == "bytes":
            vocabulary = [
                token for byte in range(256) for token in UNITS["bytes"].split(bytes([byte]), None)
            ]
        return _native.NGramCounter(
            self.order,
            None if vocabulary is None else list(vocabulary),
            checks.threads(self.n_threads),
        )

    def _finish(self, counter: _native.NGramCounter, began: float) -> Self:
        arrays, vocabulary, discounts, is_estimated, n_sentences, n_tokens = counter.finish(
            SMOOTHINGS.index(self.smoothing),
            self.k,
            self.closed,
            self._min_counts(),
            self.min_word_count,
        )
        if n_sentences == 0:
            raise SentenceError(expected="at least one sentence", found="none")
        self.tables_ = NGramTables(arrays, vocabulary, not self.closed)
        has_discounts = self.smoothing in ("modified-kneser-ney", "kneser-ney", "absolute")
        self.discounts_: list[tuple[float, float, float]] = discounts if has_discounts else []
        self.training_ = {
            "sentences": n_sentences,
            "tokens": n_tokens,
            "estimated_discounts": is_estimated if has_discounts else [],
            "seconds": round(time.perf_counter() - began, 3),
        }
        return self

    def _min_counts(self) -> list[int]:
        """Return the count that an n-gram of each length needs [order]."""
        given = self.min_counts
        listed = given if isinstance(given, list | tuple) else [given]
        counts = [checks.count(count, "min_counts", least=1) for count in listed]
        if not counts or counts != sorted(counts) or len(counts) > self.order:
            raise ParameterError(
                parameter="min_counts",
                expected=f"an integer or a list of at most {self.order} that does not decrease",
                found=checks.show(given),
            )
        return counts + [counts[-1]] * (self.order - len(counts))

    def check_parameters(self) -> None:
        """Raise for a parameter that is out of range, or does not fit another one."""
        super().check_parameters()
        self._min_counts()
        if self.closed and self.min_word_count > 1:
            raise ParameterError(
                parameter="min_word_count",
                expected="1 where the vocabulary is closed",
                found=checks.show(self.min_word_count),
                hint="Rare words become the unknown word, which a closed vocabulary lacks.",
            )

    # ---- what was learnt -------------------------------------------------------------------

    @property
    def vocabulary_(self) -> tuple[str, ...]:
        """All words [V]; ``<unk>``, ``<s>`` and ``</s>`` are the first three."""
        return self.tables_.words

    @property
    def ngram_counts_(self) -> list[int]:
        """Number of n-grams of each length [order]."""
        return self.tables_.sizes

    # ---- scores ----------------------------------------------------------------------------

    def log_prob(self, sentence: Any, *, start: bool = True, end: bool = True) -> float:
        r"""Return the log-probability of one sentence, in nats.

        log p(w_1 … w_T) = Σ_t log p(w_t | w_{t−n+1} … w_{t−1}) + log p(</s> | …)

        Parameters
        ----------
        sentence : list of str, Sentence, or (with other units than words) str
        start, end : bool
            Whether the sentence starts, and ends, here; a part of a sentence does not.

        Returns
        -------
        float

        Examples
        --------
        >>> import tagloom as tl
        >>> lm = tl.NGramModel(1, smoothing="add-k", closed=True).fit([["a", "a", "b"]])
        >>> import math
        >>> round(math.exp(lm.log_prob(["a"])), 6)  # 3/7 for a, 2/7 for the end
        0.122449
        """
        return float(self._score([sentence], start, end).sums[0])

    def log_probs(self, X: Any) -> Float64:
        """Return the log-probability of each sentence.

        Parameters
        ----------
        X : Corpus, Stream, or iterable of sentences

        Returns
        -------
        ndarray, shape (N,)
        """
        return np.concatenate([np.empty(0), *(scored.sums for scored in self._score_all(X))])

    def score_tokens(self, sentence: Any, *, start: bool = True, end: bool = True) -> TokenScores:
        """Return the score of every token of one sentence.

        Parameters
        ----------
        sentence, start, end
            As of `log_prob`.

        Returns
        -------
        TokenScores

        Examples
        --------
        >>> import tagloom as tl
        >>> lm = tl.NGramModel(2).fit([["the", "boat"], ["the", "fog"]])
        >>> scores = lm.score_tokens(["the", "cat"])
        >>> scores.tokens, scores.lengths.tolist(), scores.is_unknown.tolist()
        (['the', 'cat', '</s>'], [2, 1, 1], [False, True, False])
        """
        scored = self._score([sentence], start, end)
        tokens = list(UNITS[self.unit].split(sentence, 0))
        if end:
            tokens.append(SPECIAL[END])
        return TokenScores(tokens, scored.log_probs, scored.lengths, scored.is_unknown)

    def perplexity(self, X: Any, *, unknown: bool = True) -> float:
        r"""Return exp(−(1/n) Σ log p) over the n tokens and sentence ends of a text.

        Parameters
        ----------
        X : Corpus, Stream, or iterable of sentences
        unknown : bool
            Whether unknown words count, with the probability of ``<unk>``. Without them, two models
            can be compared only if their vocabularies are the same.

        Returns
        -------
        float
            Infinite if the text has unknown words, they count, and the vocabulary is closed.

        Examples
        --------
        >>> import tagloom as tl
        >>> lm = tl.NGramModel(3).fit(tl.datasets.load("english", "train"))
        >>> test = tl.datasets.load("english", "test")
        >>> round(lm.perplexity(test), 2), round(lm.perplexity(test, unknown=False), 2)
        (287.16, 139.55)
        """
        try:
            return math.exp(-self._mean_log_prob(X, unknown))
        except OverflowError:
            return math.inf

    def _mean_log_prob(self, X: Any, unknown: bool) -> float:
        total, n = 0.0, 0
        for scored in self._score_all(X):
            log_probs = scored.log_probs if unknown else scored.log_probs[~scored.is_unknown]
            total += float(log_probs.sum())
            n += len(log_probs)
        if n == 0:
            raise SentenceError(expected="at least one sentence", found="none")
        return total / n

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-probability of tokens and sentence ends: −log of the perplexity."""
        return self._mean_log_prob(X, True)

    def _score(self, sentences: Sequence[Any], start: bool, end: bool, first: int = 0) -> _Scored:
        self._check_fitted("log_prob")
        split = UNITS[self.unit].split
        rows = [split(row, first + i) for i, row in enumerate(sentences)]
        return self._score_rows(rows, start, end, first)

    def _score_all(self, X: Any) -> Iterator[_Scored]:
        self._check_fitted("log_prob")
        n = 0
        for batch in batches(X, self.unit):
            yield self._score_rows(batch, True, True, n)
            n += len(batch)

    def _score_rows(
        self, rows: Sequence[Sequence[Any]], start: bool, end: bool, first: int
    ) -> _Scored:
        ids, offsets = self.tables_.ids(rows, first)
        log_probs, lengths, sums = self.tables_.native.score(
            ids, offsets, start, end, checks.threads(self.n_threads)
        )
        return _Scored(log_probs, lengths, sums, ids, offsets, end)

    # ---- words and text --------------------------------------------------------------------

    def next_probs(self, history: Any = (), *, start: bool = True) -> Float64:
        """Return the probability of every word after a history.

        Parameters
        ----------
        history : list of str, or (with other units than words) str
        start : bool
            Whether the history starts a sentence.

        Returns
        -------
        ndarray, shape (V,)
            p(w | history) for each word of ``vocabulary_``: sums to 1; that of ``<s>`` is 0.
        """
        self._check_fitted("next_probs")
        return np.exp(self.tables_.native.score_all(self._history(history, start)))

    def next_words(self, history: Any = (), n: int = 10, *, start: bool = True) -> list[NextWord]:
        """Return the most probable next words, the end of the sentence ``</s>`` among them.

        Parameters
        ----------
        history : list of str, or (with other units than words) str
        n : int
        start : bool
            Whether the history starts a sentence.

        Returns
        -------
        list of NextWord
            (word, prob), the most probable first; ties by position in the vocabulary.

        Examples
        --------
        >>> import tagloom as tl
        >>> lm = tl.NGramModel(3, unit="letters").fit(["banana", "bandana"])
        >>> [word for word, _ in lm.next_words("ban", n=2)]
        ['d', 'a']
        """
        n = checks.count(n, "n", least=1)
        probs = self.next_probs(history, start=start)
        best = np.argsort(-probs, kind="stable")[: min(n, np.count_nonzero(probs))]
        return [NextWord(self.vocabulary_[w], float(probs[w])) for w in best]

    def generate(
        self,
        history: Any = (),
        *,
        max_tokens: int = 100,
        temperature: float = 1.0,
        random_state: Any = None,
    ) -> Any:
        """Draw a sentence from the model.

        Parameters
        ----------
        history : list of str, or (with other units than words) str
            How the sentence starts; part of the result.
        max_tokens : int, default 100
            Stop after this many new tokens if the sentence has not ended.
        temperature : float, default 1.0
            Divide log-probabilities by this number: below 1 probable words become more so.
        random_state : int, Generator, optional

        Returns
        -------
        list of str, or str or bytes by the unit
            Without ``<unk>``, which is never drawn.

        Examples
        --------
        >>> import tagloom as tl
        >>> lm = tl.NGramModel(2).fit([["the", "old", "boat"], ["the", "old", "man"]])
        >>> lm.generate(["the"], temperature=0.1, random_state=0)[:2]
        ['the', 'old']
        """
        checks.count(max_tokens, "max_tokens")
        checks.number(temperature, "temperature", above=0)
        self._check_fitted("generate")
        rng = np.random.default_rng(random_state)
        native, words = self.tables_.native, self.vocabulary_
        tokens = list(UNITS[self.unit].split(history, None))
        node = self._history(history, True)
        for _ in range(max_tokens):
            log_p = native.score_all(node) / temperature
            log_p[UNKNOWN] = -np.inf
            probs = np.exp(log_p - log_p.max())
            word = int(rng.choice(len(words), p=probs / probs.sum()))
            if word == END:
                break
            tokens.append(words[word])
            node = native.follow(node, word)
        return UNITS[self.unit].join(tokens)

    def _history(self, history: Any, start: bool) -> int:
        """Return the node of the native trie that stands for a history."""
        ids, _ = self.tables_.ids([UNITS[self.unit].split(history, None)])
        return self.tables_.native.history(ids, start)

    def restore(self, sentence: Sequence[Any], *, start: bool = True, end: bool = True) -> Any:
        """Fill the gaps of a sentence with the most probable words, all of them together.

        The search is exact: no other words for all gaps have a higher probability. It goes over the
        n-grams of the model and not over pairs of words, so large vocabularies are no obstacle.

        Parameters
        ----------
        sentence : list of str and None
            None is a gap.
        start, end : bool
            As of `log_prob`.

        Returns
        -------
        list of str, or str or bytes by the unit
            Words that were given stay as they are, also if the model does not know them.

        See Also
        --------
        decode : Candidates with scores; n-best, marginals and samples.

        Examples
        --------
        >>> import tagloom as tl
        >>> lm = tl.NGramModel(2).fit(
        ...     [["the", "old", "boat", "left"], ["the", "old", "man", "left"], ["old", "fog"]])
        >>> lm.restore(["the", None, None, "left"])
        ['the', 'old', 'boat', 'left']
        """
        return self.decode(sentence, start=start, end=end).tokens

    def decode(self, lattice: Sequence[Any], *, start: bool = True, end: bool = True) -> Decoding:
        r"""Choose among candidates at each position: true-casing, diacritics, spelling, OCR.

        The score of a reading is log p(reading) + Σ_t score of its candidate at t, where the scores
        are log-probabilities of a channel: log p(observed | candidate).

        Parameters
        ----------
        lattice : list
            One entry for each position: a str, a token that is known; None, any word of the
            vocabulary; a list of str, the candidates; or a dict, candidates with scores. Of several
            candidates that the model does not know, only the one with the best score counts.
        start, end : bool
            As of `log_prob`.

        Returns
        -------
        Decoding
            ``tokens`` is the best reading; ``nbest(n)``, ``marginals()``, ``sample(n)``,
            ``entropy()`` and ``trellis`` tell more.

        Raises
        ------
        SentenceError, ScoreError
            If an entry is not one of these.

        Examples
        --------
        >>> import tagloom as tl
        >>> lm = tl.NGramModel(2).fit([["May", "is", "warm"], ["we", "may", "go"]])
        >>> decoding = lm.decode(["we", ["May", "may"], "go"])
        >>> decoding.tokens
        ['we', 'may', 'go']
        >>> [(token, round(prob, 3)) for token, prob in decoding.marginals()[1]]
        [('may', 0.988), ('May', 0.012)]
        """
        self._check_fitted("decode")
        entries = getattr(lattice, "tokens", lattice)
        if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
            raise SentenceError(
                expected="a list with an entry for each position", found=checks.show_type(lattice)
            )
        join = UNITS[self.unit].join
        return decoding.decode(self.tables_, entries, join, start=start, end=end)

    # ---- other models ----------------------------------------------------------------------

    def prune(self, threshold: float) -> Self:
        """Return a smaller model, without n-grams that hardly matter.

        An n-gram is dropped if the perplexity of the model's own distribution grows by a factor
        below 1 + threshold without it (Stolcke 1998, relative entropy pruning); n-grams that longer
        ones need stay. 1e-8 to 1e-6 are usual for large texts.

        Parameters
        ----------
        threshold : float
            At least 0.

        Returns
        -------
        NGramModel

        Examples
        --------
        >>> import tagloom as tl
        >>> lm = tl.NGramModel(3).fit(tl.datasets.load("english", "train"))
        >>> lm.ngram_counts_, lm.prune(1e-5).ngram_counts_
        ([2165, 5909, 7031], [2165, 4593, 93])
        """
        self._check_fitted("prune")
        threshold = checks.number(threshold, "threshold", least=0)
        arrays = self.tables_.native.prune(threshold, checks.threads(self.n_threads))
        return self._with_tables(
            NGramTables(arrays, self.tables_.vocabulary, self.tables_.has_unknown),
            {"pruned": threshold},
        )

    def _with_tables(self, tables: NGramTables, note: dict[str, Any]) -> Self:
        """Return a model with the same parameters and other tables."""
        model = type(self)(**self.get_params())
        model.tables_ = tables
        model.discounts_ = list(getattr(self, "discounts_", []))
        model.training_ = {**getattr(self, "training_", {}), **note}
        return model

    # ---- files -----------------------------------------------------------------------------

    def to_arpa(self, path: Source) -> None:
        """Write the model as an ARPA file, which KenLM, SRILM and others read.

        Parameters
        ----------
        path : str, path, "-" for stdout, or open file
            Compressed if the name ends in ``.gz``, ``.xz`` or ``.zst``.

        Raises
        ------
        FormatError
            If a word contains a blank.
        """
        self._check_fitted("to_arpa")
        arpa.write(path, self.tables_, UNITS[self.unit])

    @classmethod
    def from_arpa(cls, path: Source, *, unit: str = "words") -> Self:
        """Read an ARPA file of any tool, plain or compressed.

        Back-off weights may be missing, -99 means log 0, and n-grams may come in any order. Where
        suffixes of n-grams were pruned they are added with their backed-off probability, which
        changes no score.

        Parameters
        ----------
        path : str, path, "-" for stdin, or open file
        unit : {"words", "letters", "bytes"}
            What the tokens are.

        Returns
        -------
        NGramModel

        Raises
        ------
        FormatError
            If the file is damaged; names the line.
        """
        checks.choice(unit, "unit", UNITS)
        tables = arpa.read(path, UNITS[unit])
        model = cls(tables.order, unit=unit, closed=not tables.has_unknown)
        return model._with_tables(tables, {"arpa": getattr(path, "name", str(path))})

    def describe(self) -> dict[str, Any]:
        """Return what the model is as plain data; see `tagloom.models.Model.describe`."""
        return super().describe() | {
            "order": self.tables_.order,
            "words": self.tables_.n_words,
            "ngrams": self.ngram_counts_,
        }

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return what was learnt, as a header of plain data and arrays."""
        params = self.get_params()
        if params["vocabulary"] is not None:
            params["vocabulary"] = list(params["vocabulary"])
        if isinstance(params["min_counts"], tuple):
            params["min_counts"] = list(params["min_counts"])
        header = {
            "params": params,
            "training": self.training_,
            "discounts": [list(amounts) for amounts in self.discounts_],
        }
        return File(header, {}) | self.tables_.to_file()

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a model from what `to_file` returned, checking everything."""
        model = cls(**file.header["params"])
        model.check_parameters()
        model.tables_ = NGramTables.from_file(file)
        model.discounts_ = []
        for one, two, more in file.header["discounts"]:
            amounts = [checks.number(amount, "discounts", least=0) for amount in (one, two, more)]
            model.discounts_.append((amounts[0], amounts[1], amounts[2]))
        model.training_ = dict(file.header["training"])
        return model


class _Scored(NamedTuple):
    """Scores of a batch of sentences; n tokens and, if they are scored, sentence ends."""

    log_probs: Float64  # [n]
    lengths: npt.NDArray[np.int8]  # [n]
    sums: Float64  # [N]
    ids: npt.NDArray[np.int32]  # [tokens]
    offsets: npt.NDArray[np.int64]  # [N + 1]
    has_ends: bool

    @property
    def is_unknown(self) -> npt.NDArray[np.bool_]:
        """Whether each token is unknown [n]."""
        is_unknown = self.ids <= UNKNOWN
        return np.insert(is_unknown, self.offsets[1:], False) if self.has_ends else is_unknown


def _whole_lines(path: Source, encoding: str) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of a text file that end with a line, each with the number of its first line."""
    file = Input(path, encoding)
    line, offset, rest = 1, file.start, b""
    try:
        while True:
            data = file.read(_READ)
            text = rest + data
            end = text.rfind(b"\n") + 1 if data else len(text)
            check_size(len(text) - end, file.name, line, "a line end")
            whole, rest = text[:end], text[end:]
            if whole:
                _check_utf8(whole, file.name, line, offset)
                yield line, whole
            line += whole.count(b"\n")
            offset += len(whole)
            if not data:
                return
    finally:
        file.close()


def _check_utf8(text: bytes, name: str, line: int, offset: int) -> None:
    """Raise FormatError, naming the line, unless the text is UTF-8."""
    if _native.first_bad_byte(text) == len(text):
        return
    for raw in text.split(b"\n"):
        check_bytes(raw, name, line, offset)
        line += 1
        offset += len(raw) + 1
