"""The hidden Markov model: a Markov chain over labels plus an emission.

`scores.markov` has the chain, `scores.emissions` the emissions, `hidden` the fitted state,
`conversions` the model in other forms. This file has the parameters, `fit` and the interface.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from tagloom import checks, features
from tagloom.errors import LabelError, ParameterError
from tagloom.models import constraints
from tagloom.models.capabilities import Capability
from tagloom.models.conversions import Convertible
from tagloom.models.data import as_weights
from tagloom.models.emissions import (
    MOVED,
    choose_emission,
    gather_options,
    join_nested,
    upgrade_header,
    warn_moved,
)
from tagloom.models.hidden import HiddenMarkov
from tagloom.models.labelled import Labelled, read_labelled
from tagloom.models.shared import ClusterParameters, ConstraintParameters, LabelParameters
from tagloom.models.taggers import Labellings
from tagloom.models.unlabelled import (
    LearningParameters,
    choose_emission_of_states,
    from_plain_params,
    has_labels,
    learn_hidden,
    read_sequences,
    to_plain_params,
)
from tagloom.parameters import choice, count, flag, names, number
from tagloom.records import replace
from tagloom.scores.emissions import Emission
from tagloom.scores.emissions.base import from_plain, to_plain
from tagloom.scores.markov import MarkovChain, check_size, count_ngrams
from tagloom.scores.parts import Parts
from tagloom.scores.smoothing import Smoothing
from tagloom.sequences.sources import Files
from tagloom.storage import File
from tagloom.trellis import Trellis

if TYPE_CHECKING:
    from tagloom.training import Listener

_DEPRECATED = "Deprecated: pass it to ``emissions=tl.emissions.Words(...)``."

RandomState: TypeAlias = "int | np.random.Generator | None"  # as text, for a quick start


class HMM(
    LearningParameters, ConstraintParameters, ClusterParameters, LabelParameters, Convertible
):
    r"""A hidden Markov model.

    A sentence begins at ♦, each label depends on the k labels before it, each token on its label,
    and ■ ends the sentence::

        Pr(x, y) = Π_t Pr(y_t | y_{t-k} … y_{t-1}) · Pr(x_t | y_t) · Pr(■ | y_T)

    The transitions form a Markov chain; Pr(x_t | y_t) is the *emission*, an object that can be
    replaced. With labels, both are counted in one pass over the data. Without labels, or with some,
    an algorithm of `tagloom.learners` learns them, by default expectation maximisation. The
    predicted labels are the most probable ones given the tokens, found by Viterbi.

    Attributes
    ----------
    labels_ : ndarray of str, shape (Y,)
    chain_ : MarkovChain
        Start, transitions and stop.
    emission_ : Emission
        The fitted emission.
    log_start_, log_transitions_, log_stop_
        Arrays of the chain; see `MarkovChain`.
    training_ : dict
        The training record. Without labels: the objective of each restart, re-seeded states.
    history_ : list of Record
        The objective after each iteration, with the prior; empty if labels were counted.
    stopped_ : str or None
        Why learning without labels stopped.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
    >>> tagger = tl.HMM(emissions=tl.emissions.Words(rare=5)).fit(X, y)
    >>> tagger.predict([["they", "can", "swim"]])
    [['N', 'V', 'V']]
    >>> tagger.generate(random_state=1).labels
    ['N', 'V', 'V']

    Two states of symbols, learned without labels:

    >>> hmm = tl.HMM(n_states=2, restarts=3).fit([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1]])
    >>> hmm.predict([[0, 0, 1, 1]])
    [['0', '0', '1', '1']]
    """

    decodes_natively = True
    capabilities = Convertible.capabilities | {Capability.OPEN_LABELS}

    order: int = count(
        default=1,
        least=1,
        kw_only=False,
        help="Number of preceding labels that each label depends on.",
    )
    smoothing: str = choice(
        default="witten-bell",
        choices=("witten-bell", "interpolation", "add-k"),
        help="How transition probabilities are smoothed.",
        details='"witten-bell" interpolates a history with the shorter one the more, the more '
        'different labels followed it; "interpolation" has one weight for all histories of a '
        'length, set by deleted interpolation; "add-k" adds ``k`` to each count.',
    )
    k: float = number(
        default=1.0,
        least=0,
        help="Pseudo-count of add-k for each transition; 0 gives relative frequencies.",
    )
    stop: bool = flag(
        default=True,
        help="Whether the end of a sentence is part of the model.",
        details="It depends on the last label only.",
    )
    emissions: Emission | Sequence[str] | None = names(
        default=None,
        separator=";",
        type="Emission or list of str",
        help="Templates of the features that labels emit; by default words.",
        details="Or an emission of `tagloom.emissions`; by default ``Words()``. Templates are a "
        "shorthand for ``Features(templates)``. Searches and `set_params` reach the parameters of "
        "an emission as ``emissions__rare``.",
    )
    emission_smoothing: float | None = number(
        default=None,
        least=0,
        help="Pseudo-count of the prior that a word's spelling gives, 0.2 by default.",
        details=_DEPRECATED,
    )
    unknown: float | None = number(
        default=None,
        least=0,
        help="The probability of an unknown word, by default the share of words that occur once.",
        details=_DEPRECATED,
    )
    max_suffix: int | None = count(
        default=None,
        help="Length of the longest ending by which unknown words are scored, 5 by default.",
        details=_DEPRECATED,
    )
    rare: int | None = count(
        default=None,
        least=1,
        help="Words that occur at most this often represent unknown words, 10 by default.",
        details=_DEPRECATED,
    )
    fold_case: bool | None = flag(
        default=None,
        help="Whether unknown words are scored like known ones that differ in capitals only.",
        details=_DEPRECATED,
    )
    min_count: int | None = count(
        default=None,
        least=1,
        help="Words that occur less often are treated as unknown, 1 by default.",
        details=_DEPRECATED,
    )
    lexical: int | None = count(
        default=None,
        least=1,
        help="Words that occur at least this often depend on the label after theirs, too.",
        details=_DEPRECATED,
    )

    def __post_init__(self) -> None:
        """Warn about parameters that moved to the emission."""
        warn_moved(self._moved_options())

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Make a model from command-line options, which describe the emission, too."""
        return cls(**gather_options(options))

    # ---- learning --------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        lengths: Any = None,
        callback: Listener | None = None,
        progress: bool | None = False,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Count the tokens, labels and transitions of labelled sentences; or learn without labels.

        Labels are counted where all of them are known. Otherwise ``algorithm`` learns the model:
        from ``n_states`` unnamed states, from the names in ``labels``, or from labels of which some
        are open. A `TagDictionary` in ``constraints`` restricts the labels of words while learning.

        Parameters
        ----------
        X : Corpus, or sequence of sequences
            Or one array or data frame, a single sequence unless ``lengths`` cuts it. Tokens are
            words, or rows of numbers, as the emission requires.
        y : sequence of list of str, None or set, optional
            The labels; a `Corpus` contains them. None is an unknown label, a set one of several.
        sample_weight : sequence of float, optional
            The weight of each sentence.
        lengths : sequence of int, optional
            Lengths of the sequences that are joined in X.
        callback : callable, optional
            Called with a `Record` after each iteration.
        progress : bool, optional
            Whether to show a progress bar on stderr; None: if that is a terminal.
        checkpoint : path, optional
            File to which learning is saved, and from which it resumes with the same numbers.

        Returns
        -------
        self

        Raises
        ------
        SentenceError, LabelError
            If the data are wrong; the message names the sentence.
        """
        began = time.perf_counter()
        smoothing, spec = self._check_parameters()
        run: dict[str, Any] = {"callback": callback, "progress": progress, "checkpoint": checkpoint}
        if isinstance(X, Files):
            _check_no_more({"y": y, "sample_weight": sample_weight, "lengths": lengths})
            from tagloom.models.counting import fit_files  # here, for a quick start

            self._fitted = fit_files(self, X, smoothing, spec, began, run)
            return self
        if lengths is not None or not self._counts_labels(X, y):
            sequences = read_sequences(X, lengths)
            X = X if sequences is X else sequences
        if self._counts_labels(X, y):
            may_be_open = self.takes_open_labels
            read = read_labelled(X, y, sample_weight, self.labels, may_be_open=may_be_open)
            if not read.is_open:
                self._fitted = self._count(read, smoothing, spec, began)
                return self
            y = read.rows
        elif y is None and not self.learns_states and has_labels(X, None):
            y = [list(s.labels) for s in X]
        spec = choose_emission_of_states(self, spec, y)
        self._fitted = learn_hidden(self, spec, smoothing, X, y, sample_weight, began, **run)
        return self

    #: Whether `fit` takes `tagloom.files`.
    takes_files = True

    def _counts_labels(self, X: Any, y: Any) -> bool:
        """Whether to count labels, rather than to learn without them."""
        if self.algorithm is not None:
            return self.algorithm == "count"
        if self.n_states is not None:
            return False
        return self.labels is None or y is not None or has_labels(X, None)

    def _count(
        self, read: Labelled, smoothing: Smoothing, spec: Emission, began: float
    ) -> HiddenMarkov:
        """Count labelled sentences."""
        Y = len(read.labels)
        check_size(self.order, Y)
        counts = count_ngrams(read.gold, read.offsets, read.weight, Y, self.order)
        if templates := getattr(spec, "templates", None):
            features.Templates(templates).check_labels_unread(read.sentences, read.rows)
        emission = spec.bind(read.labels, smoothing)
        data = emission.encode(read.sentences)
        stats = emission.collect(data, read.gold, read.token_weight)
        gold = read.as_gold()
        scheme = constraints.choose_scheme(
            self.constraints, gold, read.rows, read.offsets, stacklevel=3
        )
        chain, emission = MarkovChain.from_counts(counts, smoothing), emission.update(stats)
        allowed = constraints.resolve(self.constraints, scheme, gold, read.sentences, read.rows)
        return HiddenMarkov.join(chain, emission, allowed, read.record(data, began))

    def can(self, capability: Capability) -> bool:
        """Whether the model has a capability, given its parameters."""
        if capability is Capability.OPEN_LABELS:
            return self.algorithm != "count" and self.order == 1 and not self._is_lexical
        if capability is Capability.NUMBERS:
            return self.emissions is not None or self.learns_states
        return super().can(capability)

    @property
    def _is_lexical(self) -> bool:
        """Whether words depend on the next label, which EM does not learn."""
        words: Any = self
        if isinstance(self.emissions, Emission):
            words = getattr(self.emissions, "words", None) or self.emissions
        return getattr(words, "lexical", None) is not None

    def set_params(self, **params: Any) -> Self:
        """Change parameters; those of the emission are named ``emissions__rare`` and so on."""
        return super().set_params(**join_nested(self.emissions, params))

    def _check_parameters(self) -> tuple[Smoothing, Emission]:
        self.check_parameters()
        smoothing = Smoothing(self.smoothing, self.k, self.stop)
        smoothing.check(self.order)
        emission = choose_emission(self.emissions, self._moved_options())
        emission.check()
        return smoothing, emission

    def _moved_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in MOVED}

    @classmethod
    def _given(cls, model: HiddenMarkov, labels: Sequence[str] | None) -> Self:
        emission = type(model.emission)(**model.emission.get_params())
        tagger = cls(stop=model.chain.log_stop is not None, emissions=emission, labels=labels)
        tagger._fitted = model
        return tagger

    # ---- predicting ------------------------------------------------------------------------

    def predict(
        self, X: Any, *, known: Any = None, n_threads: int | None = None, lengths: Any = None
    ) -> Labellings:
        """Find the best labels of each sequence.

        Parameters
        ----------
        X : sequence of sequences, array, or data frame
            As for `fit`.
        known : sequence, optional
            Known labels, one entry per sentence: None, or a list that gives for each token None,
            its label, or a set of allowed labels.
        n_threads : int, optional
            All cores by default; the result does not depend on it.
        lengths : sequence of int, optional
            Lengths of the sequences that are joined in X.

        Returns
        -------
        list of list of str
            NumPy converts it to a one-dimensional array of lists, which scikit-learn needs.
        """
        X = X if lengths is None else read_sequences(X, lengths)
        return super().predict(X, known=known, n_threads=n_threads)

    def _sentences(self, X: Any) -> Sequence[Any]:
        return read_sequences(X)

    def score_sentences(self, sentences: Sequence[Any], n_threads: int | None) -> Trellis:
        """Score sentences under the constraints."""
        model = self._fitted
        batch = model.score(sentences, n_threads or self.n_threads, is_constrained=True)
        return model.constraints.restrict(batch, sentences)

    def score_parts(self, sentence: Any, trellis: Trellis) -> Parts:
        """Name the terms of the scores, for `explain`."""
        return self.emission_.parts(sentence)

    def _scores_per_token(self) -> int:
        Y = len(self.labels_)
        return Y * Y if self.emission_.has_edges else Y

    # ---- likelihood ------------------------------------------------------------------------

    def log_likelihood(self, X: Any, *, lengths: Any = None, n_threads: int | None = None) -> float:
        """Compute Σ log Pr(x), of sequences without their labels.

        Parameters
        ----------
        X : sequence of sequences, array, or data frame
        lengths : sequence of int, optional
            Lengths of the sequences that are joined in X.
        n_threads : int, optional

        Returns
        -------
        float
            −inf if a sequence is impossible. Constraints on predictions do not count.

        Examples
        --------
        >>> import tagloom as tl
        >>> hmm = tl.HMM.from_probs(
        ...     ["N", "V"], ["can", "fish"],
        ...     start=[0.5, 0.5], trans=[[0.2, 0.8], [0.6, 0.4]], emit=[[0.1, 0.9], [0.7, 0.3]],
        ... )
        >>> round(hmm.log_likelihood([["can", "fish"], ["fish"]]), 4)
        -1.8892
        """
        model = self._model("log_likelihood")
        sequences = read_sequences(X, lengths)
        return float(model.log_likelihoods(sequences, n_threads or self.n_threads).sum())

    def aic(self, X: Any, *, lengths: Any = None) -> float:
        """Compute Akaike's information criterion, 2 · parameters − 2 · log-likelihood; lower wins.

        See `log_likelihood` for the arguments, ``n_parameters_`` for the number of parameters.
        """
        return 2 * (self.n_parameters_ - self.log_likelihood(X, lengths=lengths))

    def bic(self, X: Any, *, lengths: Any = None) -> float:
        """Compute the Bayesian criterion, parameters · log tokens − 2 · log-likelihood; lower wins.

        See `log_likelihood` for the arguments, ``n_parameters_`` for the number of parameters.
        """
        sequences = read_sequences(X, lengths)
        penalty = np.log(max(sum(map(len, sequences)), 1)) * self.n_parameters_
        return float(penalty - 2 * self.log_likelihood(sequences))

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None
    ) -> float:
        """Compute the share of tokens that are labelled correctly, or the mean log-likelihood.

        Parameters
        ----------
        X : sequence of sequences, array, or data frame
            A `Corpus` contains the labels.
        y : sequence of list of str, optional
            Without labels the score is the log-likelihood per token.
        sample_weight : sequence of float, optional
            The weight of each sentence.
        lengths : sequence of int, optional
            Lengths of the sequences that are joined in X.

        Returns
        -------
        float
        """
        model = self._model("score")
        sequences = read_sequences(X, lengths)
        if y is not None or (not self.learns_states and has_labels(sequences, None)):
            return super().score(sequences, y, sample_weight)
        logs, tokens = model.log_likelihoods(sequences, self.n_threads), [*map(len, sequences)]
        ones = np.ones(len(logs))
        weight = ones if sample_weight is None else as_weights(sample_weight, len(logs))
        total = float(weight @ np.array(tokens, dtype=float))
        return float(weight @ logs) / total if total else 0.0

    # ---- the joint distribution ------------------------------------------------------------

    def log_joint(self, x: Any, y: Sequence[str]) -> float:
        """Compute log Pr(x, y), of a sentence together with its labels.

        Parameters
        ----------
        x : sentence
        y : sequence of str
            Its labels.

        Returns
        -------
        float
            −inf if it is impossible. An unknown word counts as any unknown word of its spelling.

        Examples
        --------
        >>> import math
        >>> import tagloom as tl
        >>> hmm = tl.HMM.from_probs(
        ...     ["N", "V"], ["can", "fish"],
        ...     start=[0.5, 0.5], trans=[[0.2, 0.8], [0.6, 0.4]], emit=[[0.1, 0.9], [0.7, 0.3]],
        ... )
        >>> round(math.exp(hmm.log_joint(["can", "fish"], ["V", "N"])), 9)  # 0.5 · 0.7 · 0.6 · 0.9
        0.189
        """
        model = self._model("log_joint")
        trellis = model.score(checks.sentences([x]), self.n_threads, is_constrained=False)
        if len(y) != trellis.offsets[-1]:
            raise LabelError(
                where="HMM.log_joint",
                expected=checks.plural(int(trellis.offsets[-1]), "label"),
                found=str(len(y)),
            )
        return float(trellis[0].path_score(list(y)))

    def generate(
        self, random_state: RandomState = None, *, length: int | None = None, **options: Any
    ) -> Any:
        """Draw a sentence with its labels from the model.

        Label after label is drawn given those before it, until ■ is drawn; then a token for each.

        Parameters
        ----------
        random_state : int, Generator or None
            A generator continues from call to call.
        length : int, optional
            Number of tokens. Required by a model without stop; one with a stop then ignores it.
        **options
            Passed to ``generate`` of the emission; `Words` has ``unknown``, what to write for an
            unknown word, ``"<unknown>"`` by default.

        Returns
        -------
        Sentence
            Or, where tokens are not words, a named tuple with ``tokens`` and ``labels``.

        Raises
        ------
        ParameterError
            If a model without stop is given no length, or its emission cannot generate.

        Examples
        --------
        >>> import tagloom as tl
        >>> hmm = tl.HMM.from_probs(
        ...     ["N", "V"], ["can", "fish"],
        ...     start=[0.5, 0.5], trans=[[0.2, 0.8], [0.6, 0.4]], emit=[[0.1, 0.9], [0.7, 0.3]],
        ... )
        >>> sentence = hmm.generate(random_state=0, length=4)
        >>> sentence.tokens, sentence.labels
        (['fish', 'fish', 'fish', 'fish'], ['V', 'N', 'N', 'N'])
        """
        model = self._model("generate")
        if length is not None:
            checks.count(length, "length")
        return model.generate(np.random.default_rng(random_state), length, **options)

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the fitted state as a header of plain data and arrays."""
        model = self._model("to_file")
        params = to_plain_params(gather_options(self.get_params()))
        for name in ClusterParameters.parameters:  # where it was trained is not part of a model
            params.pop(name, None)
        if isinstance(params["emissions"], Emission):
            params["emissions"] = to_plain(params["emissions"])
        if not (self.constraints is None or isinstance(self.constraints, str)):
            params.pop("constraints")  # the resolved ones are stored
        for name in ("labels", "emissions"):
            if isinstance(params[name], Sequence) and not isinstance(params[name], str):
                params[name] = list(params[name])
        return model.to_file() | File({"params": params})

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a model from the result of `to_file`; everything is checked."""
        if "emission" not in file.header:
            file = replace(file, header=upgrade_header(file.header))
        params = dict(file.header["params"])
        if isinstance(params["emissions"], dict):
            params["emissions"] = from_plain(params["emissions"])
        tagger = cls(**from_plain_params(params))
        smoothing, _ = tagger._check_parameters()
        model = HiddenMarkov.from_file(file, smoothing)
        if "constraints" not in params:
            tagger.constraints = model.constraints.spec
        tagger._fitted = model
        return tagger


def _check_no_more(given: Mapping[str, Any]) -> None:
    """Raise if arguments are given that files replace."""
    for name, value in given.items():
        if value is not None:
            raise ParameterError(
                parameter=name,
                expected="None with files, which contain the sentences and labels",
                found=checks.show(value),
            )
