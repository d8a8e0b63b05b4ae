r"""Symbols of a finite set, such as words or codes: a probability for each label and symbol.

    Pr(v | y) = (count(v, y) + α - 1) / (count(y) + (V + 1) · (α - 1))

V symbols were seen; one more cell is for all others. α is the parameter of a Dirichlet prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ModelFileError, ParameterError, SentenceError
from tagloom.scores.emissions import dirichlet
from tagloom.scores.emissions.base import (
    Emission,
    Float64,
    Gamma,
    Lookup,
    check_gamma,
    offsets_of,
)
from tagloom.scores.emissions.divided import Division, OfSymbols, Outline
from tagloom.scores.linear import Scored
from tagloom.scores.tables import Int32, Int64, find_types
from tagloom.scores.word_counts import add_rows
from tagloom.storage import File

#: Symbols: str, or int; the numbers of those of a shard.
Symbols = tuple[Any, ...] | range

# Probabilities below this become 0: the likelihood is the same, and sums over paths stay fast.
_LEAST = 1e-90
_MOST_SYMBOLS = 2**24  # given as a number; a damaged file may name any


@dataclass(frozen=True, eq=False)
class SymbolTokens:
    """Sequences as numbers: the symbol of each token.

    Attributes
    ----------
    symbols : tuple of str or int
        The V symbols.
    ids : ndarray of int32, shape (T,)
        The symbol of each token; V for one that is not among them, V + 1 for a missing value.
    offsets : ndarray of int64, shape (N + 1,)
    """

    symbols: Symbols
    ids: Int32
    offsets: Int64

    @property
    def fingerprint(self) -> tuple[npt.NDArray[Any], ...]:
        """Arrays that identify the sequences."""
        names = "\0".join(map(str, self.symbols)).encode("utf-8", "replace")
        return np.frombuffer(names, dtype=np.uint8), self.ids


@dataclass(frozen=True, eq=False)
class SymbolStats:
    """How often each symbol has each label.

    Attributes
    ----------
    symbols : tuple of str or int
    counts : ndarray, shape (V + 1, Y)
        Plain or expected counts; the last row is for all other symbols.
    """

    symbols: Symbols
    counts: Float64


@dataclass(frozen=True, eq=False)
class FewSymbolStats:
    """The same for few pairs of a symbol and a label; all other counts are 0.

    Attributes
    ----------
    symbols : tuple of str or int
    seen : ndarray of int64, shape (K,)
        The places of the pairs in a flat table [V + 1, Y], in order.
    few : ndarray, shape (K,)
        Their counts.
    Y : int
    """

    symbols: Symbols
    seen: Int64
    few: Float64
    Y: int

    @property
    def counts(self) -> Float64:
        """All counts [V + 1, Y]."""
        counts = np.zeros((len(self.symbols) + 1, self.Y))
        counts.reshape(-1)[self.seen] = self.few
        return counts


class FewProbs(NamedTuple):
    """Probabilities of few pairs of a symbol and a label; all others of a label are equal."""

    seen: Int64  #: [K] places in a flat table [V + 1, Y], in order
    log_probs: Float64  #: [K]
    log_other: Float64  #: [Y] of all other pairs of a label
    n_other: Int64  #: [Y] their number
    cells: int  #: V + 1

    def rows(self) -> Float64:
        """Log-probabilities of the symbols, of all others, and of a missing value [V + 2, Y]."""
        rows = np.empty((self.cells + 1, len(self.log_other)))
        rows[:-1] = self.log_other
        rows[-1] = 0
        rows.reshape(-1)[self.seen] = self.log_probs
        return rows

    def total(self) -> float:
        """The sum of the logarithms of all pairs."""
        others = np.where(self.n_other > 0, self.n_other * self.log_other, 0.0)
        return float(self.log_probs.sum() + others.sum())


#: Statistics of `Categorical`.
AnyStats = SymbolStats | FewSymbolStats


class Categorical(Emission):
    r"""Symbols, such as words or integer codes, with a probability for each label.

    The symbols are those of the training data. One more cell has the probability of all others, so
    that new sequences may contain them; a NaN among numbers is a missing value, which any label
    emits with probability 1.

    Parameters
    ----------
    prior : float
        α of the Dirichlet prior of the V + 1 cells. Expectation maximisation takes the mode of the
        posterior, which needs α ≥ 1: each cell gets α − 1 pseudo-counts. With 1 it maximises the
        likelihood, and symbols that were not seen are impossible. Variational Bayes and Gibbs
        sampling take any α above 0.
    symbols : list of str or int, or int, optional
        The symbols, or their number n for 0 … n − 1; by default those of the training data.

    Attributes
    ----------
    probs_ : ndarray, shape (Y, V + 1)
        Pr(v | y); the last column is for all other symbols.
    symbols_ : tuple of str or int
        The V symbols.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> emission = tl.emissions.Categorical(prior=1).bind(["N", "V"])
    >>> X = [["they", "can", "fish"], ["they", "fish"]]
    >>> emission = emission.update(emission.collect(X, np.array([0, 1, 1, 0, 0])))
    >>> emission.symbols_, emission.probs_.round(3)
    (('they', 'can', 'fish'), array([[0.667, 0.   , 0.333, 0.   ],
           [0.   , 0.5  , 0.5  , 0.   ]]))
    """

    learned: tuple[str, ...] = ("probs_",)

    def __init__(
        self, *, prior: float = 1.01, symbols: Sequence[str] | Sequence[int] | int | None = None
    ) -> None:
        self.prior = prior
        self.symbols = symbols

    probs_: Float64
    symbols_: Symbols = ()
    _divergence: float | None = None  # of the variational posterior from the prior
    _posterior: Float64 | None = None  # [V + 1, Y] parameters of the variational posterior
    _cache: tuple[Any, Any] = (None, None)  # probs_, and the scores of its symbols
    _few: FewProbs | None = None  # the same as probs_, which is then computed when it is read

    def __getattr__(self, name: str) -> Any:
        few = self.__dict__.get("_few")
        if name != "probs_" or few is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        rows = few.rows()
        self.probs_ = np.exp(rows[:-1]).T
        self._cache = self.probs_, rows
        return self.probs_

    def replace(self, **attributes: Any) -> Self:
        """Return a copy with other values of some attributes."""
        if "probs_" in attributes:
            attributes["_few"] = None
        return super().replace(**attributes)

    @property
    def is_fitted(self) -> bool:
        """Whether `update` has set the probabilities."""
        return self._few is not None or super().is_fitted

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        checks.number(self.prior, "prior", above=0)
        self._given_symbols()

    def _given_symbols(self) -> Symbols | None:
        """The symbols that the user listed; None if the data have them."""
        given = self.symbols
        if given is None:
            return None
        if isinstance(given, int | np.integer):
            n = checks.count(given, "symbols", least=1)
            if n > _MOST_SYMBOLS:
                raise ParameterError(
                    parameter="symbols",
                    expected=f"at most {_MOST_SYMBOLS:,} symbols",
                    found=f"{n:,}",
                )
            return tuple(range(n))
        symbols = tuple(x.item() if isinstance(x, np.generic) else x for x in given)
        kinds = {type(x) for x in symbols}
        if len(set(symbols)) < len(symbols) or kinds not in ({str}, {int}):
            raise ParameterError(
                parameter="symbols",
                expected="a number of symbols, or distinct symbols, all str or all int",
                found=checks.show(given),
            )
        return symbols

    @classmethod
    def from_probs(
        cls, labels: Sequence[str], symbols: Sequence[Any], probs: npt.ArrayLike, **params: Any
    ) -> Categorical:
        """Make an emission from Pr(v | y) [Y, V]; other symbols are impossible.

        Examples
        --------
        >>> import numpy as np
        >>> import tagloom as tl
        >>> probs = [[0.5, 0.5], [0.9, 0.1]]
        >>> coins = tl.emissions.Categorical.from_probs(["fair", "biased"], [0, 1], probs)
        >>> coins.generate([0, 1, 1], np.random.default_rng(0))
        [1, 0, 0]
        """
        given = np.asarray(probs, dtype=np.float64)
        if given.shape != (len(labels), len(symbols)) or not _are_probs(given):
            raise ParameterError(
                parameter="probs",
                expected=f"probabilities of shape ({len(labels)}, {len(symbols)})",
                found=f"an array of shape {given.shape}",
            )
        whole = np.concatenate([given, np.zeros((len(labels), 1))], axis=1)
        named = tuple(x.item() if isinstance(x, np.generic) else x for x in symbols)
        return cls(**params).replace(labels=tuple(labels), symbols_=named, probs_=whole)

    # ---- reading ---------------------------------------------------------------------------

    def bind(self, labels: Sequence[str], smoothing: Any = None) -> Emission:
        """Return an emission of these labels; one that is fitted for as many stays fitted."""
        new = super().bind(labels, smoothing)
        if self.is_fitted and len(self.probs_) != len(labels):
            raise ParameterError(
                parameter="emissions",
                expected=f"probabilities for {len(labels)} labels",
                found=f"for {len(self.probs_)}",
            )
        return new

    def encode(self, X: Any) -> SymbolTokens:
        """Number the symbols of sequences.

        Raises
        ------
        SentenceError
            If a token is neither a str nor a whole number; names the token.
        """
        if isinstance(X, SymbolTokens):
            return X
        data = SymbolTokens(*read_symbols(X))
        known = self.symbols_ or self._given_symbols()
        return _renumber(data, known) if known else data

    # ---- scoring ---------------------------------------------------------------------------

    def log_probs(self, X: Any) -> Float64:
        """Look up log Pr(v | y) of every token [T, Y]; 0 for a missing value."""
        return np.take(self.rows, self.locate(X).ids, axis=0)

    def locate(self, X: Any) -> SymbolTokens:
        """Return the row of `rows` for every token, as ``ids``."""
        self.check_learned("log_probs")
        data = self.encode(X)
        is_same = data.symbols is self.symbols_ or (
            isinstance(data.symbols, range) and data.symbols == self.symbols_
        )
        return data if is_same else _renumber(data, self.symbols_)

    def scores(self, X: Any, n_threads: int = 1) -> Scored:
        """Look up every token."""
        data = self.locate(X)
        return Scored(data.offsets, np.take(self.rows, data.ids, axis=0), None)

    def lookup(self, X: Any) -> Lookup:
        """Return the scores of the symbols, and the symbol of each token."""
        ids, few = self.locate(X).ids, self._few
        shape = len(self.symbols_) + 2, len(self.labels)
        if few is None:
            return Lookup(lambda: self.rows, ids, shape)
        return Lookup(lambda: self.rows, ids, shape, few.seen, few.log_probs)

    @property
    def rows(self) -> Float64:
        """Log-probabilities of the symbols, of all others, and of a missing value [V + 2, Y]."""
        if self._cache[0] is not self.probs_:
            rows = np.zeros((self.probs_.shape[1] + 1, len(self.probs_)))
            with np.errstate(divide="ignore"):
                np.log(self.probs_.T, out=rows[:-1])
            self._cache = self.probs_, rows
        rows = self._cache[1]
        return rows  # type: ignore[no-any-return]

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> SymbolStats:
        """Count the symbols with each label; see `Emission.collect`."""
        data, Y = self.encode(X), len(self.labels)
        V = len(data.symbols)
        gamma = check_gamma(gamma, len(data.ids), Y)
        return SymbolStats(data.symbols, add_rows(data.ids, gamma, weight, V + 2, Y)[:-1])

    def collect_rows(self, X: Any, counts: Float64, seen: Int64 | None = None) -> AnyStats:
        """Return the counts of symbols; those of missing values are left out."""
        symbols, Y = self.encode(X).symbols, len(self.labels)
        if seen is None:
            return SymbolStats(symbols, counts[:-1])
        n = int(np.searchsorted(seen, (len(symbols) + 1) * Y))
        if n < len(seen):
            seen, counts = seen[:n], counts[:n]
        return FewSymbolStats(symbols, seen, counts, Y)

    def merge(self, a: AnyStats, b: AnyStats) -> AnyStats:
        """Sum the statistics of different sequences, which may have different symbols."""
        if a.symbols is b.symbols or a.symbols == b.symbols:
            if isinstance(a, FewSymbolStats) and isinstance(b, FewSymbolStats):
                return _sum_few(a.symbols, [a.seen, b.seen], [a.few, b.few], a.Y)
            return SymbolStats(a.symbols, a.counts + b.counts)
        number = {symbol: v for v, symbol in enumerate(a.symbols)}
        places = [number.setdefault(symbol, len(number)) for symbol in b.symbols]
        counts = np.zeros((len(number) + 1, a.counts.shape[1]))
        counts[: len(a.symbols)] = a.counts[:-1]
        counts[places] += b.counts[:-1]
        counts[-1] = a.counts[-1] + b.counts[-1]
        return SymbolStats(tuple(number), counts)

    def update(self, stats: AnyStats) -> Self:
        """Estimate Pr(v | y): the mode of the posterior, Dirichlet(count(v, y) + α)."""
        self._check_mode("update")
        pseudo = self.prior - 1
        if isinstance(stats, FewSymbolStats):
            new = self._update_few(stats)
            if new is not None:
                return new
        masses = stats.counts + pseudo  # [V + 1, Y]
        totals = masses.sum(axis=0)
        is_dead = totals <= 0
        masses /= np.where(is_dead, 1.0, totals)
        if is_dead.any():
            # A label without tokens keeps its distribution, or begins with a uniform one.
            is_known = self.is_fitted and self.probs_.shape == masses.T.shape
            before = self.probs_.T if is_known else np.full(masses.shape, 1 / len(masses))
            masses[:, is_dead] = before[:, is_dead]
        if pseudo == 0:
            masses[masses < _LEAST] = 0
        return self._learn(stats, masses.T)

    def _update_few(self, stats: FewSymbolStats) -> Self | None:
        """Update from counts of few cells; None if a label has none.

        A tag dictionary leaves most words with few labels. All other cells of a label have the same
        probability, and the whole table is not written in each iteration.
        """
        cells, Y, seen = len(stats.symbols) + 1, stats.Y, stats.seen
        pseudo, label = self.prior - 1, seen % Y
        masses = stats.few + pseudo  # [K]
        n_other = cells - np.bincount(label, minlength=Y)
        totals = np.bincount(label, masses, minlength=Y) + pseudo * n_other
        if (totals <= 0).any():
            return None
        masses /= totals[label]
        if pseudo == 0:
            masses[masses < _LEAST] = 0
        with np.errstate(divide="ignore"):
            few = FewProbs(seen, np.log(masses), np.log(pseudo / totals), n_other, cells)
        new = self.replace(symbols_=stats.symbols, _few=few, _divergence=None, _posterior=None)
        new.__dict__.pop("probs_", None)
        return new

    def draw_posterior(self, stats: AnyStats, rng: np.random.Generator) -> Self:
        """Draw Pr(v | y) from its posterior, Dirichlet(count(v, y) + α)."""
        return self._learn(stats, np.exp(dirichlet.draw(stats.counts + self.prior, rng)).T)

    def mean_field(self, stats: AnyStats) -> Self:
        """Return the update of variational Bayes; see `Emission.mean_field`."""
        alpha = stats.counts + self.prior
        new = self._learn(stats, np.exp(dirichlet.mean_log(alpha)).T)
        divergence = dirichlet.divergence(alpha, self.prior)
        return new.replace(_divergence=divergence, _posterior=alpha)

    def posterior_mean(self) -> Self:
        """Return the mean of the variational posterior; the emission itself without one."""
        if self._posterior is None:
            return self
        probs = np.ascontiguousarray((self._posterior / self._posterior.sum(axis=0)).T)
        return self.replace(probs_=probs, _divergence=None, _posterior=None)

    def _learn(self, stats: AnyStats, probs: Float64) -> Self:
        return self.replace(
            probs_=probs,
            symbols_=stats.symbols,  # the same tuple as in the encoded data
            _divergence=None,
            _posterior=None,
        )

    def to_vector(self) -> Float64:
        """Return a vector [Y · (V + 1)] for the algorithm "gradient": logarithms of `probs_`."""
        self.check_learned("to_vector")
        return np.log(np.maximum(self.probs_, _LEAST)).ravel()

    def with_vector(self, theta: Float64) -> Self:
        """Return the emission whose probabilities are proportional to exp(theta)."""
        scores = theta.reshape(self.probs_.shape)
        masses = np.exp(scores - scores.max(axis=1, keepdims=True))
        return self.replace(probs_=masses / masses.sum(axis=1, keepdims=True))

    def gradient(self, stats: AnyStats) -> Float64:
        """Return the gradient of Σ count(v, y) · log Pr(v | y) + `log_prior` [Y · (V + 1)]."""
        masses = (stats.counts + (self.prior - 1)).T
        return np.asarray(masses - masses.sum(axis=1, keepdims=True) * self.probs_).ravel()

    def log_prior(self) -> float:
        """Return (α − 1) · Σ log Pr(v | y); after `mean_field`, −KL(q ‖ prior)."""
        self.check_learned("log_prior")
        if self._divergence is not None:
            return -self._divergence
        self._check_mode("log_prior")
        if self.prior == 1:
            return 0.0
        if self._few is not None:
            return (self.prior - 1) * self._few.total()
        return (self.prior - 1) * float(self.rows[:-1].sum())

    def _check_mode(self, member: str) -> None:
        if self.prior < 1:
            raise ParameterError(
                where=f"Categorical.{member}",
                parameter="prior",
                expected="at least 1 for expectation maximisation: the posterior has no mode below",
                found=f"{self.prior}",
                hint="Variational Bayes and Gibbs sampling take it.",
            )

    def initialise(self, X: Any, rng: np.random.Generator) -> Self:
        """Return a random initial emission: the labels of each symbol are drawn, not of each token.

        Frequent symbols would otherwise have nearly the same probability in all labels.
        """
        data = self.encode(X)
        times = np.bincount(data.ids, minlength=len(data.symbols) + 2)
        return self.initialise_counts(data.symbols, times, rng)

    def initialise_counts(
        self, symbols: Symbols, times: npt.NDArray[Any], rng: np.random.Generator
    ) -> Self:
        """Do the same, given how often each symbol, others and missing values occur [V + 2]."""
        shares = rng.dirichlet(np.ones(len(self.labels)), len(times))  # [V + 2, Y]
        counts = shares * times[:, None]
        start = self.replace(prior=max(self.prior, 1.0)).update(SymbolStats(symbols, counts[:-1]))
        return start.replace(prior=self.prior)

    # ---- shards ----------------------------------------------------------------------------

    def blank(self) -> Categorical:
        """Return an emission of the same symbols that is not fitted."""
        return Categorical(symbols=self.symbols).replace(labels=self.labels, symbols_=self.symbols_)

    def join(self, parts: list[SymbolTokens]) -> tuple[list[SymbolTokens], Outline]:
        """Number the symbols that occur in the parts; see `Emission.join`."""
        number: dict[Any, int] = {}
        places = []
        for part in parts:
            V = len(part.symbols)
            occurs = np.flatnonzero(np.bincount(part.ids, minlength=V)[:V])
            own = np.full(V, -1)
            own[occurs] = [number.setdefault(part.symbols[v], len(number)) for v in occurs]
            places.append(own)
        W = len(number)
        times, joined = np.zeros(W + 2, dtype=np.int64), []
        for part, own in zip(parts, places, strict=True):
            ids = np.array([*own, W, W + 1], dtype=np.int32)[part.ids]
            times += np.bincount(ids, minlength=W + 2)
            joined.append(SymbolTokens(range(W), ids, part.offsets))
        return joined, Outline(tuple(number), times)

    def divide(self, outlines: Sequence[Outline]) -> Division:
        """Give each shard the probabilities of its own symbols."""
        return OfSymbols(outlines, self.symbols_ or self._given_symbols())

    def part(self, rows: Float64) -> Categorical:
        """Return the emission of a shard, given its rows of `rows` [V_s + 2, Y]."""
        probs = np.exp(rows[:-1]).T
        symbols = range(len(rows) - 2)
        part = Categorical().replace(labels=self.labels, symbols_=symbols, probs_=probs)
        part._cache = probs, rows
        return part

    def merge_counts(self, symbols: Symbols, parts: Sequence[tuple[AnyStats, Int64]]) -> AnyStats:
        """Merge the statistics of shards.

        Parameters
        ----------
        symbols : tuple
            All V symbols.
        parts : sequence of (stats, places)
            The counts of each shard, and the row in a table [V + 1, Y] of each of its rows.
        """
        if all(isinstance(stats, FewSymbolStats) for stats, _ in parts):
            few: Any = [stats for stats, _ in parts]
            seen = [
                places[stats.seen // stats.Y] * stats.Y + stats.seen % stats.Y
                for stats, (_, places) in zip(few, parts, strict=True)
            ]
            return _sum_few(symbols, seen, [stats.few for stats in few], few[0].Y)
        counts = np.zeros((len(symbols) + 1, len(self.labels)))
        for stats, places in parts:
            np.add.at(counts, places, stats.counts)
        return SymbolStats(symbols, counts)

    # ---- looking inside --------------------------------------------------------------------

    def generate(self, y: npt.NDArray[np.integer[Any]], rng: np.random.Generator) -> list[Any]:
        """Draw one of the V symbols for each label."""
        self.check_learned("generate")
        probs = self.probs_[:, :-1]
        return [self.symbols_[int(rng.choice(len(self.symbols_), p=p / p.sum()))] for p in probs[y]]

    @property
    def n_parameters(self) -> int:
        """Y · V; with ``prior=1``, where other symbols are impossible, Y · (V − 1)."""
        self.check_learned("n_parameters")
        Y, cells = self.probs_.shape
        return int(Y * (cells - 1 - (self.prior == 1)))

    def order_key(self) -> Float64:
        """Return the number of each label's most probable symbol, and its probability, negative."""
        self.check_learned("order_key")
        probs = self.probs_[:, :-1]
        return np.stack([probs.argmax(axis=1), -probs.max(axis=1)], axis=1)

    def permute(self, order: Sequence[int]) -> Self:
        """Return the same emission with its states in another order."""
        new = super().permute(order)
        if self._posterior is None:
            return new
        return new.replace(_posterior=self._posterior[:, np.asarray(order)])

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the probabilities, and the symbols as plain data."""
        self.check_learned("to_file")
        arrays = {"emission_probs_": np.ascontiguousarray(self.probs_)}
        posterior = {} if self._posterior is None else {"emission_posterior": self._posterior}
        return File({"symbols": list(self.symbols_)}, arrays | posterior)

    def from_file(self, file: File) -> Self:
        """Return the emission with the state of a file."""
        symbols = tuple(file.header["symbols"])
        new = super().from_file(file)
        kinds = {type(symbol) for symbol in symbols}
        if (
            len(set(symbols)) < len(symbols)
            or not kinds <= {str, int}
            or len(kinds) > 1
            or new.probs_.shape != (len(self.labels), len(symbols) + 1)
            or not _are_probs(new.probs_)
        ):
            raise ModelFileError(
                where=self.kind,
                expected="distinct symbols, and a probability for each and each label",
                found=f"{len(symbols)} symbols, probabilities of shape {new.probs_.shape}",
            )
        probs = np.ascontiguousarray(new.probs_, dtype=np.float64)
        new = new.replace(symbols_=symbols, probs_=probs)
        posterior = file.arrays.get("emission_posterior")
        if posterior is None:
            return new
        if posterior.shape != probs.T.shape or not (posterior > 0).all():
            raise ModelFileError(
                where=self.kind,
                expected=f"parameters above 0 of shape {probs.T.shape}",
                found=f"an array of shape {posterior.shape}",
            )
        divergence = dirichlet.divergence(posterior, self.prior)
        return new.replace(_posterior=posterior, _divergence=divergence)


def _sum_few(
    symbols: Symbols, seen: Sequence[Int64], counts: Sequence[Float64], Y: int
) -> FewSymbolStats:
    """Sum counts of few pairs, given by their flat places; each list has a place once at most."""
    places, numbers = np.unique(np.concatenate(seen), return_inverse=True)
    total = np.bincount(numbers, np.concatenate(counts), minlength=len(places)).astype(np.float64)
    return FewSymbolStats(symbols, places, total, Y)


def _are_probs(probs: Float64) -> bool:
    """Whether rows are distributions, or less: those of variational Bayes sum to less than 1."""
    return bool(
        np.isfinite(probs).all() and (probs >= 0).all() and (probs.sum(axis=1) <= 1 + 1e-6).all()
    )


def _renumber(data: SymbolTokens, symbols: Symbols) -> SymbolTokens:
    """Return the same sequences numbered by other symbols."""
    W = len(symbols)
    number = {symbol: v for v, symbol in enumerate(symbols)}
    places = [number.get(symbol, W) for symbol in data.symbols]
    return SymbolTokens(
        symbols, np.array([*places, W, W + 1], dtype=np.int32)[data.ids], data.offsets
    )


def read_symbols(X: Any) -> tuple[Symbols, Int32, Int64]:
    """Read sequences of str or of whole numbers: symbols, ids [T], offsets [N + 1]."""
    if _are_numbers(X):
        return _read_numbers(X)
    types = find_types(X)
    return tuple(types.words), types.ids, types.offsets


def _are_numbers(X: Any) -> bool:
    for x in X:
        if isinstance(x, np.ndarray):
            return x.dtype.kind in "iufb"
        tokens = getattr(x, "tokens", x)
        if len(tokens):
            return not isinstance(tokens[0], str)
    return False


def _read_numbers(X: Any) -> tuple[Symbols, Int32, Int64]:
    offsets = offsets_of(X)
    rows = []
    for i, x in enumerate(X):
        try:
            values = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.empty((0, 0))
        if len(values) != len(x) or values.size != len(x):
            raise SentenceError(
                where=checks.place(i),
                expected="one whole number for each token",
                found=f"an array of shape {np.shape(x)}",
                hint="For measurements use emissions=tl.emissions.Gaussian(); for several columns "
                "of symbols, emissions=tl.emissions.Independent(...).",
            )
        rows.append(values.reshape(-1))
    flat = np.concatenate([*rows, np.empty(0)])
    is_missing = np.isnan(flat)
    wrong = np.flatnonzero(~is_missing & (flat != np.round(flat)))
    if len(wrong):
        t = int(wrong[0])
        i = int(np.searchsorted(offsets, t, side="right")) - 1
        raise SentenceError(
            where=checks.place(i, t - int(offsets[i])),
            expected="a whole number, the code of a symbol",
            found=checks.show(float(flat[t])),
            hint="For measurements use emissions=tl.emissions.Gaussian().",
        )
    values, numbers = np.unique(flat[~is_missing].astype(np.int64), return_inverse=True)
    ids = np.full(len(flat), len(values) + 1, dtype=np.int32)
    ids[~is_missing] = numbers
    return tuple(values.tolist()), ids, offsets
