"""Hidden Markov models from sequences without labels, or with some: parameters and data.

`HMM.fit` decides whether labels can be counted. If not, this module reads the sequences into the
problem that an algorithm of `tagloom.learners` solves.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import checks, training
from tagloom.errors import LabelError, ParameterError, SentenceError, ShapeError
from tagloom.learners.base import (
    BUILT_IN,
    Algorithm,
    Allowed,
    CandidateLabels,
    ChainAndEmission,
    ChainPrior,
    Unlabelled,
    check_fixed,
    check_tied,
    choose_algorithm,
    find_algorithm,
)
from tagloom.models import constraints
from tagloom.models.constraints import Constraints
from tagloom.models.data import (
    Gold,
    as_weights,
    caller_level,
    digest,
    number_labels,
    read_labels,
)
from tagloom.models.emissions import MOVED
from tagloom.models.hidden import HiddenMarkov
from tagloom.parameters import Parameterised, choice, count, parameter
from tagloom.scores.emissions import Categorical, Emission
from tagloom.scores.emissions.base import fingerprint_of, offsets_of
from tagloom.scores.markov import MarkovChain
from tagloom.scores.smoothing import Smoothing
from tagloom.sequences import Corpus, Sentence

Bool = npt.NDArray[np.bool_]

#: Number of states with which an algorithm begins that finds the number by itself.
_FIRST_STATES = 10


def check_algorithm(value: Any) -> None:
    """Raise unless an algorithm exists; "count" counts labels.

    Raises
    ------
    ParameterError
    """
    if not (isinstance(value, str) and value == "count"):
        choose_algorithm(value)


def check_states(value: Any) -> None:
    """Raise unless a number of states is a positive int or "infinite".

    Raises
    ------
    ParameterError
    """
    if not (isinstance(value, str) and value == "infinite"):
        checks.count(value, "n_states", least=1)


class LearningParameters(Parameterised):
    """Parameters of a hidden Markov model that is learned without labels."""

    n_states: int | str | None = count(
        default=None,
        check=check_states,
        help="Number of states to learn without labels.",
        details='They are named "0", "1", … With "infinite" the algorithm finds the number; see '
        "``algorithm``. With ``labels`` instead, the states have these names.",
    )
    algorithm: str | Algorithm | None = choice(
        default=None,
        choices=(None, "count", *BUILT_IN),
        type="Algorithm",
        check=check_algorithm,
        help="How to learn: count labels, or an algorithm for data without labels.",
        details="By default labels are counted where all of them are known, and expectation "
        "maximisation learns the rest. An object of `tagloom.learners` has parameters.",
    )
    max_iterations: int | None = count(
        default=None, least=1, help="Largest number of iterations, by default of the algorithm."
    )
    restarts: int = count(
        default=1, least=1, help="Number of random starts; the best result is kept."
    )
    random_state: int = count(default=0, help="Seed of the random start.")
    prior: float | ChainPrior = parameter(
        default=1.01,
        type="float or ChainPrior",
        is_option=False,
        help="Dirichlet prior of start and transitions, without labels; 1 is flat.",
        details="Above 1, no transition becomes impossible for new sequences. The prior of the "
        "emission is a parameter of the emission.",
    )
    allowed: Any = parameter(
        default=None,
        type='"left-right", or array of bool of shape (Y, Y), or Allowed',
        is_option=False,
        help="Transitions that are possible, without labels; all others keep probability 0.",
        details='"left-right" starts in the first state and stays or goes on to the next.',
    )
    fixed: Any = parameter(
        default=None,
        type="list of str",
        is_option=False,
        help='Parts that keep their start values: "start", "transitions", "emission".',
    )
    tied: Any = parameter(
        default=None,
        type="list of lists of states",
        is_option=False,
        help="Groups of states that share an emission.",
    )
    start_from: Any = parameter(
        default=None,
        type="HMM or mapping",
        is_option=False,
        help="Start values, without labels: a fitted model, or probabilities.",
        details='A mapping has "start" [Y], "transitions" [Y, Y], "stop" [Y] and "emission", a '
        "fitted emission; missing parts are random.",
    )
    match_to: Any = parameter(
        default=None,
        type="HMM",
        is_option=False,
        help="A fitted model with as many states; each state gets the number of its likeliest "
        "counterpart.",
    )
    dtype: str = choice(
        default="float64",
        choices=("float64", "float32"),
        help="Type of the scores while learning without labels; counts are float64.",
    )

    @property
    def learns_states(self) -> bool:
        """Whether the states are unnamed and the data need no labels."""
        return self.n_states is not None or self.finds_states

    @property
    def finds_states(self) -> bool:
        """Whether the algorithm finds the number of states."""
        if self.n_states is not None or getattr(self, "labels", None) is not None:
            return self.n_states == "infinite"
        if self.algorithm in (None, "count"):
            return False
        return getattr(choose_algorithm(self.algorithm), "finds_number_of_states", False)


# ---- sequences ---------------------------------------------------------------------------------


def read_sequences(X: Any, lengths: Any = None) -> Sequence[Any]:
    """Return the sequences that a user passed.

    A numeric array or a data frame is one sequence, or several of the given lengths.

    Parameters
    ----------
    X : Corpus, sequence of sequences, array, or data frame
    lengths : sequence of int, optional
        Lengths of the sequences, if they are joined in X.

    Raises
    ------
    ParameterError
        If the lengths do not fit.

    Examples
    --------
    >>> [x.shape for x in read_sequences(np.zeros((5, 2)), [2, 3])]
    [(2, 2), (3, 2)]
    """
    is_frame = _is_frame(X)
    array = X.to_numpy() if is_frame else X
    is_array = isinstance(array, np.ndarray) and (is_frame or array.dtype.kind in "iufb")
    if lengths is not None:
        return _split(array if is_array else X, lengths)
    if is_array:
        if array.ndim not in (1, 2):
            raise ShapeError(
                parameter="X", expected="an array of shape (T,) or (T, D)", found=str(array.shape)
            )
        return [array]
    if isinstance(X, list | tuple) and len(X) and _is_frame(X[0]):
        X = [x.to_numpy() if _is_frame(x) else x for x in X]
    return checks.sentences(X)


def _is_frame(X: Any) -> bool:
    """Whether X is a data frame or a series of pandas, or the like."""
    return hasattr(X, "to_numpy") and (hasattr(X, "columns") or hasattr(X, "index"))


def _split(X: Any, lengths: Any) -> list[Any]:
    try:
        sizes = np.asarray(lengths)
        is_right = sizes.ndim == 1 and sizes.dtype.kind in "iu" and sizes.sum() == len(X)
    except (TypeError, ValueError):
        is_right = False
    if not is_right or sizes.min(initial=0) < 0:
        raise ParameterError(
            parameter="lengths",
            expected=f"whole numbers whose sum is {len(X)}, the length of X",
            found=checks.show(lengths),
        )
    ends = np.cumsum(sizes).tolist()
    return [X[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]


def has_labels(X: Any, y: Any) -> bool:
    """Whether the user passed labels, in y or within the sentences."""
    if y is not None:
        return True
    if isinstance(X, Corpus):
        return any(label is not None for row in X.labels for label in row or ())
    return len(X) > 0 and all(isinstance(s, Sentence) and s.labels is not None for s in X)


# ---- the problem -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reading:
    """Training data, ready for an algorithm; see `training_record` for its interface.

    Attributes
    ----------
    problem : Unlabelled
    constraints : Constraints
        The constraints on predictions.
    """

    problem: Unlabelled
    constraints: Constraints

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of sentences and tokens, for a training record."""
        return {"sentences": len(self.problem.offsets) - 1, "tokens": self.problem.n_tokens}

    @property
    def fingerprint(self) -> tuple[list[str], list[npt.NDArray[Any] | None]]:
        """Texts and arrays that identify the sequences, weights and candidates."""
        problem = self.problem
        candidates: tuple[npt.NDArray[Any], ...] = problem.candidates or ()
        return [], [*fingerprint_of(problem.data), problem.offsets, problem.weight, *candidates]

    @property
    def digest(self) -> str:
        """Fingerprint of the sequences, weights, candidates and start values."""
        problem = self.problem
        texts, arrays = self.fingerprint
        start = () if problem.chain is None else tuple(problem.chain.to_file().arrays.values())
        if problem.emission.is_fitted and problem.emission.learned:
            start += tuple(problem.emission.to_file().arrays.values())
        return digest([*problem.labels, *texts], *arrays, *start)

    @property
    def title(self) -> str:
        """The title of the progress bar."""
        return "HMM"

    @property
    def details(self) -> Callable[[], str] | None:
        """The function whose text the progress bar shows after each iteration."""
        return None


