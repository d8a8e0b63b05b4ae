"""The dependency parser: a linear model over arcs, and trees over their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import ParameterError
from tagloom.models.capabilities import Capability
from tagloom.models.fitted import Learned
from tagloom.models.iterative import IterativeModel
from tagloom.models.parser_data import DEPREL, HEAD, Atoms, TreeBank, check_sentences, read_tree
from tagloom.parameters import choice, count, flag, names, number
from tagloom.sequences import Sentence
from tagloom.storage import File
from tagloom.training import Outcome, State, Step
from tagloom.trellis import TreeScores
from tagloom.trellis.machine import ALL_THREADS

Float32 = npt.NDArray[np.float32]
Weights = dict[str, npt.NDArray[Any]]

# Sentences whose scores are in memory at once, and the number of these scores: 8 MB.
_BLOCK, _SCORES = 512, 1 << 20


class Parse(NamedTuple):
    """The tree of one sentence."""

    heads: list[int]  #: the head of each word: 0 is the root, h is word h
    labels: list[str]  #: the label of the arc to each word; empty strings without labels


@dataclass(frozen=True, eq=False)
class FittedParser:
    """What a parser has learned.

    Attributes
    ----------
    labels : ndarray of str, shape (L,)
        Names of arc labels.
    arcs : ndarray of float32, shape (2^hash_bits,)
        Weights of the features of arcs.
    label_weights : ndarray of float32, shape (2^hash_bits,) or (0,)
        Weights of the features of labels.
    contexts, indptr, choices : ndarray
        The labels seen with each pair of tags: ``choices[indptr[k]:indptr[k + 1]]``.
    training : dict
    history : list of Record
    """

    labels: npt.NDArray[Any]
    arcs: Float32
    label_weights: Float32
    contexts: npt.NDArray[np.uint64]
    indptr: npt.NDArray[np.int64]
    choices: npt.NDArray[np.int32]
    training: dict[str, Any]
    history: list[Any]


class DependencyParser(IterativeModel[TreeBank, Weights], kind="DependencyParser"):
    r"""A dependency parser: linear scores of arcs, the best tree over them, then labels.

    The score of an arc from head h to dependent d is a sum of weights of its features: words, tags,
    suffixes and shapes of both, tags next to them and between them, combined with each other and
    with direction and distance. With ``order=2`` an arc and the next dependent of h towards d have
    a score, too: words and tags of the three. A tree is the best of all trees under the sum of its
    scores; see `TreeScores`. The weights are learned for whole trees::

        perceptron   θ ← θ + Φ(x, y) − Φ(x, ŷ),  ŷ the best tree
        svm          the same with ŷ the best under score + number of wrong heads, by a step that is
                     just long enough, at most C (passive-aggressive; Crammer et al. 2006)
        crf          −log Pr(y | x) by AdaGrad

    and predictions use their average over all steps. In a second step a linear classifier with the
    same loss labels the arcs; it also reads the tree around an arc. With ``labelling="joint"`` the
    loss is over labelled trees instead: an arc with a label scores the sum of both, and a wrong
    label costs svm as much as a wrong head. `trees` then sums over labels for crf, and takes the
    best label for svm and perceptron.

    Sentences are `Sentence` objects with columns of tags, as `tl.read` returns them for CoNLL-U;
    for training also with the columns ``head`` and ``deprel``.

    Examples
    --------
    >>> import tagloom as tl
    >>> def sentence(words, tags, heads, labels):
    ...     columns = {"upos": tags.split(), "head": heads.split(), "deprel": labels.split()}
    ...     return tl.Sentence(words.split(), columns=columns)
    >>> train = [
    ...     sentence("they fish", "PRON VERB", "2 0", "nsubj root"),
    ...     sentence("they can fish", "PRON AUX VERB", "3 3 0", "nsubj aux root"),
    ... ]
    >>> parser = tl.DependencyParser(tags=["upos"], hash_bits=16).fit(train)
    >>> new = tl.Sentence(["you", "can", "go"], columns={"upos": ["PRON", "AUX", "VERB"]})
    >>> parser.predict([new])
    [Parse(heads=[3, 3, 0], labels=['nsubj', 'aux', 'root'])]
    """

    capabilities = frozenset({Capability.ITERATIONS, Capability.TREES})

    loss: str = choice(
        default="svm",
        choices=("crf", "svm", "perceptron"),
        help="What the weights of arcs and of labels minimise.",
        details="""With crf, the probabilities of `trees` are those that training fitted; svm
        parses more accurately.""",
    )
    tags: Sequence[str] = names(
        default=("xpos", "upos"),
        check=lambda value: _check_tags(value),
        help="Columns of tags: fine ones, then, if there are any, coarse ones.",
    )
    projective: bool = flag(
        default=True, help="Whether arcs may not cross each other; see `TreeScores`."
    )
    single_root: bool = flag(default=True, help="Whether exactly one word has the root as head.")
    labelled: bool = flag(default=True, help="Whether arcs get labels.")
    labelling: str = choice(
        default="second",
        choices=("second", "joint"),
        help="Whether labels are chosen in a second step, or together with the tree.",
        details="""Labels of a second step read the whole tree around an arc. Joint labels read
        the arc alone, but count in the choice of the tree.""",
    )
    order: int | None = count(
        default=None,
        least=1,
        check=lambda value: _check_order(value),
        help="Whether arcs have scores (1), or pairs of adjacent dependents, too (2).",
        details="""2 by default for projective trees, 1 for others, which allow no 2.""",
    )
    C: float = number(default=0.1, above=0, help="The longest step of loss svm.")
    eta: float = number(default=0.1, above=0, help="The learning rate of loss crf.")
    hash_bits: int = count(
        default=22,
        least=8,
        help="Logarithm of the number of weights to which features are hashed.",
    )
    random_state: int = count(default=0, help="Seed of the order of sentences.")
    n_threads: int | None = count(
        default=None,
        check=checks.threads,
        help="Number of threads that parse, all cores by default; results do not depend on it.",
    )

    _fitted: FittedParser

    @property
    def _arcs_per_part(self) -> int:
        return self.order or (2 if self.projective else 1)

    def _check_projective(self) -> None:
        if self._arcs_per_part == 2 and not self.projective:
            raise ParameterError(
                parameter="order",
                expected="1 for trees that need not be projective",
                found="2",
                hint="Scores of adjacent dependents need projective=True.",
            )

    # ---- training --------------------------------------------------------------------------

    def default_limits(self) -> tuple[int, int]:
        """Return the largest number of epochs and the patience."""
        return 10, 3

    def read_data(self, X: Any, y: Any, sample_weight: Any) -> TreeBank:
        """Read the sentences with their trees."""
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                expected = "left out: heads and labels are columns of the sentences"
                raise ParameterError(parameter=name, expected=expected, found=checks.show(value))
        self._check_projective()
        return TreeBank.read(X, self.tags, labelled=self.labelled)

    def make_learner(self, data: TreeBank) -> _Learner:
        """Return the learner."""
        return _Learner(data, self)

    def score_dev(self, dev: Any, data: TreeBank) -> Callable[[Weights], float]:
        """Return the function from weights to LAS on development data; UAS without labels."""
        sentences = check_sentences(dev)
        for i, sentence in enumerate(sentences):
            read_tree(sentence, i)
        trial = type(self)(**self.get_params())

        def score(weights: Weights) -> float:
            trial.finish(data, Outcome(weights), {})
            return trial.score(sentences)

        return score

    def finish(self, data: TreeBank, outcome: Outcome[Weights], record: dict[str, Any]) -> None:
        """Set the fitted state."""
        weights = outcome.weights
        self._fitted = FittedParser(
            np.array(data.names, dtype=object),
            weights["arcs"],
            weights["labels"],
            weights["contexts"],
            weights["indptr"],
            weights["choices"],
            record,
            outcome.records,
        )

    # ---- what it has learned ---------------------------------------------------------------

    labels_ = Learned[
        npt.NDArray[Any]
    ]()  #: Names of the arc labels, an array of str; empty if arcs have none.
    training_ = Learned["dict[str, Any]"]()  #: The training record.
    history_ = Learned["list[Any]"]()  #: The `Record` of each epoch.

    # ---- parsing ---------------------------------------------------------------------------

    def trees(self, X: Any) -> TreeScores:
        """Return all trees of the sentences with their scores, as one batch.

        Probabilities, n-best trees, samples and constraints follow from it. With order 2 it has
        T·H² scores, T words in all and H − 1 in the longest sentence: pass few sentences at once.

        Parameters
        ----------
        X : Corpus, or sequence of Sentence

        Returns
        -------
        TreeScores
        """
        return self._trees(*Atoms(self.tags).read(check_sentences(X)))

    def _trees(self, offsets: npt.NDArray[np.int64], atoms: npt.NDArray[np.uint32]) -> TreeScores:
        self._check_fitted("trees")
        state, n_threads = self._fitted, self.n_threads or ALL_THREADS
        H = int(np.diff(offsets).max(initial=0)) + 1
        if self.labelling == "joint" and len(state.labels):
            labels = (
                state.label_weights,
                len(state.labels),
                state.contexts,
                state.indptr,
                state.choices,
            )
            sums = self.loss == "crf"
            arcs = _native.parser_joint_scores(
                offsets, atoms, state.arcs, *labels, sums, H, n_threads
            )
        else:
            arcs = _native.parser_scores(offsets, atoms, state.arcs, H, n_threads)
        siblings = None
        if self._arcs_per_part == 2:
            siblings = _native.parser_siblings(
                offsets, atoms, state.arcs, H, self.single_root, n_threads
            )
        return TreeScores(
            arcs,
            siblings=siblings,
            projective=self.projective,
            single_root=self.single_root,
            offsets=offsets,
            n_threads=self.n_threads,
        )

    def predict(self, X: Any) -> list[Parse]:
        """Return the best tree of each sentence, with labels.

        Parameters
        ----------
        X : Corpus, or sequence of Sentence
            With the columns of tags that the parser reads.

        Returns
        -------
        list of Parse
        """
        return list(self._parses(check_sentences(X)))

    def _parses(self, sentences: list[Sentence]) -> Iterator[Parse]:
        self._check_fitted("predict")
        state, reader = self._fitted, Atoms(self.tags)
        names = state.labels.tolist()
        for block in self._blocks(sentences):
            offsets, atoms = reader.read(block)
            heads = self._trees(offsets, atoms).viterbi().heads
            labels = [""] * len(heads)
            if names:
                ids = _native.parser_labels(
                    offsets,
                    atoms,
                    heads,
                    state.label_weights,
                    len(names),
                    state.contexts,
                    state.indptr,
                    state.choices,
                    self.n_threads or ALL_THREADS,
                    joint=self.labelling == "joint",
                )
                labels = [names[y] for y in ids.tolist()]
            flat = heads.tolist()
            for lo, hi in pairwise(offsets.tolist()):
                yield Parse(flat[lo:hi], labels[lo:hi])

    def _blocks(self, sentences: list[Sentence]) -> Iterator[list[Sentence]]:
        """Cut the list into parts with T·H or T·H² scores that are at most _SCORES, if possible."""
        block: list[Sentence] = []
        T = H = 0
        for sentence in sentences:
            length = len(sentence.tokens)
            T, H = T + length, max(H, length + 1)
            if block and (len(block) == _BLOCK or T * H**self._arcs_per_part > _SCORES):
                yield block
                block, T, H = [], length, length + 1
            block.append(sentence)
        if block:
            yield block

    def annotate(self, X: Any) -> list[Sentence]:
        """Return the sentences with their columns ``head`` and ``deprel`` replaced.

        Those that were read from a file can be written back with `tl.write`.

        Parameters
        ----------
        X : Corpus, or sequence of Sentence
        """
        sentences = check_sentences(X)
        return list(map(with_tree, sentences, self._parses(sentences)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the labelled attachment score on sentences with trees; without labels, UAS.

        `tagloom.evaluation.evaluate_trees` computes more.
        """
        sentences = check_sentences(X)
        n_right = n_words = 0
        for i, (sentence, parse) in enumerate(zip(sentences, self._parses(sentences), strict=True)):
            heads, labels = read_tree(sentence, i)
            n_words += len(heads)
            wanted = labels if len(self.labels_) else parse.labels
            pairs = zip(heads, wanted, parse.heads, parse.labels, strict=True)
            n_right += sum(h == head and y == label for h, y, head, label in pairs)
        return n_right / max(n_words, 1)

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return header and arrays."""
        self._check_fitted("save")
        state = self._fitted
        params = self.get_params()
        params["tags"] = list(params["tags"])
        header = {"params": params, "labels": state.labels.tolist(), "training": state.training}
        arrays: dict[str, npt.NDArray[Any]] = {
            "arcs": state.arcs,
            "label_weights": state.label_weights,
            "contexts": state.contexts,
            "indptr": state.indptr,
            "choices": state.choices,
        }
        return File(header, arrays, unverified=frozenset({"arcs", "label_weights"}))

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Return the parser of a file."""
        # Files of version 0.2.0 have no order.
        parser = cls(**{"order": 1, **file.header["params"]})
        parser.check_parameters()
        parser._check_projective()
        labels, size = checks.label_names(file.header["labels"]), 1 << parser.hash_bits
        arrays: list[npt.NDArray[Any]] = [
            np.ascontiguousarray(file.arrays[name], dtype)
            for name, dtype in (
                ("arcs", np.float32),
                ("label_weights", np.float32),
                ("contexts", np.uint64),
                ("indptr", np.int64),
                ("choices", np.int32),
            )
        ]
        arcs, label_weights, contexts, indptr, choices = arrays
        if arcs.shape != (size,) or label_weights.shape not in ((size,), (0,)):
            raise ValueError(f"expected {size} weights of arcs and of labels")
        if bool(labels) != bool(len(label_weights)) or len(indptr) != len(contexts) + 1:
            raise ValueError("labels, their weights and their contexts disagree")
        if len(choices) and not 0 <= choices.min() <= choices.max() < len(labels):
            raise ValueError("labels of contexts are out of range")
        if indptr[0] != 0 or indptr[-1] != len(choices) or (indptr[1:] <= indptr[:-1]).any():
            raise ValueError("indptr does not fit the labels of contexts")
        if (contexts[1:] <= contexts[:-1]).any():
            raise ValueError("contexts are out of order")
        parser._fitted = FittedParser(
            np.array(labels, dtype=object),
            arcs,
            label_weights,
            contexts,
            indptr,
            choices,
            dict(file.header.get("training", {})),
            [],
        )
        return parser


