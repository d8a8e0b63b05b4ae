"""The interface between `tagloom.HMM` and the algorithms that learn it without labels.

`HMM.fit` reads its data into an `Unlabelled` problem. An `Algorithm` turns the problem and a seed
into a learner, which the loop of `tagloom.training` runs::

    problem = Unlabelled(data, offsets, emission, ...)
    learner = EM(max_iterations=100).start(problem, seed=0)   # a training.Learner
    outcome = training.fit_iteratively(learner, max_iterations=100)
    chain, emission = outcome.weights

Restarts, dead states, the order of states and the choice of the best run are the same for all
algorithms; see `restarts`.
"""

from __future__ import annotations

import inspect
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError
from tagloom.parameters import Parameterised
from tagloom.registries import Registry
from tagloom.scores.emissions import Emission
from tagloom.scores.markov import MarkovChain
from tagloom.storage import File
from tagloom.training.learners import Learner, State

if TYPE_CHECKING:
    from tagloom.learners.passes import Passes

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

#: A hidden Markov model as learners pass it on.
ChainAndEmission = tuple[MarkovChain, Emission]

#: Parts of a model that ``fixed`` may name; the stop belongs to the transitions.
FIXABLE = ("start", "transitions", "emission")

#: The group of entry points in which packages announce their algorithms.
ENTRY_POINTS = "tagloom.learners"

#: The algorithms of tagloom.
BUILT_IN = ("beam", "em", "gibbs", "gradient", "spectral", "vb")

# The classes by name; a module of tagloom is imported when its algorithm is chosen.
_REGISTRY: Registry[Algorithm] = Registry(
    ENTRY_POINTS,
    {
        "beam": "tagloom.learners.beam",
        "em": "tagloom.learners.em",
        "gibbs": "tagloom.learners.gibbs",
        "gradient": "tagloom.learners.gradient",
        "spectral": "tagloom.learners.spectral",
        "vb": "tagloom.learners.variational",
    },
)


# ---- the problem -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ChainPrior:
    """Dirichlet priors of a Markov chain; 1 everywhere is a flat prior.

    The outcomes after a label are the Y labels and, if the chain has a stop, the end. They have one
    distribution, whose prior is Dirichlet(transitions, …, transitions, stop).

    Attributes
    ----------
    start : float or ndarray, shape (Y,)
    transitions : float or ndarray, shape (Y, Y)
    stop : float or ndarray, shape (Y,)
    """

    start: float | Float64 = 1.0
    transitions: float | Float64 = 1.0
    stop: float | Float64 = 1.0

    @classmethod
    def symmetric(cls, alpha: float) -> ChainPrior:
        """Return the prior with the same parameter for every outcome."""
        return cls(alpha, alpha, alpha)


class Allowed(NamedTuple):
    """Which starts, transitions and stops are possible; all others keep probability 0."""

    start: Bool  #: [Y]
    transitions: Bool  #: [Y, Y]
    stop: Bool  #: [Y]

    @classmethod
    def everything(cls, Y: int) -> Allowed:
        """Allow every transition."""
        return cls(np.ones(Y, np.bool_), np.ones((Y, Y), np.bool_), np.ones(Y, np.bool_))


