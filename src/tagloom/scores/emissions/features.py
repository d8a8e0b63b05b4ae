r"""Several features of a token, emitted independently given its label: naive Bayes.

    Pr(x_t | y) = Π_d Pr(x_{t,d} | y)

The features are templates, as for linear models; each gives a token at most one value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, features
from tagloom.errors import ModelFileError, ParameterError
from tagloom.features import Templates
from tagloom.records import replace
from tagloom.scores.emissions import dirichlet
from tagloom.scores.emissions.base import (
    Emission,
    Float64,
    Gamma,
    check_gamma,
    fingerprint_of,
    offsets_of,
)
from tagloom.scores.emissions.words import Words
from tagloom.scores.linear import LinearScores, Names, Rows, Scored
from tagloom.scores.parts import Part, Parts
from tagloom.scores.smoothing import Smoothing
from tagloom.scores.tables import Int32, Int64
from tagloom.scores.word_counts import add_rows
from tagloom.storage import File

_BIAS = 0  # the attribute that every token has, and the first of every index


@dataclass(frozen=True, eq=False)
class FeatureTokens:
    """Sentences as numbers: the value of each feature of each token.

    Attributes
    ----------
    sentences : sequence of sentences
    offsets : ndarray of int64, shape (N + 1,)
    words : object or None
        The sentences as the word emission encodes them, if there is one.
    index : Index
        The A attributes: the bias, then the values of each template.
    ends : list of int
        Where the values of each template end; the first begin at 1.
    ids : list of ndarray of int32, each of shape (T,)
        For each template the attribute of each token, or −1.
    """

    sentences: Any
    offsets: Int64
    words: Any
    index: _native.Index
    ends: list[int]
    ids: list[Int32]

    @property
    def fingerprint(self) -> tuple[npt.NDArray[Any], ...]:
        """Arrays that identify the sentences."""
        return fingerprint_of(self.sentences if self.words is None else self.words)


@dataclass(frozen=True, eq=False)
class FeatureStats:
    """Counts of the values of features with labels.

    Attributes
    ----------
    words : object or None
        The statistics of the word emission, if there is one.
    index : Index
        The A attributes: the bias, then the values of each template.
    ends : list of int
        Where the values of each template end; the first begin at 1.
    counts : ndarray, shape (A, Y)
        Row 0, of the bias, has the counts of the labels themselves.
    """

    words: Any
    index: _native.Index
    ends: list[int]
    counts: Float64

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the index by its keys and names."""
        index = self.index.keys(), self.index.names()
        return FeatureStats._of, (self.words, index, self.ends, self.counts)

    @classmethod
    def _of(cls, words: Any, index: Any, ends: list[int], counts: Float64) -> FeatureStats:
        return cls(words, _native.Index.from_keys(*index), ends, counts)