def read_problem(
    params: Any, spec: Emission, smoothing: Smoothing, X: Sequence[Any], y: Any, sample_weight: Any
) -> Reading:
    """Read sequences into the problem of learning an HMM without labels, or with some.

    Parameters
    ----------
    params : HMM
        A model with the parameters of `LearningParameters`, ``labels`` and ``constraints``.
    spec : Emission
    smoothing : Smoothing
    X : sequence of sequences
        The result of `read_sequences`.
    y : sequence, optional
        Labels, of which some may be None or sets.
    sample_weight : sequence of float, optional

    Raises
    ------
    ParameterError, LabelError, SentenceError
    """
    if not len(X) or not sum(map(len, X)):
        raise SentenceError(expected="at least one token", found="none")
    gold = _read_gold(params, X, y)
    problem = template_problem(params, spec, smoothing, gold.names)
    resolved = _constraints(params.constraints, gold, X, y)
    problem = replace(
        problem,
        data=problem.emission.encode(X),
        offsets=offsets_of(X),
        candidates=list_candidates(gold, resolved, X),
        weight=None if sample_weight is None else as_weights(sample_weight, len(X)),
    )
    return Reading(problem, resolved)


def template_problem(
    params: Any, spec: Emission, smoothing: Smoothing, names: Sequence[str]
) -> Unlabelled:
    """Return the problem of learning an HMM, without its sequences.

    Parameters
    ----------
    params : HMM
    spec : Emission
    smoothing : Smoothing
    names : sequence of str
        The names of the states.
    """
    chain, emission = _start_values(params.start_from, names, smoothing, spec)
    prior = params.prior
    return Unlabelled(
        data=None,
        offsets=np.zeros(1, np.int64),
        emission=emission,
        chain=chain,
        has_stop=smoothing.stop,
        prior=prior if isinstance(prior, ChainPrior) else ChainPrior.symmetric(_check_prior(prior)),
        allowed=read_allowed(params.allowed, len(names)),
        fixed=check_fixed(params.fixed),
        tied=check_tied(params.tied, names),
        n_threads=params.n_threads,
        dtype=np.dtype(params.dtype),
    )