def with_tree(sentence: Sentence, parse: Parse) -> Sentence:
    """Return a copy of a sentence with a tree in its columns ``head`` and ``deprel``."""
    new = sentence.with_labels(sentence.labels)
    new._columns = {**sentence.columns, HEAD: list(map(str, parse.heads))}
    new._columns[DEPREL] = [label or "_" for label in parse.labels]
    layout: Any = sentence._layout
    label = getattr(layout, "label", -1)
    if label >= 0 and layout.names[label].lower() == DEPREL:  # read as labels, and written as such
        new.labels = list(new._columns[DEPREL])
    return new


class _Learner:
    """The learner of a parser: one epoch per step, in one native call."""

    def __init__(self, data: TreeBank, parser: DependencyParser) -> None:
        self._native = _native.ParserLearner(
            data.offsets,
            data.atoms,
            data.heads,
            data.labels,
            len(data.names),
            parser.loss,
            parser.projective,
            parser.single_root,
            parser.C,
            parser.eta,
            parser.hash_bits,
            joint=parser.labelling == "joint",
            order=parser._arcs_per_part,
        )
        self._n_sentences = len(data.offsets) - 1
        self._random_state = parser.random_state
        self._epochs = 0

    def step(self) -> Step:
        """Do one epoch."""
        generator = np.random.default_rng([self._random_state, self._epochs])
        order = generator.permutation(self._n_sentences).astype(np.int64)
        loss, n_mistakes = self._native.epoch(order)
        self._epochs += 1
        return Step(loss / self._n_sentences, converged=n_mistakes == 0 and loss == 0)

    def weights(self) -> Weights:
        """Return the mean weights, and the labels of each context."""
        arcs, labels = self._native.weights()
        contexts, indptr, choices = self._native.choices()
        return {
            "arcs": arcs,
            "labels": labels,
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


def _check_order(value: Any) -> None:
    if value is not None and not 1 <= checks.count(value, "order", least=1) <= 2:
        raise ParameterError(parameter="order", expected="1 or 2", found=checks.show(value))


def _check_tags(value: Any) -> None:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_list or len(value) > 2 or not all(isinstance(name, str) for name in value):
        expected = "a list of at most two names of columns, such as ['xpos', 'upos']"
        raise ParameterError(parameter="tags", expected=expected, found=checks.show(value))
