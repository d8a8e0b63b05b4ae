"""The fitted state of a hidden Markov model: a chain, an emission, constraints.

The state is one frozen object. It scores sequences, draws them, and is stored in a file. It
contains its caches, so threads share it without locks. `HMM` is the tagger around it;
`HiddenMarkovTagger` offers its parts as attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ModelFileError
from tagloom.models.constraints import Constraints
from tagloom.models.fitted import Fitted, Learned
from tagloom.models.tables import TableTagger
from tagloom.notebooks import Rows
from tagloom.parameters import attribute
from tagloom.records import field
from tagloom.renames import renamed_property
from tagloom.scores import Decoder, LinearScores
from tagloom.scores.emissions import Categorical, Emission, Features, LexicalWords, Words
from tagloom.scores.emissions.base import from_plain, to_plain
from tagloom.scores.markov import MarkovChain
from tagloom.scores.smoothing import Smoothing
from tagloom.scores.tables import PairTable, WordTable
from tagloom.sequences import Sentence
from tagloom.storage import File
from tagloom.training.records import Record
from tagloom.trellis import Trellis

if TYPE_CHECKING:
    from tagloom.models.filters import OnlineFilter

Float64 = npt.NDArray[np.float64]


class Generated(NamedTuple):
    """A sequence drawn from a model whose tokens are not words."""

    tokens: Any  # T tokens, in the form that the emission takes
    labels: list[str]  # [T]


class HiddenMarkov(Fitted):
    """A fitted hidden Markov model.

    Attributes
    ----------
    chain : MarkovChain
    emission : Emission
    constraints : Constraints
        The constraints on predictions; the joint distribution ignores them.
    training : dict
        The training record.
    history : list of Record
        One for each iteration; empty if labels were counted.
    """

    chain: MarkovChain = field(kw_only=True)
    emission: Emission = field(kw_only=True)
    constraints: Constraints = field(kw_only=True)
    training: dict[str, Any] = field(default_factory=dict, kw_only=True)
    history: list[Record] = field(default_factory=list, kw_only=True)

    @classmethod
    def join(
        cls,
        chain: MarkovChain,
        emission: Emission,
        constraints: Constraints | None = None,
        training: dict[str, Any] | None = None,
        history: Sequence[Record] = (),
    ) -> HiddenMarkov:
        """Make a model from its parts; the labels are those of the emission."""
        return cls(
            labels=Fitted.label_array(emission.labels),
            chain=chain,
            emission=emission,
            constraints=constraints or Constraints(emission.labels),
            training={} if training is None else training,
            history=Rows(history),
        )

    @property
    def words(self) -> Words | None:
        """The emission of words, alone or beside other features."""
        emission = self.emission
        if isinstance(emission, Features):
            return emission.word_emission
        return emission if isinstance(emission, Words) else None

    @property
    def table(self) -> WordTable | None:
        """Log Pr(w | y) of words and of spellings, if the emission has words."""
        return None if self.words is None else self.words.table

    def score(self, X: Any, n_threads: int | None = None, *, is_constrained: bool) -> Trellis:
        """Score sequences: log Pr(x, y) of each labelling.

        Parameters
        ----------
        X : list of sequences, or the result of ``emission.encode``
        n_threads : int, optional
            All cores by default.
        is_constrained : bool
            Whether labellings that the constraints forbid have −inf.
        """
        offsets, emit, edge = self.emission.scores(X, checks.threads(n_threads))
        frame = self._frame(emit.dtype == np.float32, is_constrained)
        batch = frame.with_scores(emit, edge=edge, offsets=offsets)
        batch.n_threads = n_threads
        return batch

    @cached_property
    def decoder(self) -> Decoder | None:
        """The native decoder of ordinary sentences; None if a trellis is required."""
        transitions = self._frame(True, True).dense_transitions
        if self.constraints.dictionary or transitions is None:
            return None
        return self.emission.decoder(transitions)

    def _frame(self, is_single: bool, is_constrained: bool) -> Trellis:
        """Return a trellis without tokens, in float32 or float64, with the shared transitions."""
        key = is_single, is_constrained
        if key not in self._frames:
            self._frames[key] = self._make_frame(*key)  # two threads at once make the same
        return self._frames[key]

    @cached_property
    def _frames(self) -> dict[tuple[bool, bool], Trellis]:
        return {}

    def _make_frame(self, is_single: bool, is_constrained: bool) -> Trellis:
        labels = list(self.emission.labels)
        trans, start, stop, states, weights = self.chain.transitions(labels)
        if is_constrained:
            trans, start, stop, states = self.constraints.forbid(trans, start, stop, states)
        emit = np.empty((0, len(labels)), dtype=np.float32 if is_single else np.float64)
        return Trellis(emit, trans, start, stop, states=states, weights=weights, labels=labels)

    def log_likelihoods(self, X: Any, n_threads: int | None = None) -> Float64:
        """Compute log Pr(x) of each sequence [N]; −inf for an impossible one."""
        trellis = self.score(X, n_threads, is_constrained=False)
        return np.asarray(trellis.log_partition(), dtype=np.float64)

    def generate(self, rng: np.random.Generator, length: int | None, **options: Any) -> Any:
        """Draw a labelled sequence; see `HMM.generate`."""
        path = self.chain.generate(rng, length)
        tokens = self.emission.generate(np.array(path, dtype=np.intp), rng, **options)
        labels = [self.emission.labels[y] for y in path]
        if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
            return Sentence(tokens, labels=labels)
        return Generated(tokens, labels)

    def to_file(self) -> File:
        """Return the state as a header of plain data and arrays; see docs/format.md."""
        emission = self.emission.to_file()
        header: dict[str, Any] = {
            "labels": list(self.emission.labels),
            "constraints": self.constraints.to_dict(),
            "emission": to_plain(self.emission) | emission.header,
            "training": self.training,
        }
        if self.history:
            header["history"] = [record.to_row() for record in self.history]
        return File(header, emission.arrays, emission.unverified) | self.chain.to_file()

    @classmethod
    def from_file(cls, file: File, smoothing: Smoothing) -> HiddenMarkov:
        """Make a model from the result of `to_file`, which is not trusted.

        Raises
        ------
        ModelFileError, ValueError, KeyError
            If its parts do not fit together.
        """
        header = file.header
        labels = tuple(checks.label_names(header["labels"]))
        if not labels:
            raise ModelFileError(where="labels", expected="at least one label", found="none")
        smoothing = replace(smoothing, stop=bool(header["stop"]))  # as fitted, not as set later
        emission = from_plain(header["emission"]).bind(labels, smoothing)
        return cls.join(
            MarkovChain.from_file(file, len(labels)),
            emission.from_file(File(header["emission"], file.arrays, file.unverified)),
            Constraints.from_dict(labels, header["constraints"]),
            dict(header["training"]),
            [Record.from_row(row) for row in header.get("history", [])],
        )


class HiddenMarkovTagger(TableTagger):
    """A tagger that offers the parts of a fitted hidden Markov model as attributes."""

    _fitted: HiddenMarkov = attribute(init=False)

    chain_ = Learned[MarkovChain]()
    emission_ = Learned[Emission]()
    constraints_ = Learned[Constraints]()
    history_ = Learned["list[Record]"](record=True)

    def _model(self, name: str) -> HiddenMarkov:
        """Return the fitted model; ``name`` is the method or attribute that needs it."""
        self._check_fitted(name)
        return self._fitted

    @property
    def scheme_(self) -> str | None:
        """The scheme that constrains predictions."""
        return self.constraints_.scheme

    @property
    def log_start_(self) -> Float64:
        """Log Pr(y_1) [Y]."""
        return self.chain_.log_start

    @property
    def log_transitions_(self) -> tuple[Float64, ...]:
        """Log Pr(y_t | the j labels before), for j from 1 to the order."""
        return self.chain_.log_trans

    log_moves_ = renamed_property("HMM", "log_moves_", "log_transitions_")

    @property
    def log_stop_(self) -> Float64 | None:
        """Log Pr(■ | y) [Y]."""
        return self.chain_.log_stop

    @property
    def transitions_(self) -> Float64:
        """Log Pr(y | y_prev) [Y, Y], in the order of ``labels_``; at order k, after the first."""
        return self.chain_.log_trans[0]

    @property
    def stopped_(self) -> str | None:
        """Why learning stopped: "converged", "max_iterations", …; None if labels were counted."""
        stopped: str | None = self.training_.get("stopped")
        return stopped

    @property
    def startprob_(self) -> Float64:
        """Pr(y_1) [Y], under the name that hmmlearn has for it."""
        return np.exp(self.log_start_)

    @property
    def transmat_(self) -> Float64:
        """Pr(y | y_prev) [Y, Y], under the name that hmmlearn has for it.

        A row sums to 1 together with the probability of stopping.
        """
        return np.exp(self.transitions_)

    @property
    def emissionprob_(self) -> Float64:
        """Pr(v | y) [Y, V] of a `Categorical` emission, under the name that hmmlearn has for it."""
        if not isinstance(self.emission_, Categorical):
            raise AttributeError(f"{type(self.emission_).__name__} has no emissionprob_.")
        return self.emission_.probs_[:, :-1]

    @property
    def n_parameters_(self) -> int:
        """Number of free parameters of chain and emission.

        Without labels, impossible transitions have none, and tied states share those of their
        emission.
        """
        learned = self.training_.get("parameters")
        if learned is not None:
            return int(learned)
        return self.chain_.n_parameters + self.emission_.n_parameters

    def stationary_distribution(self) -> Float64:
        """Return the share of each label in an endless stream of sequences [Y].

        After ■ the stream goes on with a new sequence. A model without stop has one sequence.

        Examples
        --------
        >>> import tagloom as tl
        >>> hmm = tl.HMM.from_probs(
        ...     ["N", "V"], ["can", "fish"],
        ...     start=[0.5, 0.5], trans=[[0.2, 0.8], [0.6, 0.4]], emit=[[0.1, 0.9], [0.7, 0.3]],
        ... )
        >>> hmm.stationary_distribution().round(4)
        array([0.4286, 0.5714])
        """
        return self._model("stationary_distribution").chain.stationary_distribution()

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """`transitions_` by name: (from, to) → log Pr(to | from), without impossible ones."""
        names = self._label_list
        from_, to = np.nonzero(self.transitions_ > -np.inf)
        weights = self.transitions_[from_, to].tolist()
        return {(names[i], names[j]): w for i, j, w in zip(from_, to, weights, strict=True)}

    def filter(self) -> OnlineFilter:
        """Return a filter: the distribution of the present state, one token at a time.

        Returns
        -------
        OnlineFilter
            ``update(x)`` takes a token and returns Pr(y_t | x_1 … x_t).

        Raises
        ------
        ParameterError
            If the emission of a token depends on other tokens or labels.

        Examples
        --------
        >>> import tagloom as tl
        >>> hmm = tl.HMM.from_probs(
        ...     ["N", "V"], ["can", "fish"],
        ...     start=[0.5, 0.5], trans=[[0.2, 0.8], [0.6, 0.4]], emit=[[0.1, 0.9], [0.7, 0.3]],
        ... )
        >>> now = hmm.filter()
        >>> now.update("can"), now.update("fish").round(3)
        (array([0.125, 0.875]), array([0.786, 0.214]))
        """
        from tagloom.models.filters import OnlineFilter

        return OnlineFilter(self._model("filter"))

    @property
    def pairs_(self) -> PairTable | None:
        """Log Pr(w | y, y⁺) − log Pr(w | y), of words that depend on the next label."""
        words = self._model("pairs_").words
        return words.pairs if isinstance(words, LexicalWords) else None

    @property
    def features_(self) -> LinearScores | None:
        """Log Π Pr(x_{t,d} | y) of features other than the word."""
        emission = self.emission_
        return emission.linear if isinstance(emission, Features) else None