def _constraints(spec: Any, gold: Gold, X: Sequence[Any], y: Any) -> Constraints:
    """Resolve constraints against the labels that are known."""
    if y is None:
        return constraints.resolve(spec, None, gold, [], [])
    rows = [list(row) for row in y]
    scheme = constraints.choose_scheme(spec, gold, rows, offsets_of(X))
    return constraints.resolve(spec, scheme, gold, X, rows)


def _check_prior(prior: Any) -> float:
    return float(checks.number(prior, "prior", above=0))


def _read_gold(params: Any, X: Sequence[Any], y: Any) -> Gold:
    """Return the states, and the labels of tokens that have any."""
    if params.learns_states:
        if y is not None:
            raise ParameterError(
                parameter="y",
                expected="no labels beside n_states",
                found="labels",
                hint="Leave n_states out to learn the labels of y.",
            )
        names = name_states(params)
    elif y is not None:
        read = read_labels(X, X, y, may_be_open=True)
        return number_labels(read, params.labels)
    else:
        names = name_states(params)
    T = sum(map(len, X))
    return Gold(names, np.full(T, -1, np.int32), np.ones((1, len(names)), np.bool_))


def name_states(params: Any) -> list[str]:
    """Return the names of the states where the data have no labels.

    Raises
    ------
    LabelError
        If neither names nor a number is given.
    """
    if params.learns_states:
        n = _FIRST_STATES if params.finds_states else int(params.n_states)
        return [str(state) for state in range(n)]
    if params.labels is None:
        raise LabelError(
            expected="labels, or the number of states to learn without them",
            found="neither",
            hint="Pass y, or set {n_states} or {labels}.",
            options={"n_states": ..., "labels": ...},
        )
    return checks.label_names(params.labels)


