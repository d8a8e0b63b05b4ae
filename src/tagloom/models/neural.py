"""Network taggers: scores of a network and of features, summed in one trellis.

Training is in `tagloom.neural`, which needs torch and is imported by `fit`. A saved tagger of words
and characters needs only NumPy and the native core.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks, training
from tagloom.errors import ParameterError
from tagloom.features import Function, Templates
from tagloom.models.capabilities import Capability
from tagloom.models.constraints import Constraints, look_like_spans
from tagloom.models.data import digest, f1_of, read_dev
from tagloom.models.fitted import Fitted, Learned
from tagloom.models.iterative import IterativeTagger
from tagloom.models.linear import count_path, shared_transitions
from tagloom.models.shared import ConstraintParameters, LabelParameters
from tagloom.models.weights import FeatureWeights
from tagloom.parameters import attribute, choice, count, number, parameter, path
from tagloom.records import field, replace
from tagloom.scores import LinearScores, Rows, Vectors, read_vectors
from tagloom.scores.networks import END, Alphabets, NetworkScores, NetworkSpec, number_types
from tagloom.scores.parts import Part, Parts
from tagloom.storage import File
from tagloom.trellis import Trellis
from tagloom.trellis.machine import ALL_THREADS

if TYPE_CHECKING:
    from tagloom.models.reading import TrainingData
    from tagloom.neural.learners import NetworkLearner
    from tagloom.training import Outcome, Record

Float32 = npt.NDArray[np.float32]
Arrays = dict[str, npt.NDArray[Any]]

#: Encoders by name: the cell of a recurrent network and whether it reads in both directions.
ENCODERS = {
    "bilstm": ("lstm", True),
    "lstm": ("lstm", False),
    "bigru": ("gru", True),
    "gru": ("gru", False),
    "birnn": ("rnn", True),
    "rnn": ("rnn", False),
    "cnn": ("cnn", False),
}
_STRUCTURED = ("crf", "margin")
# Training takes this many batches, but not fewer or more epochs than these.
_BATCHES, _EPOCHS = 4000, (6, 20)
_TRANSFORMER_BATCHES, _TRANSFORMER_EPOCHS = 800, (2, 6)
# Tokens of a batch, for corpora of so many tokens; with fewer, batches are smaller, to a quarter,
# and the learning rate is higher. Dev scores of the linear CRF, of large and of small batches: F1
# of names, 7,000 tokens (English) 62.9, 44.1, 58.8; 17,000 (UNER) 50.4, 46.9, 53.4.
_BATCH_TOKENS, _LARGE = 512, 50_000
_ETA, _TRANSFORMER_ETA = 2e-3, 2e-4
# Sizes of the vectors of characters, and of filters of each width, or units of each direction.
_CHARACTER_SIZE, _FILTERS, _UNITS = 32, 64, 32


class Scorer(Protocol):
    """A trained network, from sentences to scores."""

    def emit(self, sentences: Sequence[Any], n_threads: int) -> Float32:
        """Score every label at every token: [T, Y]."""

    def to_file(self) -> File:
        """Return the network as a header of plain data and arrays."""


def _check_encoder(value: Any) -> None:
    if isinstance(value, str):
        checks.choice(value, "encoder", (*ENCODERS, "transformer"))
    elif not (callable(value) and hasattr(value, "state_dict")):
        raise ParameterError(
            parameter="encoder",
            expected=f"one of {', '.join(map(repr, ENCODERS))}, 'transformer', or a torch module",
            found=checks.show(value),
        )


def _check_vectors(value: Any) -> None:
    if not isinstance(value, Mapping | Vectors):
        checks.path(value, "vectors")


class NeuralFitted(Fitted):
    """The state of a fitted network tagger.

    Attributes
    ----------
    scores : LinearScores
        The weights of features and transitions.
    network : Scorer
    constraints : Constraints
    training : dict
        The training record.
    history : list of Record
    """

    scores: LinearScores = field(kw_only=True)
    network: Scorer = field(kw_only=True)
    constraints: Constraints = field(kw_only=True)
    training: dict[str, Any] = field(default_factory=dict, kw_only=True)
    history: list[Record] = field(default_factory=list, kw_only=True)

    @cached_property
    def transitions(self) -> Trellis:
        """A trellis without tokens, whose transitions all batches share."""
        return shared_transitions(self.scores, self.constraints)


@dataclass(eq=False)
class NeuralData:
    """Training data: those of a linear tagger, and what the network reads.

    Attributes
    ----------
    linear : TrainingData
    sentences : sequence of sentences
    alphabets : Alphabets
        Words, characters, and the vectors of words that occur in training.
    vectors : Vectors or None
        All given vectors that the tagger keeps.
    transformer : tuple or None
        The transformer, once it is read; see `tagloom.neural.transformers.read_transformer`.
    """

    linear: TrainingData
    sentences: Sequence[Any]
    alphabets: Alphabets
    vectors: Vectors | None
    transformer: Any = None

    @property
    def sizes(self) -> Mapping[str, int]:
        """The numbers of sentences and tokens."""
        return self.linear.sizes

    @cached_property
    def digest(self) -> str:
        """Fingerprint of everything that the learned weights depend on."""
        types, _, table = number_types(self.sentences)
        vectors = self.alphabets.vectors
        return digest(
            [self.linear.digest, *table], types, None if vectors is None else vectors.table
        )


class NeuralTagger(
    FeatureWeights, ConstraintParameters, LabelParameters, IterativeTagger[NeuralData, Arrays]
):
    r"""A network and a linear model in one conditional random field.

    The score of a label is the sum of both; transitions are weighed as in a `CRF`::

        emit[t, y] = output[y] · h[t] + Σ_{a active at t} weight(a, y)
        h          = encoder(x[0], …, x[T-1]),  x[t] = [word, given vector, characters] of token t

    Features learn what rarely occurs from a few examples; the network generalises over words. With
    few sentences a `CRF` is as accurate, and trains in seconds.

    Training needs torch: ``pip install 'tagloom[neural]'``. A saved tagger does not, except with a
    transformer.

    Attributes
    ----------
    labels_ : ndarray of str
    network_ : NetworkScores
        The network.
    scores_ : LinearScores
        The weights of features and transitions.
    constraints_, scheme_, history_, training_
        As for `CRF`.

    Examples
    --------
    >>> import tagloom as tl
    >>> tl.NeuralTagger(encoder="bigru", hidden=64, vectors="glove.6B.100d.txt")
    NeuralTagger(encoder='bigru', hidden=64, vectors='glove.6B.100d.txt')

    ``fit``, ``predict``, ``save`` and everything else are those of every tagger.
    """

    capabilities = IterativeTagger.capabilities | {
        Capability.FEATURES,
        Capability.OPEN_LABELS,
        Capability.PROBABILITIES,
        Capability.WEIGHTS,
    }

    features: Any = parameter(
        default="auto",
        kw_only=False,
        type="str, list of str, extractor, callable or None",
        is_option=False,
        help="The features that are added to the network; None for the network alone.",
        details='As for `CRF`: "auto" chooses a preset by the data, or None with vectors if labels '
        "are spans. Edge templates are not possible.",
    )
    min_count: int = count(
        default=1, least=1, help="Ignore attributes that occur less often in the training data."
    )
    encoder: Any = choice(
        default="bilstm",
        choices=(*ENCODERS, "transformer"),
        type="torch module",
        check=_check_encoder,
        help="The part of the network that puts words in context.",
        details='"bi" means that it reads in both directions. "cnn" has residual convolutions of '
        "width 3. A module maps vectors [T, D] and offsets [N + 1] to vectors [T, hidden].",
    )
    layers: int = count(default=1, least=1, help="Number of layers of the encoder.")
    hidden: int = count(
        default=128, least=1, help="Number of hidden units of the encoder, in each direction."
    )
    word_size: int = count(
        default=100,
        help="Size of the vectors of words that are learned; 0 for none.",
        details="Words that occur once share the vector of unknown words.",
    )
    characters: str | None = choice(
        default="cnn",
        choices=("cnn", "lstm", None),
        help="The part of the network that reads the characters of a word.",
    )
    vectors: Any = path(
        default=None,
        type="path, dict or Vectors",
        check=_check_vectors,
        help="Word vectors that were trained elsewhere: a file of GloVe, word2vec or fastText.",
        details="A dict from word to vector, or `tagloom.scores.Vectors`, is also possible.",
    )
    tune_vectors: Any = choice(
        default="no",
        choices=("no", "yes", "both"),
        also=("builtins.bool",),
        help="Whether to train the given vectors further; both keeps the original beside them.",
    )
    keep_vectors: str = choice(
        default="all",
        choices=("all", "seen"),
        help="The given vectors to save: all, or those of words in the training data.",
        details='With "seen" the file is small; `with_vectors` adds the others from their file.',
    )
    transformer: Any = path(
        default=None,
        help='For the encoder "transformer": its folder, or the name of an installed package.',
    )
    head: str = choice(
        default="crf",
        choices=("crf", "margin", "softmax", "hinge"),
        help="The loss: crf and margin for whole sentences, softmax and hinge for tokens.",
        details="See `tagloom.neural.heads`. Constraints hold in prediction for each of them.",
    )
    order: int = count(
        default=1, least=1, help="Number of preceding labels that each label depends on."
    )
    states: Any = choice(
        default="auto",
        choices=("auto", "seen", "all"),
        also=("tagloom.trellis.StateSpace",),
        help="Label histories to distinguish when the order is above 1: seen ones, or all.",
    )
    dropout: float = number(
        default=0.5,
        least=0,
        most=0.99,
        help="Share of the encoder's input and output that is dropped in training.",
    )
    dropout_features: float = number(
        default=0.0,
        least=0,
        most=0.99,
        help="Share of the features of a token that is dropped in training.",
        details="Features alone can fit the training data; with some of them dropped, the network "
        "has something left to learn.",
    )
    word_dropout: float = number(
        default=0.5,
        least=0,
        help="How often words become unknown in training.",
        details="A word seen c times does so with probability word_dropout / (word_dropout + c).",
    )
    eta: float | None = number(
        default=None,
        above=0,
        help="Learning rate of the network: 0.002, or 0.0002 for a transformer.",
        details="It falls linearly to 0 over ``max_iterations``. By default it is higher where "
        "batches are smaller, up to 0.005.",
    )
    eta_features: float = number(
        default=0.1, above=0, help="Learning rate of the weights of features, by AdaGrad."
    )
    max_iterations: int | None = count(
        default=None,
        help="Number of epochs: 6 to 20, or 2 to 6 for a transformer, fewer with more data.",
        details="By default, as many as make 4,000 batches of ``batch_tokens``, or 800 for a "
        "transformer.",
    )
    patience: int | None = count(
        default=None,
        details="20 by default, more than the epochs: before the learning rate has fallen, scores "
        "rise and fall by chance.",
    )
    batch_tokens: int | None = count(
        default=None,
        least=1,
        help="Number of tokens of a batch, which bounds the memory: 512, or fewer with less data.",
        details="By default 128 to 512, in proportion to the training data up to 50,000 tokens; "
        "always 512 for a transformer.",
    )
    random_state: int = count(default=0, help="Seed of initial weights, dropout and batches.")
    device: str = choice(
        default="auto",
        choices=("auto", "cpu", "cuda", "mps"),
        help="Where torch trains: auto is a GPU if there is one.",
    )

    network_ = Learned[Any]()
    constraints_ = Learned[Constraints]()
    history_ = Learned["list[Record]"](record=True)
    training_ = Learned["dict[str, Any]"](record=True)

    # The learning rate depends on the number of epochs, so a resumed run must have the same.
    _not_in_identity = IterativeTagger._not_in_identity - {"max_iterations"}
    _fitted: NeuralFitted = attribute(init=False)
    constrain_training = False

    # ---- learning --------------------------------------------------------------------------

    def default_limits(self) -> tuple[int, int]:
        """Return the number of epochs of large corpora, and the patience."""
        return self._training_length()[1][0], _EPOCHS[1]

    def limits_for(self, data: NeuralData) -> tuple[int, int]:
        """Return the number of epochs and the patience: small corpora need more epochs."""
        epochs, patience = self.limits()
        if self.max_iterations is None:
            wanted, bounds = self._training_length()
            batches = max(data.sizes["tokens"] / self.pace_for(data)[0], 1)
            epochs = int(np.clip(round(wanted / batches), *bounds))
        return epochs, patience

    def pace_for(self, data: NeuralData) -> tuple[int, float]:
        """Return the number of tokens of a batch, and the learning rate of the network."""
        is_transformer = self.encoder == "transformer"
        share = 1.0
        if self.batch_tokens is None and not is_transformer:
            share = float(np.clip(data.sizes["tokens"] / _LARGE, 0.25, 1))
        rate = _TRANSFORMER_ETA if is_transformer else _ETA * share ** (-2 / 3)
        size = round(_BATCH_TOKENS * share) if self.batch_tokens is None else self.batch_tokens
        return size, rate if self.eta is None else self.eta

    def _training_length(self) -> tuple[int, tuple[int, int]]:
        """Return the number of batches, and the fewest and most epochs."""
        if self.encoder == "transformer":
            return _TRANSFORMER_BATCHES, _TRANSFORMER_EPOCHS
        return _BATCHES, _EPOCHS

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.order > 1 and self.head not in _STRUCTURED:
            raise ParameterError(
                parameter="order",
                expected=f"1 with the head {self.head!r}, which has no transitions",
                found=f"{self.order}",
                hint="Choose {head}.",
                options={"head": "crf"},
            )
        has_input = self.word_size or self.characters or self.vectors is not None
        if self.encoder != "transformer" and not has_input:
            raise ParameterError(
                parameter="word_size",
                expected="above 0, or characters or vectors, which the network reads",
                found="none of them",
            )
        if (self.encoder == "transformer") != (self.transformer is not None):
            raise ParameterError(
                parameter="transformer",
                expected='a folder or package with encoder="transformer", and only with it',
                found=checks.show(self.transformer),
            )
        if self.encoder == "transformer" and self.vectors is not None:
            raise ParameterError(
                parameter="vectors",
                expected='None with encoder="transformer", which has vectors of its own',
                found=type(self.vectors).__name__,
            )

    def read_data(self, X: Any, y: Any, sample_weight: Any) -> NeuralData:
        """Turn labelled sentences into arrays."""
        from tagloom.models.reading import read

        settings = self if self.features is not None else _without_features(self)
        sentences = checks.sentences(X)
        linear = read(settings, X, y, sample_weight, None)
        if self._leaves_features_out(linear.names):
            linear = read(_without_features(self), X, y, sample_weight, None)
        if linear.encoded.edge_indptr is not None:
            raise ParameterError(
                parameter="features",
                expected="without edge(...) templates, which a network does not combine with",
                found="edge templates",
                hint="Leave them out, or use CRF.",
            )
        types, _, table = number_types(sentences)
        counts = np.bincount(types, minlength=len(table))
        words = [word for word, n in zip(table, counts, strict=True) if n > 1]
        of_words: dict[str, int] = {}
        for word in table:
            for character in set(word):
                of_words[character] = of_words.get(character, 0) + 1
        characters = "".join(sorted(c for c, n in of_words.items() if n > 1))
        vectors = None if self.vectors is None else read_vectors(self.vectors)
        needed = None if vectors is None else vectors.keep(table)
        alphabets = Alphabets(
            tuple(words) if self.word_size else (),
            characters if self.characters is not None else "",
            needed,
        )
        kept = needed if self.keep_vectors == "seen" else vectors
        return NeuralData(linear, sentences, alphabets, kept)

    def _leaves_features_out(self, names: Sequence[str]) -> bool:
        """Whether "auto" means None: features fit the names of training data too well.

        That matters if the network knows words from elsewhere. Dev F1 without and with features:
        with vectors, WNUT17 47.1 and 39.3, UNER (5,000 sentences) 68.1 and 67.1; with a
        transformer, WNUT17 59.4 and 53.9.
        """
        is_auto = isinstance(self.features, str) and self.features == "auto"
        knows_words = self.vectors is not None or self.encoder == "transformer"
        return is_auto and knows_words and look_like_spans(names)

    def spec(self, data: NeuralData) -> NetworkSpec:
        """Return the definition of the network."""
        alphabets, vectors = data.alphabets, data.alphabets.vectors
        cell, is_bidirectional = ENCODERS.get(self.encoder, ("lstm", False))
        has_characters = self.characters is not None
        return NetworkSpec(
            n_labels=len(data.linear.names),
            n_words=len(alphabets.words) + 1 if self.word_size else 0,
            word_size=self.word_size,
            n_vectors=0 if vectors is None else len(vectors) + 1,
            vector_size=0 if vectors is None else vectors.size,
            is_tuned=vectors is not None and self.tune_vectors == "both",
            characters=self.characters,
            n_characters=len(alphabets.characters) + END + 1 if has_characters else 0,
            character_size=_CHARACTER_SIZE if has_characters else 0,
            character_units={"cnn": _FILTERS, "lstm": _UNITS, None: 0}[self.characters],
            encoder=cell,
            is_bidirectional=is_bidirectional,
            layers=self.layers,
            hidden=self.hidden,
        )

    def make_learner(self, data: NeuralData) -> NetworkLearner:
        """Make the network and its learner."""
        from tagloom.neural.making import make_learner

        return make_learner(self, data)

    def score_dev(self, dev: Any, data: NeuralData) -> Callable[[Arrays], float]:
        """Return the function from weights to the score on the development data."""
        sentences, gold = read_dev(dev)
        linear = data.linear
        encoded = linear.extractor.encode(sentences, linear.index, linear.edge_index)
        threads = self.n_threads or ALL_THREADS

        def score(weights: Arrays) -> float:
            scores, network = self._parts(data, weights)
            emit = scores.score_encoded(encoded, threads).emit + network.emit(sentences, threads)
            trellis = shared_transitions(scores, linear.constraints)
            trellis = trellis.with_scores(emit, offsets=encoded.offsets)
            path = linear.constraints.restrict(trellis, sentences).viterbi().path
            return f1_of(count_path(path, encoded.offsets, linear, gold))

        return score

    def finish(self, data: NeuralData, outcome: Outcome[Arrays], record: dict[str, Any]) -> None:
        """Set the fitted state from the learned weights."""
        scores, network = self._parts(data, outcome.weights)
        self._fitted = NeuralFitted(
            Fitted.label_array(scores.labels),
            scores=scores.without_zeros(),
            network=network,
            constraints=data.linear.constraints,
            training=record,
            history=outcome.records,
        )

    def _parts(self, data: NeuralData, weights: Arrays) -> tuple[LinearScores, Scorer]:
        """Cut the weights into features with transitions, and the network."""
        linear, Y = data.linear, len(data.linear.names)
        wide = weights.get("wide", np.empty((0, Y), np.float32))
        scores = LinearScores(
            labels=tuple(linear.names),
            extractor=linear.extractor,
            index=linear.index,
            rows=Rows(
                np.arange(len(wide) + 1, dtype=np.int64) * Y,
                np.tile(np.arange(Y, dtype=np.uint16), len(wide)),
                wide.ravel(),
            ),
            names=linear.attributes,
            trans=weights["head.transitions"].astype(np.float64),
            start=weights["head.start_transitions"].astype(np.float64),
            stop=weights["head.end_transitions"].astype(np.float64),
            states=linear.states,
            tied=weights.get("head.weights", np.empty(0)).astype(np.float64),
        )
        n = len("network.")
        arrays = {k[n:]: array for k, array in weights.items() if k.startswith("network.")}
        if self.encoder not in ENCODERS:
            from tagloom.neural.making import make_scorer

            return scores, make_scorer(self, data, arrays)
        return scores, self._network(data, arrays)

    def _network(self, data: NeuralData, arrays: Arrays) -> NetworkScores:
        """Make the network from its arrays, with the vectors of all words."""
        spec, alphabets, vectors = self.spec(data), data.alphabets, data.vectors
        trained = arrays.pop("vectors.weight", None)
        if vectors is not None and alphabets.vectors is not None and trained is not None:
            seen = vectors.rows(alphabets.vectors.words)  # all of them have one
            if "tuned.weight" in arrays:
                arrays["tuned.weight"] = _replaced(vectors.table, seen, arrays["tuned.weight"])
            if self.tune_vectors in (True, "yes"):
                vectors = Vectors(vectors.words, _replaced(vectors.table, seen, trained)[1:])
            spec = replace(spec, n_vectors=len(vectors) + 1)
            alphabets = replace(alphabets, vectors=vectors)
        return NetworkScores(spec, alphabets, arrays)

    def with_vectors(self, vectors: Any) -> Self:
        """Return a copy with the vectors of further words.

        Parameters
        ----------
        vectors : path, dict or Vectors
            The vectors that the tagger was trained with, or others of the same space. Words that
            the tagger has keep their vectors.

        Returns
        -------
        NeuralTagger

        Raises
        ------
        ParameterError
            If the tagger was trained without vectors, or with those of another size.
        """
        self._check_fitted("with_vectors")
        network = self.network_
        old = getattr(getattr(network, "alphabets", None), "vectors", None)
        if old is None:
            raise ParameterError(
                parameter="vectors",
                expected="a tagger that was trained with vectors",
                found=repr(self),
            )
        new = self.__copy__()
        merged = old.merged(read_vectors(vectors))
        arrays = dict(network.arrays)
        if "tuned.weight" in arrays:
            arrays["tuned.weight"] = np.concatenate(
                [arrays["tuned.weight"], merged.table[len(old) + 1 :]]
            )
        alphabets = replace(network.alphabets, vectors=merged)
        spec = replace(network.spec, n_vectors=len(merged) + 1)
        new._fitted = replace(self._fitted, network=NetworkScores(spec, alphabets, arrays))
        return new

    # ---- predicting ------------------------------------------------------------------------

    def score_sentences(self, sentences: Sequence[Any], n_threads: int | None) -> Trellis:
        """Score sentences; see `Tagger.score_sentences`."""
        fitted, threads = self._fitted, n_threads or self.n_threads
        scored = fitted.scores.score(sentences, threads or ALL_THREADS)
        emit = scored.emit + fitted.network.emit(sentences, threads or ALL_THREADS)
        batch = fitted.transitions.with_scores(emit, offsets=scored.offsets)
        batch.n_threads = threads
        return fitted.constraints.restrict(batch, sentences)

    def score_parts(self, sentence: Any, trellis: Trellis) -> Parts:
        """Name the terms of the scores, for `explain`.

        Those of features are exact. The score of the network is divided among the words of the
        sentence by gradient × input, a first-order approximation; ``network, rest`` is the
        difference from the score.
        """
        wide = self.scores_.parts(sentence)
        deep = self.network_.emit([sentence], 1)  # [T, Y]
        named = _attributions(self.network_, sentence)

        def of_transition(t: int, y_prev: int | None, y: int) -> Iterator[Part]:
            yield from wide(t, y_prev, y)
            rest = float(deep[t, y])
            for name, value in named(t, y):
                rest -= value
                yield Part(name, value)
            yield Part("network, rest", rest)

        return of_transition

    @property
    def scheme_(self) -> str | None:
        """The scheme that constrains predictions."""
        return self.constraints_.scheme

    @property
    def reads_only_tokens(self) -> bool:
        """Whether the features are known to depend on the tokens alone."""
        extractor = self.scores_.extractor
        return isinstance(extractor, Templates) and extractor.reads_only_tokens

    def can(self, capability: Capability) -> bool:
        """Whether the tagger, with these parameters, has a capability."""
        if capability == Capability.PROBABILITIES:
            return self.head in ("crf", "softmax")
        return super().can(capability)

    def _scores_per_token(self) -> int:
        # The states of the network are larger than the scores.
        return max(self._fitted.transitions.states.n_states, 8 * self.hidden)

    # ---- files -----------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Describe the tagger as plain data, ready for JSON.

        Returns
        -------
        dict
            As `Tagger.describe`, with ``features``, the numbers of ``attributes`` and ``weights``,
            and the definition of the ``network``.
        """
        file = self.network_.to_file()
        return super().describe() | {
            "features": self.scores_.extractor.to_dict().get("templates"),
            "attributes": self.scores_.rows.n_attributes,
            "weights": self.scores_.n_weights + sum(a.size for a in file.arrays.values()),
            "network": file.header["network"],
        }

    def _feature_function(self) -> Any:
        extractor = self.scores_.extractor
        return extractor if isinstance(extractor, Function) else None

    def to_file(self) -> File:
        """Return the fitted state as a header of plain data and arrays."""
        params = {
            name: os.fspath(value) if isinstance(value, os.PathLike) else value
            for name, value in self.get_params().items()
            if _is_plain(value)
        }
        header = {
            "params": params,
            "constraints": self.constraints_.to_dict(),
            "training": self.training_,
            "history": [record.to_row() for record in self.history_],
        }
        scores = self.scores_.to_file(self.n_threads or ALL_THREADS)
        network: File = self.network_.to_file()
        return scores | network.prefixed(_NETWORK) | File(header)

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a tagger from the result of `to_file`; everything is checked."""
        header = file.header
        scores = LinearScores.from_file(file, features)
        constraints = Constraints.from_dict(scores.labels, header["constraints"])
        params = dict(header["params"])
        params.setdefault("features", scores.extractor)
        params.setdefault("constraints", constraints.spec)
        params.setdefault("states", scores.states)
        part = file.part(_NETWORK)
        network: Scorer
        if header["network"].get("kind") == "transformer":
            from tagloom.neural.transformers import TransformerScores

            network = TransformerScores.from_file(part, len(scores.labels))
        else:
            network = NetworkScores.from_file(part)
            if network.spec.n_labels != len(scores.labels):
                raise ParameterError(
                    parameter="network",
                    expected=f"{len(scores.labels)} labels",
                    found=f"{network.spec.n_labels}",
                )
            if network.alphabets.vectors is not None:
                params.setdefault("vectors", network.alphabets.vectors)
        tagger = cls(**params)
        tagger._check_parameters()
        tagger._fitted = NeuralFitted(
            Fitted.label_array(scores.labels),
            scores=scores,
            network=network,
            constraints=constraints,
            training=dict(header["training"]),
            history=[training.Record.from_row(row) for row in header["history"]],
        )
        return tagger


_NETWORK = "network."  # prefix of the arrays of the network in a file


def _without_features(tagger: NeuralTagger) -> Any:
    """Return the settings for reading data without features."""
    settings = tagger.__copy__()
    settings.features = Templates([])
    return settings


def _replaced(table: Float32, rows: Sequence[int], trained: Float32) -> Float32:
    """Return a copy of a table with trained rows; row 0 of ``trained`` is for unknown words."""
    new = table.copy()
    new[rows] = trained[1:]
    return new


def _attributions(network: Any, sentence: Any) -> Callable[[int, int], list[tuple[str, float]]]:
    """Divide the scores of a network among the words, if torch is installed."""
    try:
        from tagloom.neural.attributions import attribute_scores
    except ImportError:
        return lambda t, y: []
    named: Callable[[int, int], list[tuple[str, float]]] = attribute_scores(network, sentence)
    return named


def _is_plain(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, bool | int | float | str | os.PathLike)
        or (isinstance(value, list | tuple) and all(isinstance(part, str) for part in value))
    )
