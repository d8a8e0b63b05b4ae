"""The role labeller: candidates from a dependency tree, roles, and inference under constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import ParameterError
from tagloom.labels.roles import ROLE_CONSTRAINTS, role_constraints
from tagloom.models.capabilities import Capability
from tagloom.models.fitted import Learned
from tagloom.models.iterative import IterativeModel
from tagloom.models.role_data import Choices, Lemmas, RoleData, encode
from tagloom.parameters import choice, count, flag, names, number
from tagloom.sequences.predicates import Argument, FrameSentence, check_frame_sentences
from tagloom.storage import File
from tagloom.training import Outcome, State, Step
from tagloom.trellis import SpanSelection
from tagloom.trellis.machine import ALL_THREADS
from tagloom.trellis.selection import Automaton

Float32 = npt.NDArray[np.float32]
Weights = dict[str, npt.NDArray[Any]]
Inference = Literal["constraints", "no-overlap", "independent"]

_LEGAL = "legal"  # the constraint that depends on the predicate


@dataclass(frozen=True, eq=False)
class FittedRoles:
    """What a role labeller has learned.

    Attributes
    ----------
    labels : ndarray of str, shape (R,)
        The roles.
    filter, weights : ndarray of float32, shape (2^hash_bits,)
        Weights of the features of candidates, and of candidates with a role.
    choices : Choices
        The roles seen with each kind of candidate.
    legal : Choices
        The roles of each lemma.
    lemmas : Lemmas
    training : dict
    history : list of Record
    """

    labels: npt.NDArray[Any]
    filter: Float32
    weights: Float32
    choices: Choices
    legal: Choices
    lemmas: Lemmas
    training: dict[str, Any]
    history: list[Any]


@dataclass(frozen=True, eq=False)
class ScoredFrames:
    """Labelled candidates; those of frame f are ``indptr[f]`` to ``indptr[f + 1] − 1``."""

    indptr: npt.NDArray[np.int64]
    start: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]
    role: npt.NDArray[np.int32]
    score: npt.NDArray[np.float64]


class RoleLabeller(IterativeModel[RoleData, Weights], kind="RoleLabeller"):
    r"""A semantic role labeller: spans of a sentence as arguments of its predicates.

    Four steps, for each predicate:

    1. candidates: spans of the dependency tree around the predicate;
    2. a filter, a logistic regression, drops candidates that are hardly an argument;
    3. a linear classifier scores every role of a candidate against no role, whose score is 0;
    4. inference chooses the labelled candidates of the largest total score that do not overlap and
       satisfy the constraints; see `tagloom.trellis.SpanSelection`.

    With ``training="local"`` the classifier learns each candidate on its own and inference is for
    predictions only. With "global" it learns whole frames, with the constraints inside the loss::

        crf          −log Pr(y | x) over all selections that satisfy the constraints, by AdaGrad
        perceptron   θ ← θ + Φ(x, y) − Φ(x, ŷ),  ŷ the best selection
        svm          the same with ŷ the best under score + number of wrong arguments, by a step
                     that is just long enough, at most C

    and predictions use the mean of the weights over all steps.

    Sentences are `tagloom.sequences.FrameSentence` objects, or plain data of the same form, as
    `tagloom.sequences.read_frames` reads them. Frames give the predicates; for training also their
    arguments.

    Examples
    --------
    >>> import tagloom as tl
    >>> def sentence(words, heads, relations, predicate, arguments):
    ...     frame = {"predicate": predicate, "arguments": arguments}
    ...     return {"tokens": words.split(), "heads": heads, "deprels": relations.split(),
    ...             "frames": [frame]}
    >>> train = [
    ...     sentence("Ada wrote notes", [2, 0, 2], "nsubj root obj", 1,
    ...              [[0, 1, "ARG0"], [2, 3, "ARG1"]]),
    ...     sentence("she sleeps", [2, 0], "nsubj root", 1, [[0, 1, "ARG0"]]),
    ... ]
    >>> labeller = tl.RoleLabeller(tags=[], hash_bits=16).fit(train)
    >>> new = sentence("Bob read poems", [2, 0, 2], "nsubj root obj", 1, [])
    >>> labeller.predict([new])
    [[[Argument(start=0, end=1, role='ARG0'), Argument(start=2, end=3, role='ARG1')]]]
    """

    capabilities = frozenset({Capability.ITERATIONS, Capability.ROLES})

    training: str = choice(
        default="global",
        choices=("global", "local"),
        help="Whether whole frames are learned, with the constraints, or each candidate alone.",
    )
    loss: str = choice(
        default="crf", choices=("crf", "svm", "perceptron"), help="What the weights minimise."
    )
    constraints: Sequence[str] = names(
        default=ROLE_CONSTRAINTS,
        check=lambda value: _check_constraints(value),
        help="Constraints on the arguments of a predicate: core (numbered roles at most once), "
        "references (R-X only if X), continuations (C-X only after X), legal (only core roles seen "
        "with a frequent predicate).",
    )
    tags: Sequence[str] = names(
        default=("xpos", "upos"),
        check=lambda value: _check_tags(value),
        help="Columns of tags: fine ones, then, if there are any, coarse ones.",
    )
    rolesets: bool = flag(
        default=False,
        help="Whether the roleset of a frame is known when its arguments are labelled.",
    )
    min_prob: float = number(
        default=0.01,
        above=0,
        most=0.5,
        help="The filter drops candidates with a lower probability.",
    )
    C: float = number(default=0.1, above=0, help="The longest step of loss svm.")
    eta: float = number(default=0.1, above=0, help="The learning rate of loss crf and the filter.")
    hash_bits: int = count(
        default=22, least=8, help="Logarithm of the number of weights to which features are hashed."
    )
    random_state: int = count(default=0, help="Seed of the order of frames.")
    n_threads: int | None = count(
        default=None,
        check=checks.threads,
        help="Number of threads that label, all cores by default; results do not depend on it.",
    )

    _fitted: FittedRoles

    # ---- training --------------------------------------------------------------------------

    def default_limits(self) -> tuple[int, int]:
        """Return the largest number of epochs and the patience."""
        return 4, 2

    def read_data(self, X: Any, y: Any, sample_weight: Any) -> RoleData:
        """Read the sentences with their frames."""
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                expected = "left out: arguments are part of the frames of the sentences"
                raise ParameterError(parameter=name, expected=expected, found=checks.show(value))
        return RoleData.read(
            check_frame_sentences(X),
            self.tags,
            rolesets=self.rolesets,
            legal=_LEGAL in self.constraints,
        )

    def make_learner(self, data: RoleData) -> _Learner:
        """Return the learner."""
        return _Learner(data, self)

    def score_dev(self, dev: Any, data: RoleData) -> Callable[[Weights], float]:
        """Return the function from weights to F1 of arguments on development data."""
        sentences = check_frame_sentences(dev)
        trial = type(self)(**self.get_params())

        def score(weights: Weights) -> float:
            trial.finish(data, Outcome(weights), {})
            return trial.score(sentences)

        return score

    def finish(self, data: RoleData, outcome: Outcome[Weights], record: dict[str, Any]) -> None:
        """Set the fitted state."""
        weights = outcome.weights
        self._fitted = FittedRoles(
            np.array(data.names, dtype=object),
            weights["filter"],
            weights["roles"],
            (weights["contexts"], weights["indptr"], weights["choices"]),
            data.legal,
            data.lemmas,
            record,
            outcome.records,
        )

    # ---- what it has learned ---------------------------------------------------------------

    labels_ = Learned[npt.NDArray[Any]]()  #: Names of the roles, an array of str.
    training_ = Learned["dict[str, Any]"]()  #: The training record.
    history_ = Learned["list[Any]"]()  #: The `Record` of each epoch.

    # ---- labelling -------------------------------------------------------------------------

    def scored(self, X: Any) -> ScoredFrames:
        """Return the candidates that pass the filter, with each of their roles and its score.

        Parameters
        ----------
        X : list of FrameSentence, or of plain data
        """
        return self._scored(check_frame_sentences(X))

    def _scored(self, sentences: Sequence[FrameSentence]) -> ScoredFrames:
        self._check_fitted("predict")
        state = self._fitted
        frames = encode(sentences, self.tags, state.lemmas, rolesets=self.rolesets)
        return ScoredFrames(
            *frames.scores(
                state.filter,
                state.weights,
                _log_odds(self.min_prob),
                len(state.labels),
                state.choices,
                state.legal,
                self.n_threads or ALL_THREADS,
            )
        )

    def selections(self, X: Any) -> SpanSelection:
        """Return all legal selections of arguments with their scores, one sequence per frame.

        N-best lists and probabilities follow from it.

        Parameters
        ----------
        X : list of FrameSentence, or of plain data

        Returns
        -------
        SpanSelection
        """
        scored, roles = self.scored(X), self.labels_.tolist()
        names = [roles[y] for y in scored.role.tolist()]
        spans = zip(scored.start.tolist(), scored.end.tolist(), names, strict=True)
        return SpanSelection(
            list(spans),
            scored.score,
            role_constraints(roles, self.constraints),
            offsets=scored.indptr,
            n_threads=self.n_threads,
        )

    def predict(
        self, X: Any, *, inference: Inference = "constraints"
    ) -> list[list[list[Argument]]]:
        """Return the arguments of each frame of each sentence.

        Parameters
        ----------
        X : list of FrameSentence, or of plain data
            The arguments of their frames are not read.
        inference : {"constraints", "no-overlap", "independent"}, default "constraints"
            What the arguments of a frame have to satisfy: all constraints; only that they do not
            overlap; nothing, so that each candidate gets its best role or none.

        Returns
        -------
        list of list of list of Argument
        """
        checks.choice(inference, "inference", ("constraints", "no-overlap", "independent"))
        return self._predict(check_frame_sentences(X), inference)

    def _predict(
        self, sentences: Sequence[FrameSentence], inference: Inference = "constraints"
    ) -> list[list[list[Argument]]]:
        scored, roles = self._scored(sentences), self.labels_.tolist()
        if inference == "independent":
            chosen = _best_of_each(scored)
        else:
            names = self.constraints if inference == "constraints" else ()
            chosen = self._select(scored, _automata(roles, names))
        rows = zip(
            scored.start[chosen].tolist(),
            scored.end[chosen].tolist(),
            scored.role[chosen].tolist(),
            strict=True,
        )
        found = [Argument(start, end, roles[y]) for start, end, y in rows]
        bounds = np.searchsorted(chosen, scored.indptr).tolist()
        of_frame = [sorted(found[a:b]) for a, b in pairwise(bounds)]
        frames = iter(of_frame)
        return [[next(frames) for _ in sentence.frames] for sentence in sentences]

    def _select(self, scored: ScoredFrames, automata: list[Automaton]) -> npt.NDArray[np.int64]:
        """Return the numbers of the candidates in the best selection of each frame."""
        threads = self.n_threads or ALL_THREADS
        native = _native.Selections(
            automata,
            len(self.labels_),
            scored.start,
            scored.end,
            scored.role,
            scored.score,
            scored.indptr,
        )
        best = [chosen[0] for chosen, _ in native.nbest(1, threads)]
        return np.flatnonzero(np.concatenate(best)) if best else np.empty(0, np.int64)

    def annotate(self, X: Any) -> list[FrameSentence]:
        """Return the sentences with the arguments of their frames replaced.

        Parameters
        ----------
        X : list of FrameSentence, or of plain data
        """
        sentences = check_frame_sentences(X)
        return [
            sentence.with_frames(
                replace(frame, arguments=tuple(arguments))
                for frame, arguments in zip(sentence.frames, found, strict=True)
            )
            for sentence, found in zip(sentences, self._predict(sentences), strict=True)
        ]

    def score(self, X: Any, y: Any = None) -> float:
        """Return F1 of arguments with exact spans and roles.

        `tagloom.evaluation.evaluate_roles` computes more.
        """
        sentences = check_frame_sentences(X)
        n_right = n_both = 0
        for sentence, found in zip(sentences, self._predict(sentences), strict=True):
            for frame, arguments in zip(sentence.frames, found, strict=True):
                n_right += len(set(frame.arguments) & set(arguments))
                n_both += len(frame.arguments) + len(arguments)
        return 2 * n_right / n_both if n_both else 0.0

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return header and arrays."""
        self._check_fitted("save")
        state = self._fitted
        params = {
            name: list(value) if name in ("tags", "constraints") else value
            for name, value in self.get_params().items()
        }
        header = {
            "params": params,
            "labels": state.labels.tolist(),
            "lemmas": state.lemmas.table,
            "training": state.training,
        }
        arrays: dict[str, npt.NDArray[Any]] = {"filter": state.filter, "weights": state.weights}
        for name, choices in (("choices", state.choices), ("legal", state.legal)):
            arrays |= {f"{name}.{part}": choices[k] for k, part in enumerate(_PARTS)}
        return File(header, arrays, unverified=frozenset({"filter", "weights"}))

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Return the labeller of a file."""
        labeller = cls(**file.header["params"])
        labeller.check_parameters()
        roles, lemmas = file.header["labels"], file.header["lemmas"]
        checks.label_names(roles)
        if not all(isinstance(x, str) for pair in lemmas.items() for x in pair):
            raise ValueError("lemmas must be strings")
        of_filter, weights = (
            np.ascontiguousarray(file.arrays[name], np.float32) for name in ("filter", "weights")
        )
        size = (1 << labeller.hash_bits,)
        if of_filter.shape != size or weights.shape != size:
            raise ValueError(f"expected {1 << labeller.hash_bits} weights")
        labeller._fitted = FittedRoles(
            np.array(roles, dtype=object),
            of_filter,
            weights,
            _read_choices(file, "choices", len(roles)),
            _read_choices(file, "legal", len(roles)),
            Lemmas(lemmas),
            dict(file.header.get("training", {})),
            [],
        )
        return labeller


_PARTS = ("contexts", "indptr", "roles")


def _read_choices(file: File, name: str, n_roles: int) -> Choices:
    """Return the choices of a file, checked."""
    types = (np.uint64, np.int64, np.int32)
    contexts, indptr, roles = (
        np.ascontiguousarray(file.arrays[f"{name}.{part}"], dtype)
        for part, dtype in zip(_PARTS, types, strict=True)
    )
    if (contexts[1:] <= contexts[:-1]).any() or len(indptr) != len(contexts) + 1:
        raise ValueError(f"the contexts of {name} are out of order")
    if indptr[0] != 0 or indptr[-1] != len(roles) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"indptr does not fit the roles of {name}")
    if len(roles) and not 0 <= roles.min() <= roles.max() < n_roles:
        raise ValueError(f"roles of {name} are out of range")
    return contexts, indptr, roles


def _automata(roles: Sequence[str], names: Sequence[str]) -> list[Automaton]:
    """Return the automata of the constraints over all roles."""
    automata = (one.automaton(roles) for one in role_constraints(roles, names))
    return [one for one in automata if one is not None]


def _best_of_each(scored: ScoredFrames) -> npt.NDArray[np.int64]:
    """Return, for each span, the number of its best candidate if its score is positive."""
    frame = np.repeat(np.arange(len(scored.indptr) - 1), np.diff(scored.indptr))
    same = [column[1:] == column[:-1] for column in (frame, scored.start, scored.end)]
    begins = np.flatnonzero(np.concatenate([[True], ~np.logical_and.reduce(same)]))
    if len(frame) == 0:
        return np.empty(0, np.int64)
    group = np.repeat(np.arange(len(begins)), np.diff([*begins, len(frame)]))
    order = np.lexsort((-scored.score, group))
    best = order[begins]
    return np.sort(best[scored.score[best] > 0])


def _log_odds(p: float) -> float:
    return float(np.log(p / (1 - p)))


class _Learner:
    """The learner of a role labeller: one epoch per step, in one native call.

    The first step also trains the filter, whose candidates all epochs share, and is always local:
    global training then knows which roles of a candidate to consider.
    """

    def __init__(self, data: RoleData, labeller: RoleLabeller) -> None:
        automata = _automata(data.names, labeller.constraints)
        self._native = _native.RoleLearner(
            data.frames,
            data.indptr,
            data.arguments,
            len(data.names),
            automata,
            data.legal,
            labeller.loss,
            labeller.C,
            labeller.eta,
            _log_odds(labeller.min_prob),
            labeller.hash_bits,
        )
        self._n_frames = len(data.indptr) - 1
        self._is_global = labeller.training == "global"
        self._random_state = labeller.random_state
        self._epochs = 0

    def _order(self, *seed: int) -> npt.NDArray[np.int64]:
        generator = np.random.default_rng([self._random_state, *seed])
        return generator.permutation(self._n_frames).astype(np.int64)

    def step(self) -> Step:
        """Do one epoch."""
        if self._epochs == 0:
            self._native.filter_epoch(self._order(1, 0))
        is_global = self._is_global and self._epochs > 0
        loss, n_mistakes = self._native.epoch(self._order(0, self._epochs), is_global)
        self._epochs += 1
        return Step(loss / self._n_frames, converged=n_mistakes == 0 and loss == 0)

    def weights(self) -> Weights:
        """Return the mean weights, and the roles of each context."""
        filter_weights, roles = self._native.weights()
        contexts, indptr, choices = self._native.choices()
        return {
            "filter": filter_weights,
            "roles": roles,
            "contexts": contexts,
            "indptr": indptr,
            "choices": choices,
        }

    def state(self) -> State:
        """Return weights, sums and counters."""
        return {**self._native.state(), "epochs": np.array([self._epochs])}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a state."""
        arrays = {name: np.ascontiguousarray(array) for name, array in state.items()}
        self._epochs = int(arrays.pop("epochs")[0])
        self._native.restore(arrays)


def _check_list(value: Any, parameter: str, expected: str, holds: Callable[[Any], bool]) -> None:
    is_list = isinstance(value, Iterable) and not isinstance(value, str)
    if not is_list or not holds(list(value)):
        raise ParameterError(parameter=parameter, expected=expected, found=checks.show(value))


def _check_tags(value: Any) -> None:
    expected = "a list of at most two names of columns, such as ['xpos', 'upos']"
    _check_list(
        value, "tags", expected, lambda x: len(x) <= 2 and all(isinstance(t, str) for t in x)
    )


def _check_constraints(value: Any) -> None:
    known = (*ROLE_CONSTRAINTS, _LEGAL)
    expected = f"a list of some of: {', '.join(known)}"
    _check_list(value, "constraints", expected, lambda x: all(name in known for name in x))
