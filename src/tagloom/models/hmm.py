"""The hidden Markov model: a Markov chain over labels plus an emission.

`scores.markov` has the chain, `scores.emissions` the emissions, `hidden` the fitted state,
`conversions` the model in other forms. This file has the parameters, `fit` and the interface.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeAlias

import numpy as np

from tagloom import checks, features
from tagloom.errors import LabelError
from tagloom.models import constraints
from tagloom.models.conversions import Convertible
from tagloom.models.emissions import (
    MOVED,
    choose_emission,
    gather_options,
    join_nested,
    upgrade_header,
    warn_moved,
)
from tagloom.models.hidden import HiddenMarkov
from tagloom.models.labelled import read_labelled
from tagloom.models.shared import ConstraintParameters, LabelParameters
from tagloom.parameters import choice, count, flag, names, number
from tagloom.scores.emissions import Emission
from tagloom.scores.emissions.base import from_plain, to_plain
from tagloom.scores.markov import MarkovChain, check_size, count_ngrams
from tagloom.scores.parts import Parts
from tagloom.scores.smoothing import Smoothing
from tagloom.storage import File
from tagloom.trellis import Trellis

_DEPRECATED = "Deprecated: pass it to ``emissions=tl.emissions.Words(...)``."

RandomState: TypeAlias = "int | np.random.Generator | None"  # as text, for a quick start


class HMM(ConstraintParameters, LabelParameters, Convertible):
    r"""A hidden Markov model.

    A sentence begins at ♦, each label depends on the k labels before it, each token on its label,
    and ■ ends the sentence::

        Pr(x, y) = Π_t Pr(y_t | y_{t-k} … y_{t-1}) · Pr(x_t | y_t) · Pr(■ | y_T)

    The transitions form a Markov chain; Pr(x_t | y_t) is the *emission*, an object that can be
    replaced. Both are counted in one pass over the data. The predicted labels are the most
    probable ones given the tokens, found by Viterbi.

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
        The training record.

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
    """

    decodes_natively = True

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

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Count tokens, labels and transitions of labelled sentences.

        Parameters
        ----------
        X : Corpus, or sequence of sentences
        y : sequence of list of str, optional
            The labels; a `Corpus` contains them.
        sample_weight : sequence of float, optional
            The weight of each sentence.

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
        read = read_labelled(X, y, sample_weight, self.labels)
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
            self.constraints, gold, read.rows, read.offsets, stacklevel=2
        )
        chain, emission = MarkovChain.from_counts(counts, smoothing), emission.update(stats)
        allowed = constraints.resolve(self.constraints, scheme, gold, read.sentences, read.rows)
        self._fitted = HiddenMarkov.join(chain, emission, allowed, read.record(data, began))
        return self

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
        params = gather_options(self.get_params())
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
        tagger = cls(**params)
        smoothing, _ = tagger._check_parameters()
        model = HiddenMarkov.from_file(file, smoothing)
        if "constraints" not in params:
            tagger.constraints = model.constraints.spec
        tagger._fitted = model
        return tagger