def list_candidates(gold: Gold, resolved: Constraints, X: Sequence[Any]) -> CandidateLabels | None:
    """List the labels that each token may have, by its own label and by the dictionary."""
    is_open = gold.numbers < 0
    if is_open.all() and not resolved.dictionary and len(gold.sets) == 1:
        return None
    allowed = np.zeros((len(gold.numbers), len(gold.names)), dtype=np.bool_)
    allowed[is_open] = gold.sets[-1 - gold.numbers[is_open]]
    allowed[np.flatnonzero(~is_open), gold.numbers[~is_open]] = True
    word_sets = resolved.word_sets(X)
    if word_sets is not None:
        numbers, sets = word_sets
        both = allowed & sets[numbers]
        keep = both.any(axis=1)  # a label given for a token outweighs the dictionary
        allowed[keep] = both[keep]
    return None if allowed.all() else CandidateLabels.from_mask(allowed)


def restrict_nothing(T: int, Y: int) -> CandidateLabels:
    """List all labels for each token."""
    label_ids = np.tile(np.arange(Y, dtype=np.int32), T)
    return CandidateLabels(np.arange(T + 1, dtype=np.int64) * Y, label_ids)


def read_allowed(allowed: Any, Y: int) -> Allowed | None:
    """Return the topology that a user chose.

    Raises
    ------
    ParameterError
        If it is neither "left-right" nor a mask that allows some transition from each state.

    Examples
    --------
    >>> read_allowed("left-right", 3).transitions.astype(int).tolist()
    [[1, 1, 0], [0, 1, 1], [0, 0, 1]]
    """
    if allowed is None or isinstance(allowed, Allowed):
        return allowed
    everything = Allowed.everything(Y)
    if isinstance(allowed, str) and allowed == "left-right":
        steps = np.eye(Y, dtype=np.bool_) | np.eye(Y, k=1, dtype=np.bool_)
        return everything._replace(start=np.arange(Y) == 0, transitions=steps)
    try:
        mask = np.asarray(allowed)
    except ValueError:
        mask = np.empty(0)
    if mask.shape != (Y, Y) or mask.dtype.kind not in "biu":
        raise ParameterError(
            parameter="allowed",
            expected=f'"left-right", or an array of bool of shape ({Y}, {Y})',
            found=checks.show(allowed),
        )
    return everything._replace(transitions=mask.astype(np.bool_))


# ---- start values ------------------------------------------------------------------------------

_PARTS = ("start", "transitions", "stop", "emission")


def _start_values(
    start_from: Any, names: Sequence[str], smoothing: Smoothing, spec: Emission
) -> tuple[MarkovChain | None, Emission]:
    """Return the start value of the chain, if there is one, and the bound emission."""
    if start_from is None:
        return None, spec.bind(names, smoothing)
    if hasattr(start_from, "chain_"):
        given: dict[str, Any] = {"emission": start_from.emission_}
        chain = start_from.chain_
    elif isinstance(start_from, Mapping) and set(start_from) <= set(_PARTS):
        given = dict(start_from)
        chain = _given_chain(given, len(names), smoothing.stop)
    else:
        raise ParameterError(
            parameter="start_from",
            expected=f"a fitted HMM, or a mapping with some of {', '.join(_PARTS)}",
            found=checks.show(start_from),
        )
    emission = given.get("emission", spec)
    if chain is not None and (
        chain.order != 1
        or len(chain.log_start) != len(names)
        or (chain.log_stop is not None) != smoothing.stop
    ):
        raise ParameterError(
            parameter="start_from",
            expected=f"a chain of order 1 over {len(names)} states, with stop={smoothing.stop}",
            found=f"order {chain.order}, {len(chain.log_start)} states, "
            f"stop={chain.log_stop is not None}",
        )
    return chain, emission.bind(names, smoothing)


def _given_chain(given: Mapping[str, Any], Y: int, has_stop: bool) -> MarkovChain | None:
    """Make a chain from given probabilities; missing parts are uniform."""
    if not {"start", "transitions", "stop"} & set(given):
        return None
    stop = given.get("stop", np.full(Y, 1 / (Y + 1)) if has_stop else None)
    rest = 1.0 if stop is None else 1 - np.asarray(stop, dtype=float)[:, None]
    parts = {
        "start": (given.get("start", np.full(Y, 1 / Y)), (Y,)),
        "transitions": (given.get("transitions", np.full((Y, Y), 1 / Y) * rest), (Y, Y)),
    } | ({} if stop is None else {"stop": (stop, (Y,))})
    arrays: dict[str, npt.NDArray[np.float64]] = {}
    for name, (value, shape) in parts.items():
        array = np.asarray(value, dtype=np.float64)
        if array.shape != shape or not (np.isfinite(array).all() and (array >= 0).all()):
            raise ParameterError(
                parameter="start_from",
                expected=f"{name}: probabilities of shape {shape}",
                found=f"an array of shape {array.shape}",
            )
        arrays[name] = array
    sums = arrays["transitions"].sum(axis=1) + arrays.get("stop", np.zeros(Y))
    if not (np.allclose(sums, 1) and np.isclose(arrays["start"].sum(), 1)):
        raise ParameterError(
            parameter="start_from",
            expected="start that sums to 1, and transitions whose rows do, with stop",
            found=f"sums {arrays['start'].sum():.6g} and {sums.tolist()}",
        )
    return MarkovChain.from_probs(arrays["start"], (arrays["transitions"],), arrays.get("stop"))