class Features(Emission):
    r"""Several features of a token, emitted independently given its label.

    The emission of ``"word"`` is `Words`. For any other template, a value v has the probability

        Pr(v | y) = (count(v, y) + k) / (count(y) + k · (V + 1))

    where V values were seen, one more cell is for all other values and for no value, and
    k = ``smoothing``. This is the maximum of the posterior under a Dirichlet prior with parameter
    k + 1 for every cell.

    Parameters
    ----------
    templates : list of str
        Templates as for `CRF`, such as ``["word", "suffix(2)", "col(pos)"]``.
    smoothing : float
        k, above 0.
    words : Words, optional
        The emission of the template ``"word"``; by default `Words` with its defaults.

    Attributes
    ----------
    linear : LinearScores
        log Π_d Pr(x_{t,d} | y) of all templates except ``"word"``, after `update`: the bias has the
        score of a token without known values, and each value the difference from that.
    word_emission : Words or None
        The emission of ``"word"``, after `bind`.

    Examples
    --------
    >>> import tagloom as tl
    >>> train, test = tl.datasets.load("english", label="chunk")[::2]
    >>> words = tl.HMM().fit(train).score(test)
    >>> both = tl.emissions.Features(["word", "col(upos)"])
    >>> tl.HMM(emissions=both).fit(train).score(test) > words + 0.05
    True
    """

    learned = ("linear",)

    def __init__(
        self, templates: Sequence[str], *, smoothing: float = 0.2, words: Words | None = None
    ) -> None:
        self.templates = templates
        self.smoothing = smoothing
        self.words = words

    linear: LinearScores
    word_emission: Words | None = None
    _divergence: float | None = None  # of the variational posterior from the prior

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        find_templates(self.templates)
        checks.number(self.smoothing, "smoothing", above=0)
        if self.words is not None and not isinstance(self.words, Words):
            raise ParameterError(
                parameter="words", expected="a Words emission", found=checks.show_type(self.words)
            )

    # ---- reading ---------------------------------------------------------------------------

    def bind(self, labels: Sequence[str], smoothing: Smoothing | None = None) -> Emission:
        """Return an emission of these labels, with that of ``"word"`` if it is a template."""
        new = super().bind(labels, smoothing)
        if "word" not in find_templates(self.templates):
            return new
        return new.replace(word_emission=(self.words or Words()).bind(labels, smoothing))

    @property
    def _others(self) -> list[str]:
        """All templates except ``"word"``."""
        return [template for template in find_templates(self.templates) if template != "word"]

    def encode(self, X: Any) -> FeatureTokens:
        """Number the values of the features of sentences.

        Raises
        ------
        ParameterError
            If a template gives a token numbers, or several values.
        """
        if isinstance(X, FeatureTokens):
            return X
        words = None if self.word_emission is None else self.word_emission.encode(X)
        index, ends, ids = _native.Index(), [], []
        features.make(["bias"]).encode(X, index, grow=True)
        for template in self._others:
            encoded = features.make([template]).encode(X, index, grow=True)
            lengths = np.diff(encoded.indptr)  # [T]
            if encoded.values is not None or lengths.max(initial=0) > 1:
                several = "numbers" if encoded.values is not None else "several values"
                raise ParameterError(
                    parameter="templates",
                    expected="templates that give a token one value or none",
                    found=f"{template!r}, which gives {several}",
                    hint="Leave it out.",
                )
            of_tokens = np.full(len(lengths), -1, dtype=np.int32)
            of_tokens[lengths > 0] = encoded.ids
            ids.append(of_tokens)
            ends.append(index.size)
        return FeatureTokens(X, offsets_of(X), words, index, ends, ids)

    # ---- scoring ---------------------------------------------------------------------------

    def log_probs(self, X: Any) -> npt.NDArray[Any]:
        """Sum log Pr(x_{t,d} | y) over the features [T, Y]."""
        return self.scores(X).emit

    def scores(self, X: Any, n_threads: int = 1) -> Scored:
        """Sum log Pr(x_{t,d} | y) over the features; edges are those of the word emission."""
        self.check_learned("log_probs")
        encoded = X if isinstance(X, FeatureTokens) else None
        if encoded is not None and encoded.index is self.linear.index:
            others = Scored(encoded.offsets, self._look_up(encoded), None)
        else:
            others = self.linear.score(X if encoded is None else encoded.sentences, n_threads)
        if self.word_emission is None:
            return others
        words = X if encoded is None else encoded.words
        return self.word_emission.scores_beside(others.emit, words)

    def _look_up(self, data: FeatureTokens) -> npt.NDArray[np.float32]:
        rows = self._rows  # [A, Y]
        emit = np.repeat(rows[:1], data.offsets[-1], axis=0)
        for ids in data.ids:
            emit[ids >= 0] += rows[ids[ids >= 0]]
        return emit

    @property
    def _rows(self) -> npt.NDArray[np.float32]:
        """The scores of each attribute [A, Y]; all of them are stored."""
        return self.linear.rows.weights.reshape(-1, len(self.labels))

    @property
    def has_edges(self) -> bool:
        """Whether `scores` has an ``edge``."""
        return self.word_emission is not None and self.word_emission.has_edges

    def parts(self, sequence: Any) -> Parts:
        """Name the attributes of each token."""
        others = self.linear.parts(sequence)
        if self.word_emission is None:
            return others
        words = self.word_emission.parts(sequence)

        def of_transition(t: int, y_prev: int | None, y: int) -> Iterator[Part]:
            yield from words(t, y_prev, y)
            yield from others(t, y_prev, y)

        return of_transition

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> FeatureStats:
        """Count the values of each feature with each label; see `Emission.collect`."""
        data, Y = self.encode(X), len(self.labels)
        T = int(data.offsets[-1])
        gamma = check_gamma(gamma, T, Y)
        words = None
        if self.word_emission is not None:
            words = self.word_emission.collect(data.words, gamma, weight)
        counts = np.zeros((data.index.size, Y))
        counts[_BIAS] = add_rows(np.zeros(T, dtype=np.int32), gamma, weight, 1, Y)
        for ids, (first, end) in zip(data.ids, _ranges(data.ends), strict=True):
            has = ids >= 0
            of_tokens = gamma[has], None if weight is None else weight[has]
            counts[first:end] = add_rows(ids[has] - np.int32(first), *of_tokens, end - first, Y)
        return FeatureStats(words, data.index, data.ends, counts)

    def merge(self, a: FeatureStats, b: FeatureStats) -> FeatureStats:
        """Sum the statistics of different sentences, which may have different values."""
        words = None
        if self.word_emission is not None:
            words = self.word_emission.merge(a.words, b.words)
        if a.index is b.index:
            return FeatureStats(words, a.index, a.ends, a.counts + b.counts)
        index, ends, counts = _merge_values(a, b)
        return FeatureStats(words, index, ends, counts)

    def update(self, stats: FeatureStats) -> Self:
        """Estimate Pr(v | y) from counts."""
        k, of_label = self.smoothing, stats.counts[_BIAS]  # [Y]
        bias, parts = np.zeros(len(self.labels)), []
        for cells in self._cells(stats):
            masses = cells + k
            bias += np.log(masses[-1] / (of_label + k * len(cells)))
            parts.append(np.log(masses[:-1] / masses[-1]))
        return self._learn(stats, bias, parts, lambda words: words.update(stats.words))

    def draw_posterior(self, stats: FeatureStats, rng: np.random.Generator) -> Self:
        """Draw Pr(v | y) of each feature from its posterior, Dirichlet(count(v, y) + k + 1)."""
        drawn = [dirichlet.draw(alpha, rng) for alpha in self._posteriors(stats)]
        return self._with_logs(stats, drawn, lambda words: words.draw_posterior(stats.words, rng))

    def mean_field(self, stats: FeatureStats) -> Self:
        """Return the update of variational Bayes; see `Emission.mean_field`."""
        alphas = self._posteriors(stats)
        logs = [dirichlet.mean_log(alpha) for alpha in alphas]
        new = self._with_logs(stats, logs, lambda words: words.mean_field(stats.words))
        prior = self.smoothing + 1
        return new.replace(_divergence=sum(dirichlet.divergence(a, prior) for a in alphas))

    def _cells(self, stats: FeatureStats) -> list[Float64]:
        """List the counts of each template [V + 1, Y]; last, tokens with none of its V values."""
        cells = []
        for first, end in _ranges(stats.ends):
            counts = stats.counts[first:end]
            others = np.maximum(stats.counts[_BIAS] - counts.sum(axis=0), 0)  # [Y]
            cells.append(np.concatenate([counts, others[None]]))
        return cells

    def _posteriors(self, stats: FeatureStats) -> list[Float64]:
        """List the parameters of each template's posterior [V + 1, Y]."""
        return [cells + self.smoothing + 1 for cells in self._cells(stats)]

    def _with_logs(
        self, stats: FeatureStats, logs: list[Float64], learn_words: Callable[[Words], Words]
    ) -> Self:
        """Return the emission with log Pr(v | y) of each template [V + 1, Y]."""
        bias = np.sum([log[-1] for log in logs], axis=0)
        return self._learn(stats, bias, [log[:-1] - log[-1] for log in logs], learn_words)

    def _learn(
        self,
        stats: FeatureStats,
        bias: Float64,
        parts: list[Float64],
        learn_words: Callable[[Words], Words],
    ) -> Self:
        """Return the emission with a score for each attribute, and fitted words."""
        words = None if self.word_emission is None else learn_words(self.word_emission)
        linear = self._make_linear(stats.index, np.vstack([bias, *parts]))
        return self.replace(linear=linear, word_emission=words, _divergence=None)

    def _make_linear(self, index: _native.Index, rows: Float64) -> LinearScores:
        """Make scores with a row for each attribute [A, Y]."""
        A, Y = rows.shape
        return LinearScores(
            labels=self.labels,
            extractor=features.make(["bias", *self._others]),
            index=index,
            rows=Rows(
                np.arange(A + 1, dtype=np.int64) * Y,
                np.tile(np.arange(Y, dtype=np.uint16), A),
                rows.astype(np.float32).ravel(),
            ),
            names=Names(*index.names()),
            trans=np.zeros((Y, Y)),
            start=np.zeros(Y),
            stop=np.zeros(Y),
        )

    def log_prior(self) -> float:
        """Return the log density of the Dirichlet priors, k · Σ log Pr(v | y), and of the words.

        After `mean_field`, −KL(q ‖ prior).
        """
        self.check_learned("log_prior")
        words = 0.0 if self.word_emission is None else self.word_emission.log_prior()
        if self._divergence is not None:
            return words - self._divergence
        return words + self.smoothing * sum(float(p.sum()) for p in self._log_cells())

    def _log_cells(self) -> list[Float64]:
        """List log Pr(v | y) of each template [V + 1, Y]; the last row is for all other values."""
        rows, cells = self._rows.astype(np.float64), []
        for first, end in _ranges(self._ends):
            odds = np.vstack([rows[first:end], np.zeros(rows.shape[1])])
            cells.append(odds - np.logaddexp.reduce(odds, axis=0))
        return cells

    @property
    def _ends(self) -> list[int]:
        """Where the values of each template end; they are named ``template=value``, in order."""
        names, a, ends = self.linear.names, 1, []
        for template in self._others:
            while a < len(names) and names[a].split("=")[0] == template.split("=")[0]:
                a += 1
            ends.append(a)
        return ends

    # ---- looking inside --------------------------------------------------------------------

    @property
    def n_parameters(self) -> int:
        """Y · V for each template of V values, and those of the words."""
        self.check_learned("n_parameters")
        words = 0 if self.word_emission is None else self.word_emission.n_parameters
        return words + self._rows[1:].size

    def order_key(self) -> Float64:
        """Return the key of the words, or of the values of the first template."""
        self.check_learned("order_key")
        if self.word_emission is not None:
            return self.word_emission.order_key()
        first = self._log_cells()[0]
        return np.stack([first.argmax(axis=0), -first.max(axis=0)], axis=1)

    def permute(self, order: Sequence[int]) -> Self:
        """Return the same emission with its states in another order."""
        rows = self._rows[:, np.asarray(order)]
        linear = replace(self.linear, rows=replace(self.linear.rows, weights=rows.ravel()))
        words = None if self.word_emission is None else self.word_emission.permute(order)
        return self.replace(linear=linear, word_emission=words)

    def generate(self, y: npt.NDArray[np.integer[Any]], rng: np.random.Generator) -> Any:
        """Raise: features drawn independently do not make a token."""
        raise self.unsupported(
            "generate",
            "features drawn independently do not make a token",
            "Words and other emissions of whole tokens can generate.",
        )

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the scores of the features, and the tables of the words; see docs/format.md."""
        self.check_learned("to_file")
        linear = self.linear.to_file()
        file = File({"linear": linear.header}, linear.arrays, linear.unverified)
        file = file.prefixed("features_")
        if self.word_emission is None:
            return file
        words = self.word_emission.to_file()
        return file | File({"words": words.header}, words.arrays, words.unverified)

    def from_file(self, file: File) -> Self:
        """Return the emission with the scores and tables of a file."""
        linear = LinearScores.from_file(file.part("features_", file.header["linear"]), None)
        if linear.labels != self.labels or linear.rows.weights.size != linear.index.size * len(
            self.labels
        ):
            raise ModelFileError(
                where=self.kind, expected="a score for each value and label", found="others"
            )
        new = self.replace(linear=linear)
        if new.word_emission is None:
            return new
        words = File(file.header["words"], file.arrays, file.unverified)
        return new.replace(word_emission=new.word_emission.from_file(words))


def find_templates(templates: Any, parameter: str = "templates") -> list[str]:
    """Return the templates, one for each feature that a label emits.

    Raises
    ------
    ParameterError
        If the list is empty, or a template looks at the previous label.
    TemplateError
        If one cannot be read.
    """
    extractor = features.make(list(templates) if isinstance(templates, tuple) else templates)
    if not isinstance(extractor, Templates) or not extractor.templates:
        raise ParameterError(
            parameter=parameter,
            expected="templates, such as ['word', 'suffix(2)', 'col(pos)']",
            found=checks.show(templates),
        )
    edge = next((t for t in extractor.templates if t.startswith("edge(")), None)
    if edge is not None:
        raise ParameterError(
            parameter=parameter,
            expected="templates of one label, since each label emits independently",
            found=f"{edge!r}, which looks at two labels",
            hint="Leave it out, or use MEMM or CRF.",
        )
    return [t for t in dict.fromkeys(extractor.templates) if t != "bias"]


def _ranges(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return where the values of each template begin and end; those of the first begin at 1."""
    return itertools.pairwise([1, *ends])