class CandidateLabels(NamedTuple):
    """The labels that each token may have, as `Trellis.from_candidates` takes them."""

    indptr: Int64  #: [T + 1]
    label_ids: Int32  #: [C], in ascending order for each token

    @classmethod
    def from_mask(cls, mask: Bool) -> CandidateLabels:
        """List the labels that a mask [T, Y] allows."""
        tokens, label_ids = np.nonzero(mask)
        indptr = np.searchsorted(tokens, np.arange(len(mask) + 1))
        return cls(indptr.astype(np.int64), label_ids.astype(np.int32))

    @property
    def tokens(self) -> Int64:
        """The token of each candidate [C]."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Sequences to learn from, and the conditions under which to learn.

    Attributes
    ----------
    data : object
        The sequences as ``emission.encode`` returns them, read once.
    offsets : ndarray of int64, shape (N + 1,)
        Where each sequence begins; a sequence may be empty.
    emission : Emission
        Bound to the Y labels. If it is fitted, it is the start value.
    chain : MarkovChain or None
        The start value of the chain; None for a random one.
    has_stop : bool
        Whether the end of a sequence is part of the model.
    prior : ChainPrior
    allowed : Allowed or None
    candidates : CandidateLabels or None
        The labels that each token may have: from a tag dictionary, from partial labels.
    weight : ndarray, shape (N,), or None
        The weight of each sequence.
    fixed : frozenset of str
        The parts of the model that keep their start values: names of ``FIXABLE``.
    tied : tuple of tuple of int
        Groups of states that share an emission.
    n_threads : int or None
        Results do not depend on it.
    dtype : dtype
        Type of the scores in the trellis, float64 or float32; counts are always float64.
    """

    data: Any
    offsets: Int64
    emission: Emission
    chain: MarkovChain | None = None
    has_stop: bool = True
    prior: ChainPrior = field(default_factory=ChainPrior)
    allowed: Allowed | None = None
    candidates: CandidateLabels | None = None
    weight: Float64 | None = None
    fixed: frozenset[str] = frozenset()
    tied: tuple[tuple[int, ...], ...] = ()
    n_threads: int | None = None
    dtype: npt.DTypeLike = np.float64

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the Y states."""
        return self.emission.labels

    @property
    def n_tokens(self) -> int:
        """T, the number of tokens of all sequences."""
        return int(self.offsets[-1])

    @cached_property
    def token_weight(self) -> Float64 | None:
        """The weight of each token [T]; None if all are 1."""
        return None if self.weight is None else np.repeat(self.weight, np.diff(self.offsets))

    @property
    def is_restricted(self) -> bool:
        """Whether some tokens have a list of labels that they may have."""
        return self.candidates is not None

    def passes(self) -> Passes:
        """Return what computes sums over all sequences."""
        from tagloom.learners.passes import LocalPasses

        return LocalPasses(self)

    @cached_property
    def possible(self) -> Allowed:
        """Which transitions are possible; without a stop in the model, every stop is."""
        return self.allowed or Allowed.everything(len(self.labels))


# ---- algorithms --------------------------------------------------------------------------------


class Algorithm(Parameterised):
    """Base of the algorithms that learn a hidden Markov model.

    A subclass declares its parameters as `tagloom.parameters` describes, and implements `start`.
    The class argument ``name=`` registers it: ``class EM(Algorithm, name="em")`` makes
    ``HMM(algorithm="em")`` work. Packages announce theirs by entry points of the group
    ``tagloom.learners``.

    Examples
    --------
    >>> import tagloom as tl
    >>> "gibbs" in tl.learners.known_algorithms()
    True
    """

    #: Name of the algorithm in ``HMM(algorithm=...)``.
    name: ClassVar[str]
    #: Whether the data may be on shards: the learner only calls ``problem.passes()`` for sums.
    takes_shards: ClassVar[bool] = False

    def __init_subclass__(cls, *, name: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if name is not None:
            cls.name = name
            _REGISTRY.add(name, cls)

    @property
    def n_steps(self) -> int:
        """Largest number of steps of the learner; the parameter ``max_iterations`` by default."""
        return int(getattr(self, "max_iterations"))  # noqa: B009  # subclasses declare it

    def with_steps(self, n: int) -> Algorithm:
        """Return a copy that makes at most n steps."""
        return type(self)(**self.get_params() | {"max_iterations": n})

    @abstractmethod
    def start(self, problem: Unlabelled, seed: int) -> Learner[ChainAndEmission]:
        """Make the learner with its initial weights.

        It draws random numbers from ``numpy.random.default_rng([seed, iteration])``; iteration 0
        is the initial model. The same seed gives the same bits for any number of threads.

        A learner may also have ``occupancy() → ndarray [Y]``, the expected number of tokens of each
        state, and ``restart_from((chain, emission))``. States that die are then re-seeded.

        Parameters
        ----------
        problem : Unlabelled
        seed : int
        """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Algorithm) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))


def choose_algorithm(algorithm: Any) -> Algorithm:
    """Return the algorithm that a user chose, by name or as an object.

    Raises
    ------
    ParameterError
        If it is neither, or one of its parameters is out of range.
    """
    if isinstance(algorithm, str) and algorithm in known_algorithms():
        algorithm = find_algorithm(algorithm)()
    if inspect.isclass(algorithm) or not isinstance(algorithm, Algorithm):
        raise ParameterError(
            parameter="algorithm",
            expected=f"one of {', '.join(map(repr, known_algorithms()))}, or a tl.learners object",
            found=checks.show(algorithm),
        )
    algorithm.check_parameters()
    return algorithm


def find_algorithm(name: str) -> type[Algorithm]:
    """Return the class of an algorithm.

    Raises
    ------
    KeyError
        If no package has it.
    """
    cls = _REGISTRY.find(name)
    if cls is None:
        raise KeyError(name)
    return cls


def known_algorithms() -> list[str]:
    """Return the names of all algorithms: of tagloom, of this process, of other packages.

    Examples
    --------
    >>> import tagloom as tl
    >>> "em" in tl.learners.known_algorithms()
    True
    """
    return _REGISTRY.names()


# ---- checkpoints -------------------------------------------------------------------------------

_CHAIN, _EMISSION, _HEADER = "chain.", "emission.", "emission_header"


def pack_model(model: ChainAndEmission) -> State:
    """Store a chain and an emission as arrays by name, for `Learner.state`."""
    chain, emission = model
    file = emission.to_file()
    header = np.frombuffer(json.dumps(file.header).encode(), dtype=np.uint8)
    return (
        {f"{_CHAIN}{name}": array for name, array in chain.to_file().arrays.items()}
        | {f"{_EMISSION}{name}": array for name, array in file.arrays.items()}
        | {_HEADER: header}
    )


def unpack_model(state: Mapping[str, npt.NDArray[Any]], emission: Emission) -> ChainAndEmission:
    """Return the model that `pack_model` stored; ``emission`` has its parameters and labels."""
    parts: dict[str, dict[str, npt.NDArray[Any]]] = {_CHAIN: {}, _EMISSION: {}}
    for name, array in state.items():
        for prefix, arrays in parts.items():
            if name.startswith(prefix):
                arrays[name.removeprefix(prefix)] = array
    header = json.loads(bytes(state[_HEADER]))
    chain_header = {"order": 1, "stop": "stop" in parts[_CHAIN]}
    return (
        MarkovChain.from_file(File(chain_header, parts[_CHAIN]), len(emission.labels)),
        emission.from_file(File(header, parts[_EMISSION])),
    )


def check_fixed(fixed: Any) -> frozenset[str]:
    """Return the names of parts that keep their start values.

    Raises
    ------
    ParameterError
        If a name is unknown.
    """
    names = {fixed} if isinstance(fixed, str) else set(fixed or ())
    unknown = sorted(map(str, names - set(FIXABLE)))
    if unknown:
        raise ParameterError(
            parameter="fixed", expected=f"some of {', '.join(FIXABLE)}", found=repr(unknown[0])
        )
    return frozenset(names)


def check_tied(tied: Any, labels: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return groups of states, given by name or number, as numbers.

    Raises
    ------
    ParameterError
        If a state does not exist or is in two groups.
    """
    number = {label: y for y, label in enumerate(labels)}
    groups = []
    for group in tied or ():
        members = tuple(number.get(y, -1) if isinstance(y, str) else y for y in group)
        if any(type(y) is not int or not 0 <= y < len(labels) for y in members):
            raise ParameterError(
                parameter="tied",
                expected=f"groups of states, from 0 to {len(labels) - 1} or by name",
                found=checks.show(group),
            )
        groups.append(members)
    members = tuple(y for group in groups for y in group)
    if len(set(members)) < len(members):
        raise ParameterError(
            parameter="tied", expected="each state in at most one group", found=checks.show(tied)
        )
    return tuple(groups)