# ---- learning ----------------------------------------------------------------------------------


def choose_emission_of_states(params: Any, spec: Emission, y: Any) -> Emission:
    """Return the emission to learn without labels: `Categorical` if the user chose none.

    With some labels it stays `Words`, whose spellings predict the labels of unknown words.
    """
    is_chosen = params.emissions is not None or any(
        getattr(params, name) is not None for name in MOVED
    )
    return spec if y is not None or is_chosen else Categorical()


def learn_hidden(
    params: Any,
    spec: Emission,
    smoothing: Smoothing,
    X: Sequence[Any],
    y: Any,
    sample_weight: Any,
    began: float,
    **run: Any,
) -> HiddenMarkov:
    """Learn a model without labels, or with some; see `HMM.fit` for the arguments.

    Parameters
    ----------
    params : HMM
    spec : Emission
    smoothing : Smoothing
    X, y, sample_weight
    began : float
        When `fit` was called, by `time.perf_counter`.
    **run
        The other arguments of `learn_problem`.
    """
    algorithm = read_algorithm(params)
    reading = read_problem(params, spec, smoothing, X, y, sample_weight)
    return learn_problem(params, algorithm, reading, began, **run)


def learn_problem(
    params: Any,
    algorithm: Algorithm,
    reading: Reading,
    began: float,
    *,
    callback: Any,
    progress: bool | None,
    checkpoint: Any,
) -> HiddenMarkov:
    """Learn a model from data that are read.

    Parameters
    ----------
    params : HMM
    algorithm : Algorithm
    reading : Reading
    began : float
        When `fit` was called, by `time.perf_counter`.
    callback, progress, checkpoint
        As for `HMM.fit`.
    """
    from tagloom.learners import restarts  # here, for a quick start
    from tagloom.models.iterative import training_record

    problem = reading.problem
    file = None if checkpoint is None else checks.path(checkpoint, "checkpoint")
    fitting: training.Fitting[ChainAndEmission] = training.Fitting(
        max_iterations=algorithm.n_steps,
        callback=callback,
        progress=progress,
        checkpoint=file,
        identity={} if file is None else _identity(params, algorithm, reading),
        title=reading.title,
        details=reading.details,
    )
    learned = restarts.learn(
        problem, algorithm, fitting, restarts=params.restarts, seed=params.random_state
    )
    model = _arrange(params, problem, (learned.chain, learned.emission))
    record = training_record(reading, learned.outcome, time.perf_counter() - began)
    record |= {
        "algorithm": algorithm.name,
        "parameters": _count_parameters(problem, model),
        "objectives": learned.objectives,
        "histories": learned.histories if len(learned.histories) > 1 else [],
        "reseeded": [list(pair) for pair in learned.reseeded],
        **learned.summary,
    }
    if learned.outcome.stopped == "interrupted":
        warnings.warn(
            f"Interrupted: the model of iteration {learned.outcome.best} is kept.",
            stacklevel=caller_level(),
        )
    allowed = reading.constraints
    if model[1].labels != problem.labels:  # the algorithm has changed the number of states
        allowed = Constraints(model[1].labels)
    return HiddenMarkov.join(*model, allowed, record, learned.outcome.records)