def _merge_values(a: FeatureStats, b: FeatureStats) -> tuple[_native.Index, list[int], Float64]:
    """Number the values of both, template by template, and sum their counts."""
    keys_a, keys_b = a.index.keys(), b.index.keys()
    names_a, names_b = (list(Names(*stats.index.names())) for stats in (a, b))
    keys, names, counts = [], [], []
    both = zip([(0, 1), *_ranges(a.ends)], [(0, 1), *_ranges(b.ends)], strict=True)
    for (first, end), (first_b, end_b) in both:
        values_b = keys_b[first_b:end_b]
        is_new = ~np.isin(values_b, keys_a[first:end])
        merged = np.concatenate([keys_a[first:end], values_b[is_new]])
        order = np.argsort(merged)
        place = order[np.searchsorted(merged, values_b, sorter=order)]
        summed = np.zeros((len(merged), a.counts.shape[1]))
        summed[: end - first] = a.counts[first:end]
        summed[place] += b.counts[first_b:end_b]  # a value has one place
        keys.append(merged)
        counts.append(summed)
        names += names_a[first:end] + [names_b[first_b + v] for v in np.flatnonzero(is_new)]
    blob = [name.encode() for name in names]
    offsets = np.cumsum([0, *map(len, blob)])
    index = _native.Index.from_keys(np.concatenate(keys), (b"".join(blob), offsets))
    ends = np.cumsum([len(part) for part in keys]).tolist()
    return index, ends[1:], np.concatenate(counts)
