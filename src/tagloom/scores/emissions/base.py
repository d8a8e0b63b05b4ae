"""The emission protocol: everything that a hidden Markov model requires of its emission.

`HMM` is a Markov chain plus an emission. The emission computes log Pr(x_t | y), and learns from
labels or from probabilities of labels. All learners use the same members::

    emission = spec.bind(labels)                 # Y labels; spec itself never changes
    data = emission.encode(X)                    # read the sequences once
    emission = emission.initialise(data, rng)    # without labels: a random start
    emit = emission.log_probs(data)              # [T, Y]
    stats = emission.collect(data, gamma)        # gamma [T, Y], or labels [T]
    stats = emission.merge(stats, more)          # statistics of other sequences, blocks, shards
    emission = emission.update(stats)            # maximise; or draw_posterior(stats, rng)

Counting labelled data is ``update(collect(data, labels))``. Expectation maximisation repeats
``log_probs``, ``collect``, ``update``. A Gibbs sampler replaces ``update`` by ``draw_posterior``,
variational Bayes by ``mean_field``. Emissions never change in place, so threads share a fitted one
without locks.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import ModelFileError, NotFittedError, ParameterError, ShapeError
from tagloom.registries import Registry
from tagloom.scores.linear import Scored
from tagloom.scores.parts import Part, Parts
from tagloom.scores.smoothing import Smoothing
from tagloom.scores.tables import backoff_templates
from tagloom.scores.word_counts import WordTokens
from tagloom.storage import File

if TYPE_CHECKING:
    from tagloom.scores.decoders import Decoder
    from tagloom.scores.emissions.divided import Division

Float64 = npt.NDArray[np.float64]
#: Labels [T] of int, or probabilities of labels [T, Y] of float.
Gamma = npt.NDArray[Any]

#: The group of entry points in which packages announce their kinds of emissions.
ENTRY_POINTS = "tagloom.emissions"

# The classes by kind; a module of tagloom is imported when a file names its emission.
_REGISTRY: Registry[Emission] = Registry(
    ENTRY_POINTS,
    {
        "Bernoulli": "tagloom.scores.emissions.bernoulli",
        "Categorical": "tagloom.scores.emissions.categorical",
        "Features": "tagloom.scores.emissions.features",
        "Gaussian": "tagloom.scores.emissions.gaussian",
        "GaussianMixture": "tagloom.scores.emissions.mixture",
        "Independent": "tagloom.scores.emissions.independent",
        "LexicalWords": "tagloom.scores.emissions.lexical",
        "LogLinear": "tagloom.scores.emissions.log_linear",
        "Multinomial": "tagloom.scores.emissions.multinomial",
        "Poisson": "tagloom.scores.emissions.poisson",
        "Words": "tagloom.scores.emissions.words",
    },
)


@dataclass(frozen=True, eq=False)
class Lookup:
    """Scores of tokens as rows of a table [R, Y].

    Attributes
    ----------
    make_rows : function
        Returns the table of log-probabilities.
    ids : ndarray of int32, shape (T,)
        The row of each token.
    shape : tuple of int
        R and Y.
    places, log_probs : ndarray, shape (K,), or None
        Flat places of some cells, and their values, if they are known without the table.
    """

    make_rows: Callable[[], Float64]
    ids: npt.NDArray[np.int32]
    shape: tuple[int, int]
    places: npt.NDArray[np.int64] | None = None
    log_probs: Float64 | None = None

    @property
    def rows(self) -> Float64:
        """The table [R, Y]."""
        return self.make_rows()

    def at(self, places: npt.NDArray[np.int64]) -> Float64:
        """Return the values at flat places of the table."""
        if self.places is places and self.log_probs is not None:
            return self.log_probs
        return np.asarray(self.rows.reshape(-1)[places])


class Quadratic(NamedTuple):
    """Scores of tokens that are linear in features of their D numbers z.

    The P features are z_d² for all d, or, for all i ≤ j, z_i z_j; then z_d for all d; then 1.
    """

    z: Float64  #: [T, D]
    weights: Float64  #: [P, Y] with P = 2 D + 1 or D (D + 3) / 2 + 1


class Emission(ABC):
    """Base of emissions: the distribution of a token given its label.

    A subclass implements `log_probs`, `collect` and `update`, and those of the other members that
    its users need. Each of these has a default, which may be a clear error. The constructor only
    stores its parameters. Its name in files, the *kind*, is the name of the class or the class
    argument ``kind=``; defining the class registers it. A class defined later replaces an earlier
    one of the same kind. Packages announce theirs by entry points of the group
    ``tagloom.emissions``.

    In the shapes below there are N sequences with T tokens in total, one after another, and Y
    labels. ``X`` is a list of N sequences, or the result of `encode` for it.

    Attributes
    ----------
    labels : tuple of str
        The Y labels, after `bind`; empty before.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> class Lengths(tl.emissions.Emission, kind="examples.Lengths"):
    ...     '''Words of geometrically distributed length: Pr(n | y) = (1 - p) ** (n - 1) * p.'''
    ...     learned = ("p_",)
    ...     def log_probs(self, X):
    ...         n = np.array([len(word) for x in X for word in x])
    ...         return np.log1p(-self.p_) * (n[:, None] - 1) + np.log(self.p_)
    ...     def collect(self, X, gamma, weight=None):
    ...         gamma = tl.emissions.dense(gamma, len(self.labels), weight)
    ...         n = np.array([len(word) for x in X for word in x])
    ...         return np.stack([gamma.sum(axis=0), n @ gamma])  # [2, Y] tokens, letters
    ...     def update(self, stats):
    ...         return self.replace(p_=stats[0] / stats[1])
    >>> X, y = [["a", "cat"], ["the", "house"]], [["D", "N"], ["D", "N"]]
    >>> hmm = tl.HMM(emissions=Lengths()).fit(X, y)
    >>> hmm.emission_.p_
    array([0.5 , 0.25])
    >>> hmm.predict([["an", "animal"]])
    [['D', 'N']]
    """

    #: Name of this class in files.
    kind: ClassVar[str]
    #: Names of the attributes that `update` sets, arrays with a row for each label. The defaults of
    #: `to_file`, `from_file` and `permute` use them.
    learned: tuple[str, ...] = ()

    labels: tuple[str, ...] = ()

    def __init_subclass__(cls, *, kind: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = cls.__name__ if kind is None else kind
        if not inspect.isabstract(cls):
            _REGISTRY.add(cls.kind, cls)

    # ---- parameters ------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in self._defaults()}

    def check(self) -> None:  # noqa: B027  # not every emission has something to check
        """Raise if a parameter is out of range; called before training.

        Raises
        ------
        ParameterError
            Names the parameter.
        """

    def replace(self, **attributes: Any) -> Self:
        """Return a copy with other values of some attributes."""
        new = copy.copy(self)
        new.__dict__.update(attributes)
        return new

    def __eq__(self, other: object) -> bool:
        """Whether two emissions have the same parameters and neither is bound to labels."""
        if self is other or type(self) is not type(other):
            return self is other
        assert isinstance(other, Emission)
        others = other.get_params()
        same = (_same(value, others[name]) for name, value in self.get_params().items())
        return not self.labels and not other.labels and all(same)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        params = self.get_params()
        changed = [
            f"{name}={params[name]!r}"
            for name, default in self._defaults().items()
            if not _same(params[name], default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The constructor's arguments with their default values."""
        if cls.__init__ is object.__init__:
            return {}
        parameters = inspect.signature(cls.__init__).parameters
        return {name: p.default for name, p in parameters.items() if name != "self"}

    # ---- reading ---------------------------------------------------------------------------

    def bind(self, labels: Sequence[str], smoothing: Smoothing | None = None) -> Emission:
        """Return an emission of these labels that is not fitted.

        Parameters
        ----------
        labels : sequence of str
            The Y labels.
        smoothing : Smoothing, optional
            How the model estimates its transitions, for emissions that depend on adjacent labels.
        """
        self.check()
        return self.replace(labels=tuple(labels))

    def encode(self, X: Any) -> Any:
        """Read sequences once, for methods that are called many times with the same X.

        Every method that takes X also takes the result, and so do the emissions that `update`
        returns. By default X is returned unchanged.
        """
        return X

    # ---- scoring ---------------------------------------------------------------------------

    @abstractmethod
    def log_probs(self, X: Any) -> npt.NDArray[Any]:
        """Compute log Pr(x_t | y) of each token and label.

        Returns
        -------
        ndarray of float32 or float64, shape (T, Y)
            −inf where it is impossible; a density may be above 0.
        """

    def scores(self, X: Any, n_threads: int = 1) -> Scored:
        """Compute the scores that a trellis adds to the transitions.

        An emission that depends on the previous or next label overrides this to return ``edge``.

        Returns
        -------
        Scored
            ``offsets`` [N + 1], ``emit`` [T, Y], and ``edge`` [T, Y, Y] or None.
        """
        return Scored(offsets_of(X), self.log_probs(X), None)

    def token_scorer(self) -> Callable[[Any], Float64]:
        """Return a function from one token to log Pr(x | y) [Y], for tokens that arrive one by one.

        By default `log_probs` of a sequence of one token. An emission whose preparations take
        longer than one token overrides it.
        """

        def score(x: Any) -> Float64:
            sequence: Any = [x] if isinstance(x, str) else np.asarray(x)[None]
            return np.asarray(self.log_probs([sequence])[0], dtype=np.float64)

        return score

    @property
    def has_edges(self) -> bool:
        """Whether `scores` has an ``edge``."""
        return False

    def decoder(self, transitions: _native.Dense) -> Decoder | None:
        """Make a native decoder from sequences to labels, which `HMM.predict` then uses.

        Returns
        -------
        Decoder or None
            None, the default, if the emission has none: a trellis then finds the same labels.
        """
        return None

    def parts(self, sequence: Any) -> Parts:
        """Name the terms of the scores of one sequence, for `Tagger.explain`."""
        _, emit, edge = self.scores([sequence])

        def of_transition(t: int, y_prev: int | None, y: int) -> list[Part]:
            parts = [Part("token", float(emit[t, y]))]
            if edge is not None and y_prev is not None:
                parts.append(Part("edge", float(edge[t, y_prev, y]), 2))
            return parts

        return of_transition

    # ---- learning --------------------------------------------------------------------------

    @abstractmethod
    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> Any:
        """Compute the statistics of tokens and their labels that `update` needs.

        Parameters
        ----------
        X : list of sequences, or the result of `encode`
        gamma : ndarray of int, shape (T,), or ndarray of float, shape (T, Y)
            The label of each token; or, for each token, the probability of each label. A label
            counts as probability 1; `dense` converts labels to probabilities.
        weight : ndarray of float, shape (T,), optional
            The weight of each token; 1 by default.

        Returns
        -------
        stats
            In any form that `merge` and `update` accept. Statistics are additive:
            ``merge(collect(A, ...), collect(B, ...))`` is ``collect(A + B, ...)``.
        """

    def merge(self, a: Any, b: Any) -> Any:
        """Sum the statistics of different sequences.

        By default they are numbers, arrays, or lists, tuples or dicts of these.
        """
        return _sum(a, b)

    @abstractmethod
    def update(self, stats: Any) -> Self:
        """Return the emission that fits the statistics best.

        For expectation maximisation it is the maximiser of ::

            Σ_t Σ_y gamma[t, y] · log Pr(x_t | y) + log_prior()
        """

    def log_prior(self) -> float:
        """Return log Pr(parameters) up to a constant; 0 for a flat prior.

        Raises
        ------
        ParameterError
            If `update` does not maximise likelihood times prior.
        """
        return 0.0

    def draw_posterior(self, stats: Any, rng: np.random.Generator) -> Self:
        """Return an emission drawn from the posterior, Pr(parameters | stats).

        Raises
        ------
        ParameterError
            If the emission has no prior to draw from.
        """
        raise self.unsupported("draw_posterior", "it has no prior to draw from")

    def mean_field(self, stats: Any) -> Self:
        """Return the update of variational Bayes, with the posterior q of the parameters.

        Its `log_probs` are E_q[log Pr(x_t | y)], and its `log_prior` is −KL(q ‖ prior). The
        log-partition of a trellis plus `log_prior` is thus a lower bound on the evidence.

        Raises
        ------
        ParameterError
            If the emission has no prior.
        """
        raise self.unsupported("mean_field", "it has no prior")

    def lookup(self, X: Any) -> Lookup | None:
        """Return the scores as a table of rows and the row of each token.

        Learners then look rows up and sum expected counts by row, without statistics of each token.
        An emission that has a table also implements `collect_rows`. None, the default, otherwise.
        """
        return None

    def collect_rows(
        self, X: Any, counts: Float64, seen: npt.NDArray[np.int64] | None = None
    ) -> Any:
        """Compute the statistics of `collect` from expected counts of each row of `lookup`.

        Parameters
        ----------
        X : list of sequences, or the result of `encode`
        counts : ndarray, shape (R, Y), or (K,) with ``seen``
        seen : ndarray of int64, shape (K,), optional
            The flat places of the counts in a table [R, Y], in order; all others are 0.
        """
        raise self.unsupported("collect_rows", "it has no table of rows")

    def quadratic(self, X: Any) -> Quadratic | None:
        """Return the scores as quadratic functions of numbers, as those of normal densities are.

        Learners then sum expected features, without scores and statistics of each token. An
        emission that has such scores also implements `collect_sums`. None, the default, otherwise.
        """
        return None

    def collect_sums(self, X: Any, sums: Float64, weight: Float64 | None = None) -> Any:
        """Compute the statistics of `collect` from expected features of `quadratic`.

        Parameters
        ----------
        X : list of sequences, or the result of `encode`
        sums : ndarray, shape (P, Y)
            Σ_t weight[t] · gamma[t, y] · feature_p(z_t).
        weight : ndarray of float, shape (T,), optional
            The weight of each token; 1 by default.
        """
        raise self.unsupported("collect_sums", "its scores are not quadratic")

    def posterior_mean(self) -> Self:
        """Return the emission to predict with after `mean_field`: with the means under q.

        By default the emission itself, which scores tokens by E_q[log Pr(x_t | y)].
        """
        return self

    def initialise(self, X: Any, rng: np.random.Generator) -> Self:
        """Return a random initial emission, for training without labels.

        By default the update for random probabilities of labels, uniform over the simplex.
        """
        return self.update(self.random_stats(X, rng))

    def random_stats(self, X: Any, rng: np.random.Generator) -> Any:
        """Compute the statistics for random probabilities of labels, uniform over the simplex."""
        offsets = offsets_of(X)
        gamma = rng.dirichlet(np.ones(len(self.labels)), int(offsets[-1]))  # [T, Y]
        return self.collect(X, gamma)

    # ---- shards ----------------------------------------------------------------------------

    def blank(self) -> Emission:
        """Return an emission that is not fitted and encodes and collects sequences like this."""
        new = copy.copy(self)
        for name in self.learned:
            new.__dict__.pop(name, None)
        return new

    def join(self, parts: list[Any]) -> tuple[list[Any], Any]:
        """Return the encoded parts of a shard in the form to learn from, and their outline.

        An outline contains what all shards together need to know of one, see `divide`. By default
        the parts stay as they are, and the outline is None.
        """
        return parts, None

    def divide(self, outlines: Sequence[Any]) -> Division:
        """Return how the emission is divided among shards with these outlines."""
        from tagloom.scores.emissions.divided import Whole

        return Whole()

    # ---- looking inside --------------------------------------------------------------------

    def generate(self, y: npt.NDArray[np.integer[Any]], rng: np.random.Generator) -> Any:
        """Draw a sequence given its labels.

        Parameters
        ----------
        y : ndarray of int, shape (T,)
            The label of each token.
        rng : Generator

        Returns
        -------
        sequence
            T tokens, in a form that `log_probs` takes a list of.

        Raises
        ------
        ParameterError
            If the emission cannot draw tokens.
        """
        raise self.unsupported("generate", "it cannot draw tokens")

    @property
    def n_parameters(self) -> int:
        """Number of free parameters, for information criteria.

        Raises
        ------
        ParameterError
            If the emission does not count them.
        """
        raise self.unsupported("n_parameters", "it does not count its parameters")

    def order_key(self) -> Float64:
        """Return the key by which states are sorted, so that their order is stable.

        Returns
        -------
        ndarray, shape (Y,) or (Y, n)
            Compared from the first column to the last.

        Raises
        ------
        ParameterError
            If the emission has no such order.
        """
        raise self.unsupported("order_key", "its states have no order")

    def permute(self, order: Sequence[int]) -> Self:
        """Return the same emission with its states in another order; state i is ``order[i]``.

        The names in ``labels`` stay where they are.
        """
        if not self.learned:
            raise self.unsupported("permute", "its states have a fixed order")
        places = np.asarray(order)
        return self.replace(**{name: getattr(self, name)[places] for name in self.learned})

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the fitted state as a header of plain data and arrays.

        By default the arrays named in ``learned``. The parameters and the kind of an emission are
        always stored. Array names must differ from ``start``, ``stop`` and ``moves…``.
        """
        self.check_learned("to_file")
        return File({}, {f"emission_{name}": getattr(self, name) for name in self.learned})

    def from_file(self, file: File) -> Self:
        """Return the emission with the state of a file; self has the parameters and labels.

        The file is not trusted. By default each array must be finite numbers in Y rows.

        Raises
        ------
        ModelFileError, ValueError, KeyError
            If its parts do not fit together.
        """
        arrays = {name: file.arrays[f"emission_{name}"] for name in self.learned}
        for name, array in arrays.items():
            if array.shape[:1] != (len(self.labels),) or not np.isfinite(array).all():
                raise ModelFileError(
                    where=f"{self.kind}, {name}",
                    expected=f"finite numbers in {len(self.labels)} rows",
                    found=f"{array.dtype} {array.shape}",
                )
        return self.replace(**arrays)

    # ---- helpers ---------------------------------------------------------------------------

    @property
    def is_fitted(self) -> bool:
        """Whether `update` has set the ``learned`` attributes."""
        return all(hasattr(self, name) for name in self.learned)

    def check_learned(self, method: str) -> None:
        """Raise if the emission is not fitted.

        Raises
        ------
        NotFittedError
        """
        if not self.is_fitted:
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted.",
                where=f"{type(self).__name__}.{method}",
                expected="a fitted emission",
                hint="Use emission_ of a fitted HMM, or the result of update().",
            )

    def unsupported(self, member: str, reason: str, hint: str | None = None) -> ParameterError:
        """Return the error for a member of the protocol that this emission does not have."""
        return ParameterError(
            f"not supported: {reason}.",
            where=f"{type(self).__name__}.{member}",
            expected=f"an emission that supports {member}",
            found=f"{type(self).__name__}: {reason}",
            hint=hint,
        )


# ---- helpers of emissions ----------------------------------------------------------------------


def dense(gamma: Gamma, Y: int, weight: Float64 | None = None) -> Float64:
    """Return labels as probabilities of labels, times the weights of tokens.

    Parameters
    ----------
    gamma : ndarray of int, shape (T,), or ndarray of float, shape (T, Y)
    Y : int
    weight : ndarray, shape (T,), optional

    Returns
    -------
    ndarray of float64, shape (T, Y)

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> tl.emissions.dense(np.array([1, 0]), 3, weight=np.array([1.0, 0.5]))
    array([[0. , 1. , 0. ],
           [0.5, 0. , 0. ]])
    """
    gamma = check_gamma(gamma, len(gamma), Y)
    if gamma.ndim == 1:
        one_hot = np.zeros((len(gamma), Y))
        one_hot[np.arange(len(gamma)), gamma] = 1.0 if weight is None else weight
        return one_hot
    return gamma if weight is None else gamma * weight[:, None]


def check_gamma(gamma: Any, T: int, Y: int) -> Gamma:
    """Return labels [T] as int32, or probabilities [T, Y] as float64.

    Raises
    ------
    ShapeError
        If they have another shape or type, or a label is out of range.
    """
    array = np.asarray(gamma)
    if array.ndim == 1 and array.dtype.kind in "iu" and len(array) == T:
        if T and not 0 <= array.min() <= array.max() < Y:
            raise ShapeError(
                parameter="gamma",
                expected=f"labels from 0 to {Y - 1}",
                found=f"{array.min()} to {array.max()}",
            )
        return np.ascontiguousarray(array, dtype=np.int32)
    if array.shape == (T, Y) and array.dtype.kind == "f":
        return np.ascontiguousarray(array, dtype=np.float64)
    raise ShapeError(
        parameter="gamma",
        expected=f"{T} integers, or floats of shape ({T}, {Y})",
        found=f"{array.dtype} of shape {array.shape}",
    )


def offsets_of(X: Any) -> npt.NDArray[np.int64]:
    """Return the offsets of sequences, [N + 1]: where each begins, and where the last ends."""
    offsets = getattr(X, "offsets", None)  # of encoded data
    if isinstance(offsets, np.ndarray):
        return offsets
    lengths = _native.list_lengths(X)
    if lengths is None:
        lengths = np.fromiter(map(len, X), dtype=np.int64, count=len(X))
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


def fingerprint_of(X: Any) -> tuple[npt.NDArray[Any], ...]:
    """Return arrays that identify sequences of words, of numbers, or encoded ones."""
    arrays = getattr(X, "fingerprint", None)
    if arrays is not None:
        return tuple(arrays)
    if len(X) and all(isinstance(x, np.ndarray) and x.dtype.kind in "iufb" for x in X):
        return (np.concatenate([np.reshape(x, (len(x), -1)) for x in X]),)
    rows = [[_printable(token) for token in getattr(x, "tokens", x)] for x in X]
    return WordTokens.read(backoff_templates(0), rows).fingerprint


def _printable(token: Any) -> str:
    return str(token).encode("utf-8", "replace").decode()


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    return a is b or (type(a) is type(b) and bool(a == b))


def _sum(a: Any, b: Any) -> Any:
    if isinstance(a, Mapping):
        return {name: _sum(value, b[name]) for name, value in a.items()}
    if isinstance(a, list | tuple):
        summed = [_sum(*pair) for pair in zip(a, b, strict=True)]
        return type(a)(*summed) if hasattr(a, "_fields") else type(a)(summed)
    return a + b


# ---- the registry ------------------------------------------------------------------------------


def find_kind(name: str) -> type[Emission] | None:
    """Return the class of a kind of emission, or None if no package has it."""
    return _REGISTRY.find(name)


def known_kinds() -> list[str]:
    """Return the names of all kinds: of tagloom, of this process, of other packages.

    Examples
    --------
    >>> import tagloom as tl
    >>> "Words" in tl.emissions.known_kinds()
    True
    """
    return _REGISTRY.names()


def to_plain(emission: Emission) -> dict[str, Any]:
    """Return kind and parameters of an emission as plain data; `from_plain` reads it."""
    params = {name: _plain(value) for name, value in emission.get_params().items()}
    return {"kind": emission.kind, "params": params}


def from_plain(data: Any) -> Emission:
    """Make an unfitted emission from the result of `to_plain`.

    Raises
    ------
    ModelFileError
        If the kind is unknown.
    ParameterError
        If a parameter is out of range.
    """
    kind = data["kind"]
    cls = find_kind(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ModelFileError(
            where="emission",
            expected=f"one of {', '.join(known_kinds())}",
            found=f"the kind {checks.show(kind)}",
            hint="Import the module that defines its class before you load the model.",
        )
    params = {name: _from_plain(value) for name, value in data["params"].items()}
    emission = cls(**params)
    emission.check()
    return emission


def _plain(value: Any) -> Any:
    if isinstance(value, Emission):
        return to_plain(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    return from_plain(value) if isinstance(value, dict) and "kind" in value else value