def _count_parameters(problem: Unlabelled, model: ChainAndEmission) -> int | None:
    """Count the free parameters; None if the emission does not count its own.

    Impossible transitions have none, and tied states share theirs. Fixed parts count: their values
    come from elsewhere, often from the same data.
    """
    from tagloom.learners.expectations import possible_outcomes  # here, for a quick start

    _, emission = model
    if emission.labels != problem.labels:  # the algorithm has changed the number of states
        problem = replace(problem, emission=emission, allowed=None)
    rows = possible_outcomes(problem), problem.possible.start[None]
    n = sum(int(np.maximum(row.sum(axis=1) - 1, 0).sum()) for row in rows)
    try:
        of_emission = emission.n_parameters
    except ParameterError:
        return None
    Y = len(problem.labels)
    distinct = Y - sum(len(group) - 1 for group in problem.tied)
    return n + round(of_emission * distinct / Y)


def read_algorithm(params: Any) -> Algorithm:
    """Return the algorithm that a model learns with.

    Raises
    ------
    ParameterError
        If it does not fit the other parameters.
    """
    is_infinite = params.finds_states
    algorithm = choose_algorithm(params.algorithm or ("beam" if is_infinite else "em"))
    if params.order != 1:
        raise ParameterError(
            parameter="order", expected="1 where labels are not known", found=str(params.order)
        )
    if is_infinite and not getattr(algorithm, "finds_number_of_states", False):
        raise ParameterError(
            parameter="n_states",
            expected=f"a number, which {type(algorithm).__name__} requires",
            found="'infinite'",
        )
    if params.max_iterations is not None:
        algorithm = algorithm.with_steps(params.max_iterations)
    return algorithm


# Parameters that do not change the numbers of a run that is resumed.
_NOT_IN_IDENTITY = frozenset(
    {"max_iterations", "n_threads", "labels", "algorithm", "start_from", "match_to"}
    | {"n_workers", "cluster", "max_memory"}
)


def _identity(params: Any, algorithm: Algorithm, reading: Reading) -> dict[str, Any]:
    """Return everything that a run depends on, for a checkpoint."""
    of_model = {
        name: repr(value)
        for name, value in params.get_params().items()
        if name not in _NOT_IN_IDENTITY
    }
    of_algorithm = {
        f"algorithm.{name}": repr(value)
        for name, value in algorithm.get_params().items()
        if name != "max_iterations"
    }
    named = {"model": "HMM", "data": reading.digest, "algorithm": algorithm.name}
    return named | of_model | of_algorithm


def _arrange(params: Any, problem: Unlabelled, model: ChainAndEmission) -> ChainAndEmission:
    """Sort states without names, unless the user has numbered them."""
    from tagloom.learners import restarts  # here, for a quick start

    if params.match_to is not None:
        return restarts.permute(model, restarts.match(problem, model, params.match_to._fitted))
    numbered = (params.allowed, params.fixed, params.tied, params.start_from)
    if not params.learns_states or any(part is not None for part in numbered):
        return model
    if problem.emission.is_fitted and problem.emission.learned:  # a start value
        return model
    return restarts.permute(model, restarts.stable_order(problem, model))


# ---- files -------------------------------------------------------------------------------------

# Parameters that need other models or arrays; the fitted model contains their effect.
_NOT_IN_FILES = ("start_from", "match_to", "allowed", "tied", "fixed", "prior")


def to_plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of an HMM as plain data, without those that have their default."""
    plain = dict(params)
    for name, declared in LearningParameters.parameters.items():
        value = plain[name]
        is_default = value is declared.default or (
            type(value) is type(declared.default) and value == declared.default
        )
        if is_default or name in _NOT_IN_FILES:
            plain.pop(name)
    if isinstance(plain.get("algorithm"), Algorithm):
        plain["algorithm"] = _algorithm_to_plain(plain["algorithm"])
    return plain


def from_plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters from the result of `to_plain_params`, which is not trusted."""
    read = dict(params)
    algorithm = read.get("algorithm")
    if isinstance(algorithm, Mapping):
        read["algorithm"] = _algorithm_from_plain(algorithm)
    return read


def _algorithm_to_plain(algorithm: Algorithm) -> dict[str, Any]:
    """Return name and parameters, of which some may be algorithms."""
    params = {
        name: _algorithm_to_plain(value) if isinstance(value, Algorithm) else value
        for name, value in algorithm.get_params().items()
    }
    return {"name": algorithm.name, "params": params}


def _algorithm_from_plain(data: Mapping[str, Any]) -> Algorithm:
    params = {
        name: _algorithm_from_plain(value) if isinstance(value, Mapping) else value
        for name, value in data["params"].items()
    }
    return find_algorithm(data["name"])(**params)
